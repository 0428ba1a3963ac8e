"""Metrics that come from the telemetry sampler: PCIe, NVLink, power, clocks.

PCIe figures are those of the busiest GPU in that direction, never a sum: peer-to-peer bytes count on both GPUs. TX is
what the GPU sends. A rate has a ceiling; bytes per token is the figure that throughput does not move.
"""

from __future__ import annotations

from typing import Any

from tpgate.measure.definitions.base import MetricDef
from tpgate.units import (
    BYTES_PER_SECOND,
    BYTES_PER_TOKEN,
    FRACTION,
    HERTZ,
    JOULES_PER_TOKEN,
    RATIO,
    WATTS,
    Better,
    Unit,
)

NOTHING_SHARE = 0.005
"""Share of the link up to which a change of utilisation is none: far from any ceiling, bytes per token are judged."""

_RATE = "increase of the PCIe byte counter / time, a reading, over the steady window"
_CEILING = "link generation x width as read under load"


def _of(name: str, unit: Unit, formula: str, noise: float, *, better: Better = Better.LOWER, **more: Any) -> MetricDef:  # noqa: ANN401
    return MetricDef(name, unit, better, formula, "telemetry", noise_floor=noise, **more)


def _rates(stem: str) -> tuple[MetricDef, ...]:
    """Rate and utilisation of one direction: median, p95 and peak; 0 is real on an idle link."""
    rate, share = f"{stem}_bytes_per_second", f"{stem}_utilisation"
    few: dict[str, Any] = {"may_be_zero": True}
    many: dict[str, Any] = {"may_be_zero": True, "minimum_samples": 20}
    return (
        _of(rate, BYTES_PER_SECOND, f"median of: {_RATE}", 0.02, absolute_floor=1e6, **few),
        _of(f"{rate}_p95", BYTES_PER_SECOND, f"p95 of: {_RATE}", 0.05, absolute_floor=1e6, **many),
        _of(f"{rate}_peak", BYTES_PER_SECOND, f"largest of: {_RATE}", 0.1, absolute_floor=1e7, **few),
        _of(share, FRACTION, f"{rate} / ({_CEILING})", 0.02, absolute_floor=NOTHING_SHARE, **few),
        _of(f"{share}_p95", FRACTION, f"{rate}_p95 / ({_CEILING})", 0.05, absolute_floor=NOTHING_SHARE, **many),
    )


def _per_token(way: str) -> tuple[MetricDef, ...]:
    floor = "(all-reduce floor by ring + logits gather, prompt tokens included where they are known)"
    most = "of the busiest GPU in the steady window / output tokens in it"
    return (
        _of(f"pcie_{way}_bytes_per_token", BYTES_PER_TOKEN, f"PCIe bytes {most}", 0.01, absolute_floor=256.0),
        _of(f"pcie_{way}_amplification", RATIO, f"pcie_{way}_bytes_per_token / {floor}", 0.01),
        _of(f"nvlink_{way}_bytes_per_token", BYTES_PER_TOKEN, f"NVLink payload {most}", 0.02, absolute_floor=1024.0),
    )


_POWER = "mean power over the steady window, summed over the GPUs"
_ENERGY = "energy of all GPUs in the steady window / output tokens in it"
_CLOCK = "mean SM clock over the steady window, of the slowest GPU"
METRICS: tuple[MetricDef, ...] = (
    *_rates("pcie_tx"),
    *_rates("pcie_rx"),
    *_per_token("tx"),
    *_per_token("rx"),
    _of("gpu_power", WATTS, _POWER, 0.02, better=Better.NEITHER),
    _of("energy_per_token", JOULES_PER_TOKEN, _ENERGY, 0.02),
    _of("gpu_sm_clock", HERTZ, _CLOCK, 0.01, better=Better.HIGHER),
)
