"""Taking measured launches into a baseline: merged over days, worst change first, nothing worse without a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec

from tpgate.baseline.assemble import assemble
from tpgate.baseline.diff import Change, changes
from tpgate.baseline.judge import judge
from tpgate.baseline.key import explain
from tpgate.baseline.schema import Accepted, Baseline
from tpgate.baseline.store import BaselineStore
from tpgate.errors import BaselineError
from tpgate.measure.definitions import metric
from tpgate.measure.result import Result
from tpgate.stats.robust import scale
from tpgate.stats.verdict import Verdict, severity

REVIEW_DAYS = 90
"""Days after which the gate reminds of a worse value that was accepted."""

MOST_LAUNCHES = 60
"""Launches that a baseline keeps; beyond that the oldest go."""

SHORTEST_REASON = 10
UNDECIDED = "cannot be judged yet"
"""How a plan's note begins where the launches differ too much to judge by."""
OUTLIER_SCALES = 4.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a refresh would write.

    Attributes:
        baseline: The new content.
        changes: Every change, worst first.
        unexplained: Worse checks without a reason; the refresh is refused while there are any.
        accepted: Names of the worse checks that carry a reason.
        merged: Whether the old launches stay beside the new ones.
        notes: What a reviewer should know.
    """

    baseline: Baseline
    changes: tuple[Change, ...]
    unexplained: tuple[Change, ...] = ()
    accepted: frozenset[str] = frozenset()
    merged: bool = False
    notes: tuple[str, ...] = field(default=())


def checks_of(baseline: Baseline) -> list[tuple[str, str]]:
    """Return (cell, metric) of every promise, in order."""
    return [(one.cell, one.metric) for one in baseline.promises]


def _require_coverage(old: Baseline, new: Baseline) -> None:
    gone_cells = [cell for cell in old.cells if cell not in new.cells]
    mine = checks_of(new)
    gone = [f"{cell}:{name}" for cell, name in checks_of(old) if (cell, name) not in set(mine)]
    if gone_cells or gone:
        raise BaselineError(
            f"the results lack what the baseline of {old.scenario} promises: {', '.join(gone_cells + gone)}",
            expected="every cell and gated metric of the baseline (a filtered run never shrinks it)",
            next_step="measure the whole scenario, or remove the file in a reviewed commit and refresh anew",
        )


def _explain_worse(
    found: Sequence[Change], reasons: Mapping[str, str], who: str, day: date
) -> tuple[list[Accepted], list[Change]]:
    """Return (records of accepted worse values, worse changes without a reason)."""
    worse = {one.name: one for one in found if one.gated and one.worse}
    for name, reason in reasons.items():
        if name not in worse:
            raise BaselineError(
                f"--accept-regression {name}: that check did not become worse",
                expected=f"one of {', '.join(worse)}" if worse else "no such option: nothing became worse",
                next_step="leave the option out",
            )
        if len(reason.strip()) < SHORTEST_REASON:
            raise BaselineError(
                f"--accept-regression {name}: the reason {reason!r} says too little",
                expected=f"at least {SHORTEST_REASON} characters: what made it worse, and where that was decided",
            )
    records = [
        Accepted(
            cell=worse[name].cell,
            metric=worse[name].metric,
            before=worse[name].before or 0.0,
            after=worse[name].after,
            reason=reason.strip(),
            who=who,
            when=day.isoformat(),
            review_by=(day + timedelta(days=REVIEW_DAYS)).isoformat(),
        )
        for name, reason in reasons.items()
    ]
    return records, [one for name, one in worse.items() if name not in reasons]


def _outliers(baseline: Baseline) -> list[str]:
    """Return launches far from the median of a gated check; the median ignores them, a reviewer should not."""
    found = []
    for promise in baseline.promises:
        values = baseline.values(promise.cell, promise.metric)
        middle = baseline.middle(promise.cell, promise.metric)
        spread = scale(values)
        if middle is None or spread is None or len(values) < 5:
            continue
        line = max(OUTLIER_SCALES * spread, OUTLIER_SCALES * metric(promise.metric).noise_floor * abs(middle))
        for launch in baseline.launches:
            value = launch.values[promise.cell][promise.metric]
            if abs(value - middle) > line:
                away = (value - middle) / abs(middle)
                found.append(
                    f"outlier: {promise.cell}:{promise.metric} of launch {launch.launch_id} is {away:+.1%} away"
                )
    return found


def _require_pass(baseline: Baseline, results: Sequence[Result], day: date) -> list[str]:
    """Refuse a baseline that its own launches do not pass; return what they leave open."""
    notes: list[str] = []
    for result in results:
        judgement = judge(result, baseline, today=day)
        failed = [one for one in judgement.comparisons if not one.verdict.passes]
        if not failed and judgement.verdict.passes:
            continue
        failed.sort(key=lambda one: severity(one.verdict))
        texts = [f"{one.cell}:{one.metric} {one.verdict}: {one.reason}" for one in failed]
        if judgement.verdict is Verdict.INCONCLUSIVE and baseline.provisional:
            notes += [f"{UNDECIDED}, measure more launches: {text}" for text in texts]
            continue
        listed = "\n    ".join(texts or list(judgement.warnings))
        raise BaselineError(
            f"{result.result_id} does not pass the baseline made from it:\n    {listed}",
            expected="launches that agree with each other within the tolerance",
            next_step="measure more launches on a quiet host, or accept a larger tolerance in the scenario",
        )
    return notes


def _merge(old: Baseline, new: Baseline) -> Baseline:
    """Return ``new`` with the launches of ``old`` that it lacks in front."""
    launches = {one.launch_id: one for one in (*old.launches, *new.launches)}
    ordered = sorted(launches.values(), key=lambda one: (one.recorded_at, one.launch_id))[-MOST_LAUNCHES:]
    return msgspec.structs.replace(new, launches=tuple(ordered), metrics=old.metrics | new.metrics)


def _merge_notes(old: Baseline, new: Baseline, found: Sequence[Change]) -> list[str]:
    """Return why the old launches cannot stay beside the new ones; empty where they can."""
    notes = []
    if differing := old.identity.differences(new.identity):
        notes.append(f"the identity changed, so the old launches are left behind: {explain(differing)}")
    if old.cells != new.cells or set(checks_of(old)) != set(checks_of(new)):
        notes.append("cells or promises were added, so the old launches, which lack them, are left behind")
    if any(old.metrics[name] != form for name, form in new.metrics.items() if name in old.metrics):
        notes.append("a metric is computed in another way now, so the old launches are left behind")
    moved = [one.name for one in found if one.gated and one.moved]
    if moved:
        notes.append(f"the level moved in {', '.join(moved)}, so the old launches are left behind")
    return notes


def plan(
    old: Baseline | None,
    results: Sequence[Result],
    *,
    reasons: Mapping[str, str] | None = None,
    who: str = "unknown",
    today: date | None = None,
) -> Plan:
    """Work out what taking ``results`` into the baseline ``old`` does; writes nothing.

    Launches are added to the old ones while nothing moved. Where the level of any gated check moved beyond noise,
    or the identity, cells or promises changed, they replace them: a median over two levels would describe neither.

    Args:
        old: The present baseline, or None.
        results: Complete, valid results of one scenario and identity.
        reasons: ``cell:metric`` of a worse value to its reason.
        who: Who accepts it.
        today: Day that is stored; the current UTC day by default.

    Raises:
        BaselineError: A result is partial, void, failed or mixed, coverage would shrink, a reason names no worse
            check or says too little, or the baseline's own source would not pass it.
    """
    day = today or datetime.now(UTC).date()
    new = assemble(results, provenance={"recorded_by": who, "recorded_on": day.isoformat()})
    notes: list[str] = []
    merged = False
    if old is not None:
        _require_coverage(old, new)
    found = changes(old, new)
    records, unexplained = _explain_worse(found, reasons or {}, who, day)
    content = new
    if old is not None:
        notes = _merge_notes(old, new, found)
        merged = not notes
        content = _merge(old, new) if merged else new
        settled = {one.name for one in found if one.moved}
        waivers = [one for one in old.waivers if one.expires >= day.isoformat()]
        kept = tuple(one for one in waivers if f"{one.cell}:{one.metric}" not in settled)
        notes += [f"waiver of {one.cell}:{one.metric} ended or was overtaken" for one in old.waivers if one not in kept]
        content = msgspec.structs.replace(
            content, tolerances=old.tolerances, waivers=kept, accepted=(*old.accepted, *records)
        )
    notes += _require_pass(content, results, day) + _outliers(content)
    if content.provisional:
        notes.append(f"provisional: {len(content.launches)} launches on {content.days} day(s); 10 over 3 are wanted")
    return Plan(content, tuple(found), tuple(unexplained), frozenset(reasons or {}), merged, tuple(notes))


def record_provisional(result: Result, folder: Path, *, who: str = "tpgate", today: date | None = None) -> Path:
    """Record a baseline from one result into ``folder``, a local store that nobody reviews, and return its file.

    Whatever lies there for the scenario is replaced: it belongs to another identity or load, or there would be no
    need to record.

    Raises:
        BaselineError: The result may not become a baseline, or does not pass its own.
    """
    return BaselineStore((folder,)).write(plan(None, [result], who=who, today=today).baseline)
