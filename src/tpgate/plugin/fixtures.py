"""The fixtures ``serving`` and ``perf``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tpgate.campaign import Outcome
    from tpgate.plugin.gate import Perf
    from tpgate.plugin.kernels import Kernels
    from tpgate.specs import Scenario


@dataclass(frozen=True)
class Measured:
    """One cell of a measured scenario: what ``perf.check`` takes.

    Attributes:
        outcome: What was measured and judged.
        cell: Name of the cell.
    """

    outcome: Outcome
    cell: str


@dataclass(frozen=True)
class Serving:
    """A measured scenario; its server has been started, driven over all selected cells, and stopped.

    Attributes:
        scenario: The scenario.
        outcome: What was measured and judged.
    """

    scenario: Scenario
    outcome: Outcome

    def run(self, cell: str | None = None, *, concurrency: int | None = None) -> Measured:
        """Return one cell, by its name or by its concurrency.

        Raises:
            ConfigError: The scenario has no such cell.
        """
        from tpgate.specs import SCENARIO_CELL

        name = cell if cell is not None else f"c{concurrency}"
        if name != SCENARIO_CELL:
            self.scenario.cell(name)
        return Measured(self.outcome, name)


@pytest.fixture(scope="session")
def serving(request: pytest.FixtureRequest) -> Serving:
    """A scenario that was measured on its own server launch or launches; one launch serves all its cells."""
    from tpgate.plugin.session import session_of

    scenario: Scenario = request.param
    return Serving(scenario, session_of(request.config).outcome(scenario))


@pytest.fixture(scope="session")
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """Kernel suites: ``perf.check(kernels.run(suite, cell), "kernel_time")``; a suite is measured once."""
    from tpgate.plugin.kernels import Kernels
    from tpgate.plugin.session import session_of

    return Kernels(session_of(request.config))


@pytest.fixture
def perf(request: pytest.FixtureRequest) -> Perf:
    """The gate: ``perf.check(serving.run(cell), "output_tokens_per_second")``."""
    from tpgate.plugin.gate import Perf

    return Perf(request.node)
