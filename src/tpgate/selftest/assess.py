"""Whether what was seen is what the table of faults demands. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpgate.measure.result import Result
from tpgate.server.faults.case import Case
from tpgate.stats.verdict import Comparison, Judgement, Verdict

PARTS: dict[str, str] = {
    "attention_time_per_token": "attention",
    "moe_time_per_token": "moe",
    "gemm_time_per_token": "gemm",
    "norm_time_per_token": "norm",
    "communication_intrinsic_time_per_token": "communication",
    "communication_wait_time_per_token": "wait",
    "idle_time_per_token": "idle",
}
"""Metrics of traces that tell where time went, and the category that each stands for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of one injected fault.

    Attributes:
        verdict: The verdict, or ERROR where the server was refused before anything was measured.
        caught_by: Metrics and checks that went red (or green as a gain), worst first.
        category: Where most of the additional time per token is, or None where no trace says so.
        launches: Launches that were spent.
        effect: Largest relative worsening over the metrics that caught it, a fraction; None where there is none.
        reason: Why, in one sentence.
    """

    verdict: str
    caught_by: tuple[str, ...] = ()
    category: str | None = None
    launches: int = 0
    effect: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the detection table.

    Attributes:
        case: The fault.
        seen: What became of it.
        complaints: How that differs from what the table demands; empty where all is as it must be.
    """

    case: Case
    seen: Seen
    complaints: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the fault was caught as it must be."""
        return not self.complaints


def look(result: Result, judgement: Judgement) -> Seen:
    """Return what was seen of a fault in a measured and judged result."""
    verdict = judgement.verdict
    if verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        hits = [row for row in judgement.comparisons if row.verdict is verdict]
        hits.sort(key=lambda row: -abs(row.effect or 0.0))
        caught = tuple(dict.fromkeys(row.metric for row in hits))
        effect, reason = (hits[0].effect, f"{hits[0].cell}: {hits[0].reason}") if hits else (None, "")
    elif verdict is Verdict.NO_BASELINE:
        caught, effect = ("identity",), None
        reason = "; ".join(f"{name}: {before} / {now}" for name, before, now in judgement.differences)
    elif verdict is Verdict.OK:
        caught, effect, reason = (), None, ""
    else:
        caught, reason = _doubted(result, judgement)
        effect = None
    category = category_of((*judgement.comparisons, *judgement.observed))
    return Seen(verdict.value, caught, category, judgement.launches, effect, reason)


def _doubted(result: Result, judgement: Judgement) -> tuple[tuple[str, ...], str]:
    """Return the checks that made the result void, and the first reason.

    Fatal doubts come first. Where there is none, it is a gated metric that is missing: then the notes that say why.
    """
    fatal: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []
    for launch in result.launches:
        for one in (doubt for run in launch.runs.values() for doubt in run.doubts):
            (fatal if one.fatal else notes).append((one.check, one.reason))
        if launch.failure:
            fatal.append(("launch_failed", launch.failure))
    void = [("missing_metric", row.reason) for row in judgement.comparisons if row.verdict is Verdict.VOID]
    found = fatal or [*void, *notes]
    return tuple(dict.fromkeys(check for check, _ in found)), found[0][1] if found else ""


def category_of(rows: Iterable[Comparison]) -> str | None:
    """Return the category whose time per token grew most, or None where none grew or no trace was taken."""
    grown: dict[str, float] = {}
    for row in rows:
        part = PARTS.get(row.metric)
        if part is not None and row.now is not None and row.baseline is not None:
            grown[part] = max(grown.get(part, 0.0), row.now - row.baseline)
    best = max(grown, key=lambda part: grown[part], default=None)
    return best if best is not None and grown[best] > 0 else None


def assess(case: Case, seen: Seen) -> Row:
    """Compare what was seen of a fault with what the table demands."""
    complaints = []
    if seen.verdict != case.expected:
        complaints.append(f"{seen.verdict}, not {case.expected}")
    elif case.caught_by and not set(case.caught_by) & set(seen.caught_by):
        complaints.append(f"caught by {', '.join(seen.caught_by) or 'nothing'}, not by {' or '.join(case.caught_by)}")
    if case.category is not None and seen.category is not None and seen.category != case.category:
        complaints.append(f"attributed to {seen.category}, not to {case.category}")
    return Row(case, seen, tuple(complaints))


def silent_gates(rows: Iterable[Row], gated: Iterable[str]) -> tuple[str, ...]:
    """Return the gated metrics that no injected fault turned red: a gate that cannot fail proves nothing."""
    red = {name for row in rows if row.seen.verdict == Verdict.REGRESSED for name in row.seen.caught_by}
    return tuple(name for name in dict.fromkeys(gated) if name not in red)
