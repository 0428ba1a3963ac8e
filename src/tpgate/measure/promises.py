"""What a scenario promises: every gate with the cells in which it holds."""

from __future__ import annotations

from collections.abc import Collection

from tpgate.errors import ConfigError
from tpgate.measure.definitions import metric
from tpgate.specs import SCENARIO_CELL, Gate, Scenario

Promise = tuple[str, float, tuple[str, ...], float | None]
"""Metric, tolerance (fraction), cells, ceiling (base unit) or None: the stored form of a gate."""


def gated_cells(scenario: Scenario, gate: Gate) -> tuple[str, ...]:
    """Return the cells in which a gate holds: those it names, else every cell in which its metric is measured.

    Raises:
        ConfigError: The metric is unknown, or is measured in no cell of the scenario.
    """
    if gate.cells:
        return gate.cells
    source = metric(gate.metric).source
    if source == "scenario":
        return (SCENARIO_CELL,)
    if source != "trace":
        return tuple(load.cell for load in scenario.cells)
    if not scenario.profile_cells:
        raise ConfigError(
            f"scenario {scenario.name} gates {gate.metric}, which comes from traces, and profiles no cell",
            expected="profile_cells with at least one cell",
            next_step="mend the scenario's definition",
        )
    return scenario.profile_cells


def promises(scenario: Scenario, cells: Collection[str] = ()) -> tuple[Promise, ...]:
    """Return every gate of a scenario with its cells, as results store them.

    Args:
        scenario: The scenario.
        cells: Only these cells were asked for; empty means all. Metrics across cells need all of them.
    """
    found = []
    for gate in scenario.gates:
        held = tuple(cell for cell in gated_cells(scenario, gate) if not cells or cell in cells)
        if held:
            found.append((gate.metric, gate.tolerance, held, gate.ceiling))
    return tuple(found)
