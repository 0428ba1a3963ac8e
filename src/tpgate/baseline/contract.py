"""What must be there: the declared cells times the declared gates, and the values that the launches hold for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpgate.baseline.reading import check_number
from tpgate.baseline.schema import Baseline, Promise
from tpgate.errors import BaselineError
from tpgate.measure.definitions import metric
from tpgate.measure.result import Launch, Result, Run, Validity
from tpgate.specs import SCENARIO_CELL, Gate
from tpgate.stats.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Demand:
    """One declared check.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        tolerance: Largest accepted worsening, a fraction.
        ceiling: Absolute limit in base units, or None.
    """

    cell: str
    metric: str
    tolerance: float
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The values of one metric in one cell over all launches, or why they cannot be judged.

    Attributes:
        values: One value a launch, shape (m,); empty exactly where ``verdict`` is set.
        verdict: VOID or INCONCLUSIVE where the values cannot be judged.
        reason: Why.
    """

    values: tuple[float, ...] = ()
    verdict: Verdict | None = None
    reason: str = ""


def _cells_of(gate: Gate, cells: tuple[str, ...]) -> tuple[str, ...]:
    if gate.cells:
        return gate.cells
    return (SCENARIO_CELL,) if metric(gate.metric).source == "scenario" else cells


def demands(result: Result) -> list[Demand]:
    """Return every declared check of ``result`` in the declared order; a name is checked, never passed over.

    Raises:
        ConfigError: A gate names a metric that does not exist, or a tolerance out of range.
        BaselineError: Nothing is declared, a gate names an unknown cell, or a check is declared twice.
    """
    found: dict[tuple[str, str], Demand] = {}
    for name, tolerance, cells, ceiling in result.gates:
        gate = Gate(metric(name).name, tolerance, tuple(cells), ceiling)
        for cell in _cells_of(gate, result.cells):
            if cell not in result.cells and cell != SCENARIO_CELL:
                raise BaselineError(
                    f"{result.result_id}: gate {name} names cell {cell!r}", expected=f"one of {', '.join(result.cells)}"
                )
            if (cell, name) in found:
                raise BaselineError(f"{result.result_id}: {cell}:{name} is gated twice", expected="one gate a check")
            found[cell, name] = Demand(cell, name, gate.tolerance, gate.ceiling)
    if not found:
        raise BaselineError(
            f"{result.result_id}: no cell or no gate is declared, so nothing would be compared",
            expected="at least one gated cell",
            next_step=f"mend the scenario {result.scenario}",
        )
    return list(found.values())


def promises_of(result: Result) -> tuple[Promise, ...]:
    """Return the declared checks in the form in which a baseline stores them."""
    return tuple(
        Promise(cell=one.cell, metric=one.metric, tolerance=one.tolerance, ceiling=one.ceiling)
        for one in demands(result)
    )


def _fatal(run: Run) -> str:
    return "; ".join(f"{doubt.check}: {doubt.reason}" for doubt in run.doubts if doubt.fatal)


def _value(launch: Launch, cell: str, name: str) -> float | Gathered:
    """Return the value of one launch, or the judgement that stands in its place."""
    run = launch.runs.get(cell)
    if run is None:
        why = f" ({launch.failure})" if launch.failure else ""
        return Gathered(verdict=Verdict.VOID, reason=f"cell {cell} was not measured in launch {launch.launch_id}{why}")
    if run.validity is Validity.VOID:
        return Gathered(verdict=Verdict.VOID, reason=f"launch {launch.launch_id} is void: {_fatal(run)}")
    found = run.values.get(name)
    if found is None or found.value is None:
        why = (found.reason if found else None) or "the run does not hold it and does not say why"
        return Gathered(verdict=Verdict.VOID, reason=f"{name} is missing in launch {launch.launch_id}: {why}")
    definition = metric(name)
    where = f"launch {launch.launch_id}, cell {cell}"
    if found.unit != definition.unit.symbol:
        return Gathered(verdict=Verdict.VOID, reason=f"{where}: unit {found.unit!r}, not {definition.unit.symbol!r}")
    try:
        check_number(where, name, found.value)
    except BaselineError as error:
        return Gathered(verdict=Verdict.VOID, reason=error.what)
    if found.samples is not None and found.samples < definition.minimum_samples:
        reason = f"{where}: {name} rests on {found.samples} samples, at least {definition.minimum_samples} are needed"
        return Gathered(verdict=Verdict.INCONCLUSIVE, reason=reason)
    return found.value


def gather(result: Result, cell: str, name: str) -> Gathered:
    """Return the values of metric ``name`` in ``cell``, one a launch.

    A launch without a sound value makes the whole check VOID: leaving it out would let a broken launch hide.
    """
    values: list[float] = []
    for launch in result.launches:
        found = _value(launch, cell, name)
        if isinstance(found, Gathered):
            return found
        values.append(found)
    if not values:
        return Gathered(verdict=Verdict.VOID, reason="no launch was measured")
    return Gathered(values=tuple(values))


def observed_names(result: Result, gated: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (cell, metric) of every known metric that was measured and is not gated, in order of cells and names."""
    cells = (*result.cells, SCENARIO_CELL)
    found = {(cell, name) for launch in result.launches for cell, run in launch.runs.items() for name in run.values}
    return sorted(found - gated, key=lambda row: (cells.index(row[0]) if row[0] in cells else len(cells), row[1]))


def dropped_promises(result_demands: list[Demand], baseline: Baseline) -> list[Promise]:
    """Return what the baseline promises and the result no longer declares: renamed, removed or filtered out."""
    declared = {(demand.cell, demand.metric) for demand in result_demands}
    return [promise for promise in baseline.promises if (promise.cell, promise.metric) not in declared]


def uncovered(baseline: Baseline, checks: Iterable[tuple[str, str]]) -> list[str]:
    """Return the checks, of (cell, metric) each, that the baseline cannot judge, before any launch is spent."""
    return [f"{cell}:{name}" for cell, name in checks if not baseline.values(cell, name)]
