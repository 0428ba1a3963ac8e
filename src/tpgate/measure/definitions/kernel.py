"""Metrics of kernels and collectives measured on their own.

Cells are cases: ``b64-k2048-h128-bf16`` is a shape, ``all-reduce-d7168-b16-n4-nccl`` a collective, and ``device`` is
the device itself.
"""

from __future__ import annotations

from tpgate.measure.definitions.base import MetricDef
from tpgate.units import BYTES_PER_SECOND, FLOPS_PER_SECOND, FRACTION, RATIO, SECONDS, Better

_CALL = "median over graph replays of: device seconds of one pass over all rotated inputs / calls in it"
_LEAST = "gathered entries, indices, queries and output, once each"

METRICS: tuple[MetricDef, ...] = (
    MetricDef("kernel_time", SECONDS, Better.LOWER, _CALL, "kernel", noise_floor=0.01, absolute_floor=0.2e-6),
    MetricDef(
        "kernel_roofline_fraction",
        FRACTION,
        Better.HIGHER,
        "max(FLOPs / matrix rate, least bytes / copy rate) / kernel_time, both rates measured in the same process",
        "kernel",
        noise_floor=0.01,
    ),
    MetricDef(
        "kernel_reread_factor",
        RATIO,
        Better.LOWER,
        f"bytes that loads and stores ask for, counted from grid and tile / least bytes ({_LEAST})",
        "kernel",
        noise_floor=0.001,
    ),
    MetricDef(
        "kernel_flops_per_second",
        FLOPS_PER_SECOND,
        Better.HIGHER,
        "2 x batch x heads x topk x (key width + value width) / kernel_time",
        "kernel",
        noise_floor=0.01,
    ),
    MetricDef(
        "kernel_bytes_per_second",
        BYTES_PER_SECOND,
        Better.HIGHER,
        f"least bytes ({_LEAST}) / kernel_time",
        "kernel",
        noise_floor=0.01,
    ),
    MetricDef(
        "kernel_speedup_over_naive",
        RATIO,
        Better.HIGHER,
        "kernel_time of the naive tiled kernel / kernel_time, same inputs, same process",
        "kernel",
        noise_floor=0.02,
    ),
    MetricDef(
        "kernel_time_over_flash_mla",
        RATIO,
        Better.LOWER,
        "kernel_time / time of FlashMLA's kernel for the same shape, same inputs, same process",
        "kernel",
        noise_floor=0.02,
    ),
    MetricDef(
        "device_copy_bytes_per_second",
        BYTES_PER_SECOND,
        Better.HIGHER,
        "bytes read plus bytes written / median seconds of a 4 GiB copy within the device",
        "kernel",
        noise_floor=0.01,
    ),
    MetricDef(
        "device_matmul_flops_per_second",
        FLOPS_PER_SECOND,
        Better.HIGHER,
        "2 x 8192^3 / median seconds of a bfloat16 matrix product of random data",
        "kernel",
        noise_floor=0.02,
    ),
    MetricDef(
        "collective_latency",
        SECONDS,
        Better.LOWER,
        "median over samples of: the slowest rank's seconds a call, calls back to back",
        "kernel",
        noise_floor=0.02,
        absolute_floor=0.5e-6,
    ),
    MetricDef(
        "collective_bus_bytes_per_second",
        BYTES_PER_SECOND,
        Better.HIGHER,
        "message bytes x bus factor / collective_latency; 2(n-1)/n for all-reduce, (n-1)/n for all-gather (nccl-tests)",
        "kernel",
        noise_floor=0.02,
    ),
)
