"""Verdicts, comparisons and their order."""

from __future__ import annotations

import enum

import msgspec


class Verdict(enum.StrEnum):
    """The answer to one promise. Only OK and IMPROVED end a process with 0."""

    OK = "OK"
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO BASELINE"
    VOID = "VOID"

    @property
    def passes(self) -> bool:
        """Whether this verdict lets a build pass."""
        return self in (Verdict.OK, Verdict.IMPROVED)

    @property
    def exit_code(self) -> int:
        """Exit code of a process whose worst verdict this is: 0, 1, 3 (VOID), 4 (NO BASELINE), 5 (INCONCLUSIVE)."""
        return _EXIT[self]


_EXIT = {
    Verdict.OK: 0,
    Verdict.IMPROVED: 0,
    Verdict.REGRESSED: 1,
    Verdict.VOID: 3,
    Verdict.NO_BASELINE: 4,
    Verdict.INCONCLUSIVE: 5,
}
USAGE_ERROR = 2
"""Exit code of a wrong option or file."""
INFRASTRUCTURE_ERROR = 6
"""Exit code of a server, host or tool that broke: neither green nor a regression."""

_SEVERITY = (
    Verdict.REGRESSED,
    Verdict.VOID,
    Verdict.NO_BASELINE,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.OK,
)


def severity(verdict: Verdict) -> int:
    """Return the rank of a verdict, 0 for the worst; the key that sorts worst first."""
    return _SEVERITY.index(verdict)


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The judgement of one metric in one cell.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        unit: Symbol of the base unit.
        better: Direction of the metric.
        verdict: The judgement.
        reason: Why, in one sentence with figures.
        baseline: Median of the baseline's launches, or None.
        now: Median of the launches that were judged, or None.
        effect: Relative change signed so that positive is worse, unrounded; None where it cannot be formed.
        tolerance: Largest worsening that the owner accepts, a fraction.
        bar: Worsening at which this comparison calls a regression (tolerance widened by measured noise), a fraction.
        mde: Smallest true worsening that the planned launches detect, a fraction: the limit that noise sets; None
            where unknown.
        baseline_launches: Launches in the baseline.
        launches: Launches that were judged.
        ceiling: Absolute limit, or None.
        warnings: Things a reader should know: provisional baseline, retried, short history.
        attribution: Where the time went, where traces say so.
    """

    cell: str
    metric: str
    unit: str
    better: str
    verdict: Verdict
    reason: str
    baseline: float | None = None
    now: float | None = None
    effect: float | None = None
    tolerance: float | None = None
    bar: float | None = None
    mde: float | None = None
    baseline_launches: int = 0
    launches: int = 0
    ceiling: float | None = None
    warnings: tuple[str, ...] = ()
    attribution: tuple[str, ...] = ()


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of some verdicts.

    Raises:
        ValueError: There are none: an empty comparison is no verdict.
    """
    if not verdicts:
        raise ValueError("no verdicts: nothing was compared")
    return min(verdicts, key=severity)


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that was decided about one result.

    Attributes:
        result_id: The result that was judged.
        scenario: Its scenario.
        verdict: The worst verdict over all comparisons, after the family rule.
        comparisons: One a gated metric and cell, in the declared order, absent ones included.
        observed: The same for metrics that are shown and not gated.
        baseline_path: File the baseline was read from, or None.
        baseline_launches: Launches it holds.
        baseline_days: Distinct days on which they were made.
        provisional: Whether the baseline is too small to be trusted fully (fewer than 10 launches or 3 days).
        differences: Identity fields that differ, as (field, baseline, now); with NO BASELINE the keys that kept the
            two apart, else notes.
        doubts: (cell, check, reason, advice) of everything that made a run void or was noted.
        warnings: Things a reader should know about the whole judgement.
        launches: Launches that were judged.
    """

    result_id: str
    scenario: str
    verdict: Verdict
    comparisons: tuple[Comparison, ...]
    observed: tuple[Comparison, ...] = ()
    baseline_path: str | None = None
    baseline_launches: int = 0
    baseline_days: int = 0
    provisional: bool = False
    differences: tuple[tuple[str, str, str], ...] = ()
    doubts: tuple[tuple[str, str, str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    launches: int = 0
