"""Turns a capture into the trace metrics, each present or missing with its reason, and what reports draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tpgate.errors import TpgateError
from tpgate.measure.captured import Profile
from tpgate.measure.definitions.trace import CATEGORIES, METRICS
from tpgate.measure.result import Doubt, Value
from tpgate.trace.diff import compare
from tpgate.trace.events import Trace
from tpgate.trace.reader import read
from tpgate.trace.summary import Summary, summarise
from tpgate.trace.taxonomy import Taxonomy, default

_KERNEL_FLOOR = 16
_DEFECT_SHARE = 0.01
_STEP_SLACK = 2
_UNCLASSIFIED = 0.05
_FULL_SHARE = 0.9
CPU_ENGINE = "no GPU kernels: CPU engine"


def trace_values(profile: Profile) -> tuple[dict[str, Value], list[Doubt], dict[str, Any]]:
    """Return every trace metric, notes that void nothing, and the details that reports and diffs read.

    The details are a :class:`tpgate.trace.summary.Summary` as plain data under ``summary`` where the capture is
    whole, and always what was asked, which files came, and why there is no verdict where there is none.
    """
    try:
        taxonomy = default()
        traces = [read(path) for path in profile.files]
        reasons = [*profile.reasons, *_faults(profile, traces)]
    except TpgateError as error:
        taxonomy, traces, reasons = None, [], [*profile.reasons, error.what]
    doubts = [_note("profile_note", note, "read the notes beside the trace") for note in profile.notes]
    summary: Summary | None = None
    if taxonomy is None or reasons:
        why = "; ".join(reasons)
        doubts += [_note("profile_capture", why, "profile again; the timed values stand")] if why != CPU_ENGINE else []
        values = {definition.name: Value.missing(definition.name, why) for definition in METRICS}
    else:
        summary = _summary(profile, traces, taxonomy)
        doubts += _suspicions(profile, summary)
        values = values_of(summary, profile.ranks)
    return values, doubts, _details(profile, traces, reasons, summary)


def values_of(summary: Summary, ranks: int) -> dict[str, Value]:
    """Return every trace metric of a summary."""
    seconds = {f"{name}_time_per_token": summary.categories[name].seconds for name in (*CATEGORIES, "unclassified")}
    shares = {f"{name}_share": summary.categories[name].share for name in (*CATEGORIES, "unclassified")}
    nccl = summary.parts.get("communication/nccl")
    seconds |= {
        "nccl_time_per_token": nccl.seconds if nccl else 0.0,
        "kernel_time_per_token": summary.busy_s,
        "idle_time_per_token": summary.idle.seconds,
        "exposed_communication_time_per_token": summary.exposed_s,
    }
    shares |= {
        "nccl_share": nccl.share if nccl else 0.0,
        "gpu_busy_share": summary.busy_share,
        "exposed_communication_share": summary.exposed_s / summary.busy_s,
    }
    missing: dict[str, str] = {}
    late = "launch_bound_time_per_token"
    if summary.idle.unknown_s > 0.5 * summary.idle.seconds:
        missing[late] = "the trace does not show the host's launches"
    else:
        seconds[late] = summary.idle.launch_bound_s
    collectives = summary.collectives
    for name, read_from in (("intrinsic", "intrinsic_s"), ("wait", "wait_s")):
        metric = f"communication_{name}_time_per_token"
        if ranks == 1:
            seconds[metric] = 0.0
        elif collectives is None or not collectives.matched:
            missing[metric] = "no collective could be matched over the ranks"
        else:
            seconds[metric] = float(getattr(collectives, read_from))
    values = {name: Value.of(name, value, summary.kernels) for name, value in shares.items()}
    for name, value in seconds.items():
        per_token = summary.per_token(value)
        if per_token is None:
            unknown = f"tokens not known: steps {summary.steps} ({summary.steps_source}), batch {summary.batch}"
            values[name] = Value.missing(name, unknown)
        else:
            values[name] = Value.of(name, per_token, summary.kernels)
    values |= {name: Value.missing(name, reason) for name, reason in missing.items()}
    values["kernels_per_step"] = (
        Value.of("kernels_per_step", summary.kernels / summary.steps, summary.kernels)
        if summary.steps
        else Value.missing("kernels_per_step", f"steps not known ({summary.steps_source})")
    )
    return values


def explain(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return in sentences where the difference between two captures is, from the details that their runs keep.

    Args:
        before: ``Run.details["trace"]`` of the baseline.
        now: The same of the run that was judged.

    Returns:
        Cautions first, then the attribution; empty where one of them has no whole capture.
    """
    try:
        old, new = (msgspec.convert(details.get("summary"), Summary) for details in (before, now))
    except msgspec.ValidationError:
        return ()
    diff = compare(old, new)
    return (*diff.comparable, *diff.words)


def _faults(profile: Profile, traces: list[Trace]) -> list[str]:
    """Return why the files must not be judged."""
    if not traces:
        return [] if profile.reasons else ["no trace file"]
    if "GPU" not in profile.activities and not any(trace.kernels for trace in traces):
        return [CPU_ENGINE]
    found = []
    inside = [trace.rank for trace in traces if trace.rank is not None]
    if len(traces) > 1 and len(inside) == len(traces) and len(set(inside)) < len(traces):
        found.append(f"the files say they are of ranks {inside}: two of one rank, one overwrote the other")
    for trace in traces:
        if trace.kernels < _KERNEL_FLOOR:
            held = ", ".join(f"{count} {name}" for name, count in sorted(trace.categories.items())) or "no event"
            found.append(f"{trace.label}: {trace.kernels} GPU kernels (the file holds {held})")
        elif trace.defects.dropped > _DEFECT_SHARE * len(trace):
            found.append(f"{trace.label}: {trace.defects.dropped} of {len(trace)} events are impossible or double")
        if trace.defects.cut_off:
            found.append(f"{trace.label}: {trace.path.name} is cut off")
    return found


def _summary(profile: Profile, traces: list[Trace], taxonomy: Taxonomy) -> Summary:
    if profile.batch is not None:
        return summarise(traces, taxonomy=taxonomy, batch=profile.batch, batch_source="the server's counters")
    source = "the load's concurrency, not seen to be reached"
    return summarise(traces, taxonomy=taxonomy, batch=float(profile.load.concurrency), batch_source=source)


def _suspicions(profile: Profile, summary: Summary) -> list[Doubt]:
    """Return what is odd about a capture that can be judged all the same."""
    doubts = [_note("profile_trace", note, "read the trace with tpgate trace") for note in summary.notes]
    if summary.steps is None:
        doubts.append(_note("profile_steps", f"steps not known: {summary.steps_source}", "record CPU activities too"))
    elif abs(summary.steps - profile.steps) > _STEP_SLACK:
        seen = f"{summary.steps} decode steps in the trace, {profile.steps} asked ({summary.steps_source})"
        doubts.append(_note("profile_steps", seen, "read the trace: were prefill steps or other requests in it?"))
    wanted = profile.load.concurrency
    if summary.batch is not None and summary.batch < _FULL_SHARE * wanted:
        seen = f"{summary.batch:g} requests a step, {wanted} wanted ({summary.batch_source})"
        doubts.append(_note("profile_batch", seen, "raise the cell's requests, so that the capture finds it full"))
    unknown = summary.categories["unclassified"].share
    if unknown > _UNCLASSIFIED:
        names = ", ".join(name[:60] for name, _ in summary.unclassified[:3])
        seen = f"{unknown * 100:.1f} % of busy time is in kernels that no rule knows: {names}"
        doubts.append(_note("profile_unclassified", seen, "add rules for them (docs/traces.md) and name the file"))
    return doubts


def _note(check: str, reason: str, advice: str) -> Doubt:
    return Doubt(check=check, reason=reason, advice=advice, fatal=False)


def _details(profile: Profile, traces: list[Trace], reasons: list[str], summary: Summary | None) -> dict[str, Any]:
    return {
        "steps_asked": profile.steps,
        "ranks_asked": profile.ranks,
        "activities": list(profile.activities),
        "files": [path.name for path in profile.files],
        "events": [len(trace) for trace in traces],
        "capture_s": profile.seconds,
        "reasons": reasons,
        "notes": list(profile.notes),
        "summary": None if summary is None else msgspec.to_builtins(summary),
        **({} if summary is None else _drawn(summary)),
    }


def _drawn(summary: Summary) -> dict[str, Any]:
    """Return what charts and tables draw: time per token of every category, idle share, ranks, longest kernels."""
    waits = summary.collectives.rank_wait_s if summary.collectives else {}
    return {
        "idle_share": 1 - summary.busy_share,
        "categories": {
            name: {"seconds_per_token": part.per_token_s, "share": part.share}
            for name, part in summary.categories.items()
            if part.calls
        },
        "ranks": {
            label.removeprefix("rank "): {"busy_s": busy, "wait_s": waits.get(label)}
            for label, busy in summary.rank_busy_s.items()
        },
        "top": [[kernel.family, kernel.category, kernel.seconds] for kernel in summary.top[:20]],
    }
