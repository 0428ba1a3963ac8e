"""Every metric of this package, one definition each: the only table of units and directions."""

from __future__ import annotations

from tpgate.errors import ConfigError
from tpgate.measure.definitions import client, kernel, telemetry, trace
from tpgate.measure.definitions.base import MetricDef

__all__ = ["METRICS", "MetricDef", "metric"]

METRICS: dict[str, MetricDef] = {
    definition.name: definition for definition in (*client.METRICS, *trace.METRICS, *telemetry.METRICS, *kernel.METRICS)
}
"""All definitions by name."""


def metric(name: str) -> MetricDef:
    """Return the definition of the metric called ``name``.

    Raises:
        ConfigError: There is no such metric; an unknown name is never passed over.
    """
    try:
        return METRICS[name]
    except KeyError:
        raise ConfigError(
            f"unknown metric {name!r}",
            expected=f"one of {', '.join(sorted(METRICS))}",
            next_step="mend the name in the scenario's gates or in the baseline file",
        ) from None
