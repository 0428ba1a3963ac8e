"""Kernel suites in pytest: a suite is measured once, in processes of its own, and judged like a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tpgate.campaign.kernels import KernelCampaign
from tpgate.errors import ConfigError, TpgateError
from tpgate.measure.kernel_suite import KernelSuite
from tpgate.plugin.fixtures import Measured
from tpgate.plugin.session import Session


@dataclass(frozen=True)
class Kernels:
    """What the fixture ``kernels`` is.

    Attributes:
        session: The pytest run; outcomes are kept there, so that the summary shows them.
    """

    session: Session

    def run(self, suite: KernelSuite, cell: str) -> Measured:
        """Return one cell of a suite, which is measured the first time that it is asked for.

        Raises:
            ConfigError: The suite has no such cell.
            TpgateError: It could not be measured; the same error every time.
        """
        if cell not in suite.cells:
            raise ConfigError(
                f"kernel suite {suite.name} has no cell {cell!r}", expected=f"one of {', '.join(suite.cells)}"
            )
        state = self.session
        if suite.name in state.errors:
            raise state.errors[suite.name]
        if suite.name not in state.outcomes:
            try:
                state.outcomes[suite.name] = self._campaign(suite).measure()
            except TpgateError as error:
                state.errors[suite.name] = error
                raise
        return Measured(state.outcomes[suite.name], cell)

    def _campaign(self, suite: KernelSuite) -> KernelCampaign:
        settings = self.session.settings
        return KernelCampaign(
            suite=suite,
            results=settings.results,
            baselines=settings.baselines,
            progress=self.session._progress,
            max_launches=settings.max_launches,
            record=settings.record,
        )


def promised(suites: Sequence[KernelSuite]) -> list[Any]:
    """Return (suite, cell, metric) for every promise of some suites, as parameters with ids and ``gpu`` markers."""
    return [
        pytest.param(suite, cell, metric, id=f"{suite.name}-{cell}-{metric}", marks=pytest.mark.gpu(count=suite.gpus))
        for suite in suites
        for metric, _, cells, _ in suite.promises()
        for cell in cells
    ]
