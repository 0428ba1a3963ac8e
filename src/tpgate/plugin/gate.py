"""A verdict becomes an assertion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tpgate.errors import ConfigError
from tpgate.measure.definitions import metric
from tpgate.stats.verdict import Comparison
from tpgate.units import format_change, format_value, unit_of

if TYPE_CHECKING:
    from tpgate.plugin.fixtures import Measured


@dataclass(frozen=True)
class Perf:
    """The gate of one test.

    Attributes:
        item: The test; verdicts become its properties in JUnit.
    """

    item: pytest.Item

    def check(self, measured: Measured, name: str) -> Comparison:
        """Fail the test unless the verdict on the metric ``name`` in this cell is OK or IMPROVED.

        Returns:
            The comparison, where it passes.

        Raises:
            ConfigError: The metric is unknown, or the scenario does not gate it in this cell.
        """
        metric(name)
        judgement = measured.outcome.judgement
        found = next((c for c in judgement.comparisons if (c.cell, c.metric) == (measured.cell, name)), None)
        if found is None:
            raise ConfigError(
                f"scenario {judgement.scenario} does not gate {name} in {measured.cell}",
                expected="a Gate for it in the scenario",
                next_step="add it, or take the metric out of the test",
            )
        self._note(found, str(measured.outcome.folder))
        if not found.verdict.passes:
            pytest.fail(_message(found, measured), pytrace=False)
        return found

    def _note(self, found: Comparison, folder: str) -> None:
        note = self.item.user_properties.append
        note(("verdict", str(found.verdict)))
        note(("metric", found.metric))
        note(("cell", found.cell))
        note(("unit", found.unit))
        for name in ("baseline", "now", "effect", "tolerance", "bar", "mde"):
            value = getattr(found, name)
            if value is not None:
                note((name, repr(value)))
        note(("launches", str(found.launches)))
        note(("result", folder))


def _message(found: Comparison, measured: Measured) -> str:
    unit = unit_of(found.unit)
    lines = [
        f"{found.verdict}: {found.metric} in {found.cell}: {found.reason}",
        f"  baseline {format_value(found.baseline, unit)} ({found.baseline_launches} launches), "
        f"now {format_value(found.now, unit)} ({found.launches} launches), worse by {format_change(found.effect)}; "
        f"bar {format_change(found.bar)}, tolerance {format_change(found.tolerance)}, "
        f"smallest detectable {format_change(found.mde)}",
        *(f"  {text}" for text in found.attribution),
        *(f"  note: {text}" for text in found.warnings),
        f"  results: {measured.outcome.folder}",
    ]
    return "\n".join(lines)
