"""Lays a breakdown and a difference out as lines of text. Pure."""

from __future__ import annotations

from tpgate.trace.diff import Diff
from tpgate.trace.summary import CategoryTime, Summary
from tpgate.trace.words import amount, percent

_NAME = 48


def summary_lines(summary: Summary, top: int) -> list[str]:
    """Return a capture as text: what it is, categories, communication, idle, kernels, notes."""
    lines = [*_head(summary), "", *_categories(summary), "", *_idle(summary)]
    if summary.collectives is not None:
        lines += ["", *_collectives(summary)]
    lines += ["", *_kernels(summary, top)]
    if summary.unclassified:
        lines += ["", "no rule knows"]
        lines += [f"  {percent(share):>8}  {name[:100]}" for name, share in summary.unclassified[:5]]
    lines += [f"note: {note}" for note in summary.notes]
    return lines


def diff_lines(diff: Diff, top: int) -> list[str]:
    """Return the difference of two captures as text, worst first."""
    lines = [f"caution: {caution}" for caution in diff.comparable]
    lines += [*diff.words, "", f"{'time per ' + diff.basis:34}{'before':>12}{'now':>12}{'change':>12}{'explains':>10}"]
    for row in diff.rows:
        explains = "—" if row.explains is None else f"{row.explains * 100:.0f} %"
        lines.append(
            f"  {row.name:32}{amount(row.before_s):>12}{amount(row.now_s):>12}{_signed(row.change_s):>12}{explains:>10}"
        )
    lines.append(f"  {'all':32}{amount(diff.before_s):>12}{amount(diff.now_s):>12}{_signed(diff.change_s):>12}")
    lines += ["", f"{'kernel':{_NAME + 2}}{'change':>12}{'calls a step':>16}{'mean before':>13}{'mean now':>12}  how"]
    for kernel in diff.kernels[:top]:
        calls = f"{kernel.calls_before:.4g} → {kernel.calls_now:.4g}"
        means = f"{_or_dash(kernel.mean_before_s):>13}{_or_dash(kernel.mean_now_s):>12}"
        lines.append(f"  {kernel.family[:_NAME]:{_NAME}}{_signed(kernel.change_s):>12}{calls:>16}{means}  {kernel.how}")
    return lines


def _head(summary: Summary) -> list[str]:
    ranks = summary.ranks[0] if len(summary.ranks) == 1 else f"{len(summary.ranks)} ranks (medians)"
    steps = "steps not known" if summary.steps is None else f"{summary.steps} decode steps"
    batch = "batch not known" if summary.batch is None else f"{summary.batch:g} tokens a step ({summary.batch_source})"
    graphs = f"CUDA graphs {percent(summary.graph_share)} of kernels" if summary.graph_share else "no CUDA graphs"
    lines = [
        f"{ranks}, {summary.device or 'GPU not named'}: {summary.kernels} kernels",
        f"{steps} ({summary.steps_source}), {batch}",
        f"GPU busy {percent(summary.busy_share)} of a span of {amount(summary.span_s)}; {graphs}; "
        f"sum of durations / busy time {summary.overlap:.3f}",
    ]
    per_token = summary.per_token(summary.span_s)
    if per_token is not None:
        busy = summary.per_token(summary.busy_s) or 0.0
        lines.append(f"{amount(per_token)} a token: {amount(busy)} busy, {amount(per_token - busy)} idle")
    if len(summary.ranks) > 1:
        low, high = summary.spread["gpu_busy_share"]
        lines.append(f"busy share over ranks: {percent(low)} to {percent(high)}")
    return lines


def _categories(summary: Summary) -> list[str]:
    lines = [f"{'category':28}{'of busy time':>14}{'time':>12}{'per token':>12}{'events':>10}"]
    order = sorted(summary.categories.items(), key=lambda row: -row[1].seconds)
    for name, part in order:
        if not part.calls:
            continue
        lines.append(_line(f"  {name}", part))
        inside = {key: value for key, value in summary.parts.items() if key.startswith(f"{name}/")}
        lines += [_line(f"    {key.partition('/')[2]}", value) for key, value in inside.items() if value.calls]
        if name == "communication":
            exposed = CategoryTime(
                share=summary.exposed_s / summary.busy_s if summary.busy_s else 0.0,
                seconds=summary.exposed_s,
                per_token_s=summary.per_token(summary.exposed_s),
                calls=0,
            )
            lines.append(_line("    exposed (no compute)", exposed))
    lines += [f"  inside kernels of others: {amount(s)} of {name}" for name, s in summary.fused_s.items()]
    return lines


def _line(name: str, part: CategoryTime) -> str:
    per_token = "—" if part.per_token_s is None else amount(part.per_token_s)
    calls = str(part.calls) if part.calls else ""
    return f"{name:28}{percent(part.share):>14}{amount(part.seconds):>12}{per_token:>12}{calls:>10}"


def _idle(summary: Summary) -> list[str]:
    idle = summary.idle
    return [
        f"idle {amount(idle.seconds)} in {idle.gaps} gaps (median {amount(idle.median_s)}, "
        f"longest {amount(idle.longest_s)})",
        f"  host launched too late {amount(idle.launch_bound_s)}, queued in time {amount(idle.queued_s)}, "
        f"launch not in the trace {amount(idle.unknown_s)}",
    ]


def _collectives(summary: Summary) -> list[str]:
    found = summary.collectives
    if found is None:
        return []
    lines = [
        f"{found.matched} collectives matched over the ranks ({found.unmatched} calls not): intrinsic "
        f"{amount(found.intrinsic_s)}, waiting {amount(found.wait_s)} a rank "
        f"({percent(found.wait_share)} of their time)",
        f"  straggler: {found.straggler or 'none stands out'}; ranks arrive {amount(found.skew_s)} apart (median)",
    ]
    lines += [
        f"  {rank:10} last in {found.last[rank]:>5}, in collectives {amount(found.rank_communication_s[rank]):>9}, "
        f"waiting {amount(found.rank_wait_s[rank]):>9}"
        for rank in found.last
    ]
    return lines


def _kernels(summary: Summary, top: int) -> list[str]:
    lines = [f"{'kernel':{_NAME + 2}}{'category':>16}{'of sum':>9}{'calls':>8}{'time':>11}{'median':>11}"]
    lines += [
        f"  {kernel.family[:_NAME]:{_NAME}}{kernel.category:>16}{percent(kernel.share):>9}{kernel.calls:>8}"
        f"{amount(kernel.seconds):>11}{amount(kernel.median_s):>11}"
        for kernel in summary.top[:top]
    ]
    return lines


def _or_dash(seconds: float) -> str:
    return amount(seconds) if seconds else "—"


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{amount(abs(seconds))}"
