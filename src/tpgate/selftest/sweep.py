"""Every gated metric of every cell, made worse and better on paper by several sizes, and judged. Pure.

This needs no server: the launches of a healthy result are changed and judged against their own baseline. It proves the
direction, the bar and the exit of each check, which injected faults can only prove for what they move.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tpgate.baseline.contract import Demand, demands
from tpgate.baseline.judge import judge
from tpgate.baseline.schema import Baseline
from tpgate.measure.definitions import metric
from tpgate.measure.result import Launch, Result
from tpgate.stats.family import FAMILY_UNITS
from tpgate.stats.verdict import Comparison, Verdict
from tpgate.units import Better

SIZES = (1.5, 4.0)
"""Changes as multiples of the check's own bar."""
LAUNCHES = 4
"""Copies of the changed launch that are judged: the gate's cap."""
_LEAST_LEFT = 0.02


@dataclass(frozen=True, slots=True)
class Probe:
    """One check that was changed on paper.

    Attributes:
        cell: Cell.
        metric: Metric.
        size: Change, a fraction; positive is worse.
        verdict: Verdict of that check.
        expected: What it must be.
    """

    cell: str
    metric: str
    size: float
    verdict: Verdict
    expected: Verdict

    @property
    def ok(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict is self.expected


def _factor(name: str, size: float) -> float:
    """Return what a value is multiplied with so that it is ``size`` worse; better by the same ratio where negative."""
    worse = 1 + abs(size)
    if metric(name).better is Better.HIGHER:
        worse = max(_LEAST_LEFT, 1 - abs(size))
    return worse if size > 0 else 1 / worse


def _changed(launch: Launch, changes: dict[tuple[str, str], float]) -> Launch:
    runs = dict(launch.runs)
    for (cell, name), factor in changes.items():
        run = runs[cell]
        value = run.values[name]
        if value.value is None:
            continue
        moved = msgspec.structs.replace(value, value=value.value * factor)
        runs[cell] = msgspec.structs.replace(run, values={**run.values, name: moved})
    return msgspec.structs.replace(launch, runs=runs)


def _family(all_demands: list[Demand], one: Demand) -> list[Demand]:
    """Return the checks that must move together: throughput is believed in two cells of a scenario only."""
    if metric(one.metric).unit.symbol not in FAMILY_UNITS:
        return [one]
    return [demand for demand in all_demands if demand.metric == one.metric]


def _row_of(rows: tuple[Comparison, ...], one: Demand) -> Comparison:
    return next(row for row in rows if (row.cell, row.metric) == (one.cell, one.metric))


def sweep(result: Result, baseline: Baseline) -> tuple[Probe, ...]:
    """Change every gated metric of every cell in both directions and return what the gate said.

    A check that cannot get better (0 already) or that is watched in both directions has no green side; one that is not
    measured at all is left to the verdict on the healthy launches themselves.

    Args:
        result: A healthy result; its first launch is changed.
        baseline: The baseline that it is judged against.
    """
    declared = demands(result)
    healthy = judge(result, baseline)
    found = []
    for one in declared:
        plain = _row_of(healthy.comparisons, one)
        if plain.bar is None or not plain.baseline:
            continue
        for size in SIZES:
            for sign in (1, -1):
                if sign < 0 and metric(one.metric).better is Better.NEITHER:
                    continue
                change = sign * size * plain.bar
                changes = {
                    (d.cell, d.metric): _ratio(plain, d, healthy.comparisons, change) for d in _family(declared, one)
                }
                launch = _changed(result.launches[0], changes)
                judged = msgspec.structs.replace(result, launches=(launch,) * LAUNCHES)
                verdict = _row_of(judge(judged, baseline).comparisons, one).verdict
                expected = Verdict.REGRESSED if sign > 0 else Verdict.IMPROVED
                found.append(Probe(one.cell, one.metric, change, verdict, expected))
    return tuple(found)


def _ratio(plain: Comparison, demand: Demand, rows: tuple[Comparison, ...], change: float) -> float:
    """Return the factor that puts a check ``change`` beside its baseline's median, whatever it is now."""
    row = _row_of(rows, demand)
    if not row.now or not row.baseline or not plain.bar:
        return 1.0
    return _factor(demand.metric, change) * row.baseline / row.now
