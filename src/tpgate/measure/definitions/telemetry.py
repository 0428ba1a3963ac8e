"""Metrics that come from the telemetry sampler: PCIe, NVLink, power, clocks.

PCIe figures are those of the busiest GPU in that direction, never a sum: peer-to-peer bytes count on both GPUs. TX is
what the GPU sends. A rate has a ceiling; bytes per token is the figure that throughput does not move.
"""

from __future__ import annotations

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
)

_RATE = "increase of the PCIe byte counter / time, a reading, over the steady window"
_CEILING = "link generation x width as read under load"


def _direction(way: str) -> tuple[MetricDef, ...]:
    stem = f"pcie_{way}"
    return (
        MetricDef(
            f"{stem}_bytes_per_second",
            BYTES_PER_SECOND,
            Better.LOWER,
            f"median of: {_RATE}",
            "telemetry",
            noise_floor=0.02,
            absolute_floor=1e6,
            may_be_zero=True,
        ),
        MetricDef(
            f"{stem}_bytes_per_second_p95",
            BYTES_PER_SECOND,
            Better.LOWER,
            f"p95 of: {_RATE}",
            "telemetry",
            noise_floor=0.05,
            minimum_samples=20,
            absolute_floor=1e6,
            may_be_zero=True,
        ),
        MetricDef(
            f"{stem}_bytes_per_second_peak",
            BYTES_PER_SECOND,
            Better.LOWER,
            f"largest of: {_RATE}",
            "telemetry",
            noise_floor=0.1,
            absolute_floor=1e7,
            may_be_zero=True,
        ),
        MetricDef(
            f"{stem}_utilisation",
            FRACTION,
            Better.LOWER,
            f"{stem}_bytes_per_second / ({_CEILING})",
            "telemetry",
            noise_floor=0.02,
            absolute_floor=0.001,
            may_be_zero=True,
        ),
        MetricDef(
            f"{stem}_utilisation_p95",
            FRACTION,
            Better.LOWER,
            f"{stem}_bytes_per_second_p95 / ({_CEILING})",
            "telemetry",
            noise_floor=0.05,
            minimum_samples=20,
            absolute_floor=0.001,
            may_be_zero=True,
        ),
        MetricDef(
            f"{stem}_bytes_per_token",
            BYTES_PER_TOKEN,
            Better.LOWER,
            "PCIe bytes of the busiest GPU in the steady window / output tokens in it",
            "telemetry",
            noise_floor=0.01,
            absolute_floor=256.0,
        ),
        MetricDef(
            f"{stem}_amplification",
            RATIO,
            Better.LOWER,
            f"PCIe bytes of the busiest GPU per token / all-reduce floor (ring and logits gather), {way}",
            "telemetry",
            noise_floor=0.01,
        ),
        MetricDef(
            f"nvlink_{way}_bytes_per_token",
            BYTES_PER_TOKEN,
            Better.LOWER,
            "NVLink payload bytes of the busiest GPU in the steady window / output tokens in it",
            "telemetry",
            noise_floor=0.02,
            absolute_floor=1024.0,
        ),
    )


METRICS: tuple[MetricDef, ...] = (
    *_direction("tx"),
    *_direction("rx"),
    MetricDef(
        "gpu_power",
        WATTS,
        Better.NEITHER,
        "mean power over the steady window, summed over the GPUs",
        "telemetry",
        noise_floor=0.02,
    ),
    MetricDef(
        "energy_per_token",
        JOULES_PER_TOKEN,
        Better.LOWER,
        "energy of all GPUs in the steady window / output tokens in it",
        "telemetry",
        noise_floor=0.02,
    ),
    MetricDef(
        "gpu_sm_clock",
        HERTZ,
        Better.HIGHER,
        "mean SM clock over the steady window, of the slowest GPU",
        "telemetry",
        noise_floor=0.01,
    ),
)
