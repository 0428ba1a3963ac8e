"""Tests from scenarios: one a gated metric, cell and scenario, with ids made of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tpgate.errors import ConfigError
from tpgate.measure.definitions import metric
from tpgate.measure.promises import gated_cells
from tpgate.specs import Scenario


def marks_of(scenario: Scenario) -> list[pytest.MarkDecorator]:
    """Return the markers of a scenario's tests: ``gpu(count)``, ``cpu`` or ``standin``."""
    if scenario.server.engine == "standin":
        return [pytest.mark.standin]
    if scenario.server.device == "cpu":
        return [pytest.mark.cpu]
    return [pytest.mark.gpu(count=scenario.server.gpus)]


def generate(metafunc: pytest.Metafunc, scenarios: Mapping[str, Scenario]) -> None:
    """Parametrise a test that takes ``serving`` (and ``cell``) over the scenarios that gate its metric.

    Raises:
        ConfigError: The test has no ``gates`` marker: it would promise nothing.
    """
    wanted = [str(mark.args[0]) for mark in metafunc.definition.iter_markers("gates")]
    if not wanted:
        raise ConfigError(
            f"{metafunc.definition.nodeid}: takes the fixture 'serving' without a 'gates' marker",
            expected='@pytest.mark.gates("output_tokens_per_second")',
        )
    for name in wanted:
        metric(name)
    with_cell = "cell" in metafunc.fixturenames
    parameters = []
    for scenario in scenarios.values():
        for cell in _cells(scenario, wanted):
            values = (scenario, cell) if with_cell else (scenario,)
            name = f"{scenario.name}-{cell}" if with_cell else scenario.name
            parameters.append(pytest.param(*values, id=name, marks=marks_of(scenario)))
            if not with_cell:
                break
    names = ["serving", "cell"] if with_cell else ["serving"]
    metafunc.parametrize(names, parameters, indirect=["serving"], scope="session")


def _cells(scenario: Scenario, wanted: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for gate in scenario.gates:
        if gate.metric in wanted:
            found.update(dict.fromkeys(gated_cells(scenario, gate)))
    return list(found)
