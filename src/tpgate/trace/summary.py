"""What all ranks of one capture say together: the form that is stored, shown and compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from tpgate.trace.breakdown import Breakdown, break_down
from tpgate.trace.events import Trace
from tpgate.trace.form import CategoryTime, Collectives, IdleTime, KernelTime, Summary
from tpgate.trace.merge import Merged, merge
from tpgate.trace.prefill import without_prefill
from tpgate.trace.taxonomy import CATEGORIES, Taxonomy, default

__all__ = ["CategoryTime", "Collectives", "IdleTime", "KernelTime", "Summary", "summarise"]

_KERNELS = 40
_WARN_UNCLASSIFIED = 0.05


def summarise(
    traces: Sequence[Trace],
    *,
    taxonomy: Taxonomy | None = None,
    batch: float | None = None,
    batch_source: str = "given",
) -> Summary:
    """Return what the ranks of one capture say together.

    Args:
        traces: One trace a rank; at least one, each with GPU events.
        taxonomy: Rules; the default ones where None.
        batch: Requests a step, used where the trace does not annotate its steps.
        batch_source: Where ``batch`` comes from, in words.

    Raises:
        ValueError: There is no trace, or one has no GPU event.
    """
    if not traces or not all(len(trace) for trace in traces):
        raise ValueError("every rank needs a trace with GPU events")
    taxonomy = taxonomy or default()
    cut = [without_prefill(trace)[0] for trace in traces]
    ranks = [break_down(trace, taxonomy) for trace in cut]
    reference = sorted(ranks, key=lambda rank: rank.busy_s)[len(ranks) // 2]
    steps, annotated = _steps(ranks)
    if annotated is not None:
        batch, batch_source = annotated, "step annotations"
    tokens = steps * batch if steps and batch else None
    middle = _median(ranks)
    extends = max(rank.steps.extends for rank in ranks)
    busy_s = middle(lambda rank: rank.busy_s)
    return Summary(
        ranks=[rank.label for rank in ranks],
        steps=steps,
        steps_source=reference.steps.source,
        batch=batch,
        batch_source=batch_source if batch else "not known",
        tokens=tokens,
        extends=extends,
        span_s=middle(lambda rank: rank.span_s),
        busy_s=busy_s,
        busy_share=middle(lambda rank: rank.busy_share),
        overlap=middle(lambda rank: rank.sum_s / rank.busy_s if rank.busy_s else 0.0),
        kernels=round(middle(lambda rank: rank.kernels)),
        graph_share=middle(lambda rank: rank.graph_share),
        categories={name: _category(ranks, name, tokens) for name in CATEGORIES},
        parts={name: _category(ranks, name, tokens) for name in sorted({p for r in ranks for p in r.parts})},
        fused_s=reference.fused_s,
        exposed_s=middle(lambda rank: rank.exposed_communication_s),
        idle=_idle(ranks),
        collectives=_collectives(merge(cut, taxonomy)) if len(cut) > 1 else None,
        top=_top(reference),
        unclassified=list(reference.unclassified),
        rank_busy_s={rank.label: rank.busy_s for rank in ranks},
        spread=_spread(ranks),
        taxonomy=taxonomy.digest,
        device=traces[0].device_name,
        notes=_notes(traces, reference, extends),
    )


def _steps(ranks: Sequence[Breakdown]) -> tuple[int | None, float | None]:
    """Return the decode steps and the annotated batch, medians over ranks."""
    counts = [rank.steps.count for rank in ranks if rank.steps.count]
    batches = [rank.steps.batch for rank in ranks if rank.steps.batch]
    return statistics.median_low(counts) if counts else None, statistics.median(batches) if batches else None


def _spread(ranks: Sequence[Breakdown]) -> dict[str, tuple[float, float]]:
    return {
        "gpu_busy_share": _range(ranks, lambda rank: rank.busy_share),
        "attention_share": _range(ranks, lambda rank: rank.share("attention")),
        "communication_share": _range(ranks, lambda rank: rank.share("communication")),
    }


def _median(ranks: Sequence[Breakdown]) -> Callable[[Callable[[Breakdown], float]], float]:
    return lambda read: float(statistics.median(read(rank) for rank in ranks))


def _range(ranks: Sequence[Breakdown], read: Callable[[Breakdown], float]) -> tuple[float, float]:
    values = [read(rank) for rank in ranks]
    return min(values), max(values)


def _category(ranks: Sequence[Breakdown], name: str, tokens: float | None) -> CategoryTime:
    seconds = statistics.median(rank.busy(name) for rank in ranks)
    found = [part for rank in ranks if (part := rank.categories.get(name) or rank.parts.get(name))]
    return CategoryTime(
        share=statistics.median(rank.share(name) for rank in ranks),
        seconds=seconds,
        per_token_s=seconds / tokens if tokens else None,
        calls=round(statistics.median(part.calls for part in found)) if found else 0,
    )


def _idle(ranks: Sequence[Breakdown]) -> IdleTime:
    middle = _median(ranks)
    return IdleTime(
        seconds=middle(lambda rank: rank.idle_s),
        launch_bound_s=middle(lambda rank: rank.idle.launch_bound_s),
        queued_s=middle(lambda rank: rank.idle.queued_s),
        unknown_s=middle(lambda rank: rank.idle.unknown_s),
        gaps=round(middle(lambda rank: rank.idle.gaps)),
        median_s=middle(lambda rank: rank.idle.median_s),
        longest_s=max(rank.idle.longest_s for rank in ranks),
    )


def _collectives(merged: Merged) -> Collectives:
    return Collectives(
        matched=merged.matched,
        unmatched=merged.unmatched,
        intrinsic_s=merged.intrinsic_s,
        wait_s=merged.wait_s,
        wait_share=merged.wait_share,
        skew_s=merged.skew_s,
        straggler=merged.straggler,
        last=dict(zip(merged.labels, merged.last, strict=True)),
        rank_wait_s=dict(zip(merged.labels, merged.rank_wait_s, strict=True)),
        rank_communication_s=dict(zip(merged.labels, merged.rank_communication_s, strict=True)),
        families=[
            {
                "family": group.family,
                "matched": group.matched,
                "unmatched": group.unmatched,
                "intrinsic_s": group.intrinsic_s,
                "wait_s": group.wait_s,
                "median_s": group.median_s,
                "longest_s": group.longest_s,
                "skew_s": group.skew_s,
            }
            for group in merged.groups
        ],
    )


def _top(rank: Breakdown) -> list[KernelTime]:
    return [
        KernelTime(
            family=kernel.family,
            name=kernel.name,
            category=kernel.category,
            part=kernel.part,
            calls=kernel.calls,
            seconds=kernel.sum_s,
            median_s=kernel.median_s,
            share=kernel.sum_s / rank.sum_s if rank.sum_s else 0.0,
        )
        for kernel in rank.top[:_KERNELS]
    ]


def _notes(traces: Sequence[Trace], reference: Breakdown, extends: int) -> list[str]:
    notes = []
    for trace in traces:
        if trace.defects.dropped:
            notes.append(f"{trace.label}: {trace.defects.dropped} of {len(trace)} events dropped or shortened")
        if trace.defects.cut_off:
            notes.append(f"{trace.label}: the file is cut off")
        if trace.defects.slow_path:
            notes.append(f"{trace.label}: unusual order of keys, decoded event by event")
    unknown = reference.share("unclassified")
    if unknown > _WARN_UNCLASSIFIED:
        notes.append(f"{unknown * 100:.1f} % of busy time is in kernels that no rule knows; shares are lower bounds")
    if extends:
        notes.append(f"{extends} prefill steps were in the capture and were cut out")
    return notes
