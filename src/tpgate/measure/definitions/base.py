"""What a metric definition is."""

from __future__ import annotations

from dataclasses import dataclass

from tpgate.units import Better, Unit


@dataclass(frozen=True, slots=True)
class MetricDef:
    """The definition of one metric: the only place where its unit, direction and formula stand.

    Attributes:
        name: Stable name; part of baseline files.
        unit: Base unit.
        better: Direction in which it improves.
        formula: How it is computed, in one line.
        source: ``client``, ``trace``, ``telemetry``, ``kernel`` or ``scenario``: who measures it.
        noise_floor: Smallest relative scale (robust sigma) that is believed, whatever few runs say.
        minimum_samples: Samples (requests, for a quantile) below which the metric is absent, with that reason.
        estimator: Version of the computation; a changed estimator makes older baselines another key.
        absolute_floor: Change in base units below which a worsening is never a regression (guards near-zero values).
        may_be_zero: Whether 0 is a real value (bytes on an idle link, NCCL on one GPU) and not a missing one.
    """

    name: str
    unit: Unit
    better: Better
    formula: str
    source: str
    noise_floor: float = 0.005
    minimum_samples: int = 1
    estimator: int = 1
    absolute_floor: float = 0.0
    may_be_zero: bool = False
