"""The judgement of a result against its baseline: identity, validity, then every declared check, then families."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from statistics import median
from typing import Any

import msgspec

from tpgate.baseline.contract import Demand, Gathered, demands, dropped_promises, gather, observed_names
from tpgate.baseline.key import explain
from tpgate.baseline.panel import settle
from tpgate.baseline.schema import Baseline
from tpgate.measure.definitions import METRICS, metric
from tpgate.measure.result import Result
from tpgate.stats.bars import PLANNED_LAUNCHES
from tpgate.stats.compare import Check, breaks_ceiling, compare
from tpgate.stats.verdict import Comparison, Judgement, Verdict, worst

OBSERVED_TOLERANCE = 0.10
"""Tolerance with which metrics that nobody gates are shown."""

STALE_DAYS = 90
"""Age of a baseline from which a reader is told."""

_Row = tuple[Demand, Gathered, Check | None, Comparison]


def _bare(demand: Demand, verdict: Verdict, reason: str, values: Sequence[float] = (), stored: int = 0) -> Comparison:
    definition = metric(demand.metric)
    return Comparison(
        cell=demand.cell,
        metric=demand.metric,
        unit=definition.unit.symbol,
        better=definition.better.value,
        verdict=verdict,
        reason=reason,
        now=median(values) if values else None,
        tolerance=demand.tolerance,
        launches=len(values),
        baseline_launches=stored,
        ceiling=demand.ceiling,
    )


def _without(demand: Demand, gathered: Gathered, reason: str) -> Comparison:
    """Judge what can be judged without a baseline: validity, and the absolute limit."""
    if gathered.verdict is not None:
        return _bare(demand, gathered.verdict, gathered.reason)
    better = metric(demand.metric).better
    if breaks_ceiling(median(gathered.values), demand.ceiling, better):
        return _bare(demand, Verdict.REGRESSED, f"beyond the absolute limit; {reason}", gathered.values)
    return _bare(demand, Verdict.NO_BASELINE, reason, gathered.values)


def _no_entry(demand: Demand, result: Result, baseline: Baseline) -> str | None:
    """Return why the baseline has nothing to compare this check with, or None where it has."""
    cell, name = demand.cell, demand.metric
    if cell in result.cells and cell not in baseline.cells:
        return f"the baseline has no cell {cell}: take it in with tpgate refresh"
    run = result.launches[0].runs.get(cell)
    if run is not None and cell in baseline.cells and run.load_digest != baseline.cells[cell]:
        return f"cell {cell} drives another load now (digest {run.load_digest}, baseline {baseline.cells[cell]})"
    if not baseline.values(cell, name):
        return f"the baseline has no {name} in cell {cell}: take it in with tpgate refresh"
    if (stored := baseline.metrics[name].estimator) != metric(name).estimator:
        return f"{name} is computed in another way now (estimator {metric(name).estimator}, baseline {stored})"
    return None


def _check(demand: Demand, gathered: Gathered, baseline: Baseline, today: date, planned: int) -> tuple[Check, float]:
    definition = metric(demand.metric)
    override = baseline.tolerance_of(demand.cell, demand.metric, today)
    tolerance = override.tolerance if override else demand.tolerance
    check = compare(
        baseline.values(demand.cell, demand.metric),
        gathered.values,
        better=definition.better,
        tolerance=tolerance,
        noise_floor=definition.noise_floor,
        absolute_floor=definition.absolute_floor,
        ceiling=demand.ceiling,
        provisional=baseline.provisional,
        planned=planned,
    )
    return check, tolerance


def _row(demand: Demand, result: Result, baseline: Baseline, today: date, planned: int) -> _Row:
    gathered = gather(result, demand.cell, demand.metric)
    if (missing := _no_entry(demand, result, baseline)) is not None or gathered.verdict is not None:
        return demand, gathered, None, _without(demand, gathered, missing or "")
    check, tolerance = _check(demand, gathered, baseline, today, planned)
    comparison = msgspec.structs.replace(
        _bare(demand, check.verdict, check.reason, gathered.values),
        baseline=check.baseline,
        now=check.now,
        effect=check.effect,
        tolerance=tolerance,
        bar=check.bars.bar,
        mde=check.bars.mde,
        baseline_launches=len(baseline.values(demand.cell, demand.metric)),
        warnings=check.warnings,
    )
    return demand, gathered, check, comparison


def check_row(demand: Demand, result: Result, baseline: Baseline, today: date, planned: int) -> Check | None:
    """Return one declared check judged alone, or None where its values or its baseline cannot be judged."""
    return _row(demand, result, baseline, today, planned)[2]


def _observed(result: Result, baseline: Baseline | None, gated: set[tuple[str, str]], today: date) -> list[_Row]:
    rows: list[_Row] = []
    for cell, name in observed_names(result, gated):
        if name not in METRICS:
            continue
        demand = Demand(cell, name, OBSERVED_TOLERANCE)
        if baseline is None:
            gathered = gather(result, cell, name)
            rows.append((demand, gathered, None, _without(demand, gathered, "not gated")))
        else:
            rows.append(_row(demand, result, baseline, today, PLANNED_LAUNCHES))
    return rows


def _doubts(result: Result) -> list[tuple[str, str, str, str]]:
    found = []
    for launch in result.launches:
        found += [(c, d.check, d.reason, d.advice) for c, run in launch.runs.items() for d in run.doubts]
        if launch.failure:
            found.append(("", "launch_failed", f"{launch.launch_id}: {launch.failure}", "see the server's log"))
    return found


def _mixed(result: Result) -> str | None:
    """Return how the launches of a result differ in identity, or None."""
    first = result.launches[0].identity if result.launches else None
    for launch in result.launches[1:]:
        if first is not None and (found := first.differences(launch.identity)):
            return f"launch {launch.launch_id} differs from the first: {explain(found)}"
    return None


def _whole(result: Result) -> list[tuple[Verdict, str]]:
    """Return verdicts that concern the whole result and no single check."""
    found = []
    if not result.complete:
        found.append((Verdict.VOID, "the session did not run to its end"))
    if (mixed := _mixed(result)) is not None:
        found.append((Verdict.VOID, f"mixed launches: {mixed}"))
    found += [(Verdict.VOID, f"launch {one.launch_id} failed: {one.failure}") for one in result.launches if one.failure]
    return found


def _baseline_warnings(baseline: Baseline, result: Result, today: date) -> list[str]:
    found = []
    if baseline.provisional:
        have = f"{len(baseline.launches)} launches on {baseline.days} day(s)"
        found.append(f"provisional baseline ({have}; 10 over 3 days are wanted): its bars are wider")
    age = (today - date.fromisoformat(baseline.newest_day())).days
    if age > STALE_DAYS:
        found.append(f"the baseline's newest launch is {age} days old: refresh it")
    found += [
        f"{entry.cell}:{entry.metric} was accepted worse on {entry.when}, to be looked at again now"
        for entry in baseline.accepted
        if today.isoformat() >= entry.review_by
    ]
    measured = {(cell, name) for one in result.launches for cell, run in one.runs.items() for name in run.values}
    stored = {(cell, name) for one in baseline.launches for cell, values in one.values.items() for name in values}
    gone = sorted(f"{cell}:{name}" for cell, name in stored - measured)
    if result.partial:
        found.append(f"only {', '.join(result.cells)} of {len(baseline.cells)} cells were asked for")
    elif gone:
        found.append(f"in the baseline and not measured now: {', '.join(gone[:5])}{' …' if len(gone) > 5 else ''}")
    return found


def _texts(rows: Sequence[tuple[str, Any, Any]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, str(before), str(now)) for name, before, now in rows)


def _note_differences(baseline: Baseline, result: Result) -> list[tuple[str, Any, Any]]:
    mine, theirs = baseline.identity.notes, result.launches[0].identity.notes
    names = sorted(mine.keys() | theirs.keys())
    return [(n, mine.get(n, "(absent)"), theirs.get(n, "(absent)")) for n in names if mine.get(n) != theirs.get(n)]


def _other_identity(result: Result, baseline: Baseline) -> list[tuple[str, Any, Any]]:
    """Return (field, baseline, now) of everything that keeps the two from being compared at all."""
    if not result.launches:
        return []
    found = baseline.identity.differences(result.launches[0].identity)
    if baseline.scenario != result.scenario:
        found.insert(0, ("scenario", baseline.scenario, result.scenario))
    return found


def _same_code(baseline: Baseline, result: Result, comparisons: Sequence[Comparison]) -> list[str]:
    """Return a warning where a red result has a commit of the baseline's: then the environment moved, not the code."""
    if all(one.verdict is not Verdict.REGRESSED for one in comparisons):
        return []
    now = result.launches[0]
    twin = next((one for one in reversed(baseline.launches) if now.commit and one.commit == now.commit), None)
    if twin is None:
        return []
    before = baseline.identity.notes | twin.notes
    moved = sorted(name for name, value in now.identity.notes.items() if before.get(name) != value)
    listed = ", ".join(f"{name} ({before.get(name)} then, {now.identity.notes[name]} now)" for name in moved)
    what = f"what differs is {listed}" if moved else "nothing that was recorded differs, so it is the host or noise"
    return [f"environment suspected: launch {twin.launch_id} of the baseline ran the same commit {now.commit}; {what}"]


def _dropped(declared: list[Demand], result: Result, baseline: Baseline) -> list[Comparison]:
    """Return a red row for every promise that is no longer declared, except where only some cells were asked for."""
    if result.partial:
        return []
    reason = "promised by the baseline and not declared any more: renamed, removed or filtered out"
    return [
        _bare(Demand(one.cell, one.metric, OBSERVED_TOLERANCE), Verdict.VOID, reason, stored=len(baseline.launches))
        for one in dropped_promises(declared, baseline)
    ]


def judge(
    result: Result,
    baseline: Baseline | None,
    *,
    reason_without: str = "",
    path: object | None = None,
    differences: Sequence[tuple[str, Any, Any]] = (),
    planned: int = PLANNED_LAUNCHES,
    today: date | None = None,
) -> Judgement:
    """Judge every declared check of ``result``; nothing that is missing anywhere is ever green.

    Args:
        result: What was measured.
        baseline: What it is compared with, or None.
        reason_without: Why there is no baseline, where there is none.
        path: File of the baseline.
        differences: Identity fields that kept the nearest baseline from being used, as (field, baseline, now).
        planned: Launches that may be spent; the MDE is theirs.
        today: Day on which waivers and ages are looked at; the current UTC day by default.

    Raises:
        BaselineError: Nothing is declared: an empty comparison is an error and no verdict.
        ConfigError: A gate names an unknown metric.
    """
    day = today or datetime.now(UTC).date()
    declared = demands(result)
    if baseline is not None and (other := _other_identity(result, baseline)):
        reason_without, differences, baseline = f"another identity: {explain(other)}", other, None
    gated = {(demand.cell, demand.metric) for demand in declared}
    whole = _whole(result)
    warnings = [reason for _, reason in whole]
    if result.discarded:
        warnings.append(f"{len(result.discarded)} void launch(es) were made again; they are kept in the result")
    observed = _observed(result, baseline, gated, day)
    if baseline is None or not result.launches:
        reason = reason_without or "there is no baseline for this identity"
        comparisons = [_without(one, gather(result, one.cell, one.metric), reason) for one in declared]
    else:
        rows = [_row(demand, result, baseline, day, planned) for demand in declared]
        comparisons = settle(rows, observed, baseline, day) + _dropped(declared, result, baseline)
        warnings += _baseline_warnings(baseline, result, day) + _same_code(baseline, result, comparisons)
        differences = _note_differences(baseline, result)
    verdicts = [one.verdict for one in comparisons] + [verdict for verdict, _ in whole]
    return Judgement(
        result_id=result.result_id,
        scenario=result.scenario,
        verdict=worst(verdicts),
        comparisons=tuple(comparisons),
        observed=tuple(row[3] for row in observed),
        baseline_path=None if path is None else str(path),
        baseline_launches=len(baseline.launches) if baseline else 0,
        baseline_days=baseline.days if baseline else 0,
        provisional=bool(baseline and baseline.provisional),
        differences=_texts(differences),
        doubts=tuple(_doubts(result)),
        warnings=tuple(warnings),
        launches=len(result.launches),
    )
