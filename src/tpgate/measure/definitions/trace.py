"""Metrics that come from profiler traces of every tensor-parallel rank.

A share is the union of a category's intervals over every stream, divided by the GPU busy time, so it never exceeds 1.
Shares say what the mix is; the time per token beside each says whether the category itself became slower. With more
than one rank a value is the median over ranks, unless its formula says otherwise.
"""

from __future__ import annotations

from tpgate.measure.definitions.base import MetricDef
from tpgate.units import COUNT, FRACTION, SECONDS_PER_TOKEN, Better

GATED_CATEGORIES = ("attention", "communication", "moe")
"""Categories whose share may carry a promise: a larger one is worse."""

OTHER_CATEGORIES = (
    "gemm",
    "norm",
    "activation",
    "rope",
    "kv_cache",
    "quantisation",
    "linear_attention",
    "sampling",
    "memory",
    "elementwise",
    "other",
)
"""Categories that are watched in both directions."""

CATEGORIES = (*GATED_CATEGORIES, *OTHER_CATEGORIES)

_TOKENS = "tokens decoded in the profiled steps (steps x batch)"


def _share(name: str, formula: str, better: Better, floor: float = 0.005) -> MetricDef:
    return MetricDef(name, FRACTION, better, formula, "trace", noise_floor=0.01, absolute_floor=floor, may_be_zero=True)


def _per_token(name: str, formula: str, noise: float = 0.01, floor: float = 5e-8) -> MetricDef:
    return MetricDef(
        name,
        SECONDS_PER_TOKEN,
        Better.LOWER,
        f"{formula} / {_TOKENS}",
        "trace",
        noise_floor=noise,
        absolute_floor=floor,
        may_be_zero=True,
    )


def _category(name: str) -> tuple[MetricDef, MetricDef]:
    words = name.replace("_", " ")
    better = Better.LOWER if name in GATED_CATEGORIES else Better.NEITHER
    return (
        _share(f"{name}_share", f"union of {words} kernels / GPU busy time", better),
        _per_token(f"{name}_time_per_token", f"union of {words} kernels"),
    )


METRICS: tuple[MetricDef, ...] = (
    *(definition for name in CATEGORIES for definition in _category(name)),
    _share("nccl_share", "union of NCCL kernels / GPU busy time; a part of communication_share", Better.LOWER),
    _per_token("nccl_time_per_token", "union of NCCL kernels"),
    _share(
        "unclassified_share", "union of kernels that no rule of the taxonomy knows / GPU busy time", Better.LOWER, 0.01
    ),
    _per_token("unclassified_time_per_token", "union of kernels that no rule of the taxonomy knows"),
    MetricDef(
        "gpu_busy_share",
        FRACTION,
        Better.HIGHER,
        "union of all kernels and memory copies / (end of the last - start of the first)",
        "trace",
        noise_floor=0.01,
        absolute_floor=0.005,
    ),
    MetricDef(
        "kernel_time_per_token",
        SECONDS_PER_TOKEN,
        Better.LOWER,
        f"GPU busy time / {_TOKENS}",
        "trace",
        noise_floor=0.01,
        absolute_floor=5e-8,
    ),
    _per_token("idle_time_per_token", "(end of the last GPU event - start of the first - GPU busy time)", 0.03, 5e-7),
    _per_token("launch_bound_time_per_token", "idle time before kernels that the host launched too late", 0.05, 5e-7),
    _share(
        "exposed_communication_share",
        "time with a communication kernel running and no compute kernel / GPU busy time",
        Better.LOWER,
    ),
    _per_token(
        "exposed_communication_time_per_token", "time with a communication kernel running and no compute kernel"
    ),
    _per_token(
        "communication_intrinsic_time_per_token",
        "sum over collectives, matched over ranks by order, of the least duration over ranks",
        0.02,
    ),
    _per_token(
        "communication_wait_time_per_token",
        "mean over ranks of the sum over collectives of (duration - least duration over ranks)",
        0.1,
        5e-7,
    ),
    MetricDef(
        "kernels_per_step",
        COUNT,
        Better.LOWER,
        "kernels / profiled decode steps",
        "trace",
        noise_floor=0.01,
        absolute_floor=1.0,
    ),
)
