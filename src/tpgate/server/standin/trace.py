"""Synthetic profiler traces whose shares are known: the steps that were run, laid out as kernels of one rank. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tpgate.server.standin.settings import Settings
from tpgate.server.standin.steps import Step

_NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_NORM = (
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, "
    "unsigned int, unsigned int, unsigned int, float, float)"
)
_ROUTING = "void topkGatingSoftmax<float, 4, 64, 4, 16, 32>(float const*, bool const*, float*, int, int*, int)"
_ROPE = "void (anonymous namespace)::fused_rope_kernel<true, 128l, true, __nv_bfloat16, long, 16u>((anonymous namespace)::FusedRopeParams)"  # noqa: E501
_QKV = "nvjet_sm90_tst_64x64_64x13_4x1_v_bz_TNT"
_OUT = "nvjet_sm90_tst_96x64_64x10_2x1_v_bz_splitK_TNN"
_HEAD = "nvjet_sm90_tst_512x64_64x2_2x1_v_bz_coopB_TNN"
_ARGMAX = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, "
    "long, 4, 4> >(at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>)"
)
_HEAD_SHARE = 0.1
_SKEW = 0.2
_LAYER: tuple[tuple[str, float, str], ...] = (
    ("norm", 0.5, _NORM),
    ("gemm", 0.6, _QKV),
    ("other", 1.0, _ROPE),
    ("attention", 0.92, "_fwd_grouped_kernel_stage1"),
    ("attention", 0.08, "_fwd_kernel_stage2"),
    ("gemm", 0.4, _OUT),
    ("all_reduce", 0.0, _NCCL),
    ("norm", 0.5, _NORM),
    ("routing", 1.0, _ROUTING),
    ("moe", 0.6, "fused_moe_kernel"),
    ("moe", 0.4, "fused_moe_kernel"),
    ("all_reduce", 0.0, _NCCL),
)
"""Kernels of one layer: part, share of that part's time in the layer, name."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel on one rank, in nanoseconds since the first step's start."""

    name: str
    part: str
    start_ns: float
    end_ns: float


def _sequence(settings: Settings) -> list[tuple[str, float, str]]:
    """Return the kernels of a step as (part, share of the part's time in the step, name)."""
    layer = list(_LAYER) + [("all_reduce", 0.0, _NCCL)] * settings.faults.extra_all_reduce
    if settings.tp == 1:
        layer = [row for row in layer if row[0] != "all_reduce"]
    calls = sum(row[0] == "all_reduce" for row in layer)
    rows = []
    for _ in range(settings.layers):
        for part, share, name in layer:
            portion = 1 / calls if part == "all_reduce" else share
            taken = portion * (1 - _HEAD_SHARE) if part in ("gemm", "other") else portion
            rows.append((part, taken / settings.layers, name))
    return [*rows, ("gemm", _HEAD_SHARE, _HEAD), ("other", _HEAD_SHARE, _ARGMAX)]


def _skew(rank: int, call: int) -> float:
    """Return how late a rank comes to a collective, as a share of its time: the same on every run, 0 for some rank."""
    return _SKEW * ((rank * 5 + call * 3) % 8) / 8


def step_kernels(settings: Settings, step: Step, rank: int) -> Iterator[Kernel]:
    """Yield the kernels of one decode step on one rank, in order; what is left over is idle time.

    All ranks leave a collective together. A rank that comes late has the shorter collective; under
    ``--fault-straggler-us`` the last rank is late by that much, through a longer kernel before it.
    """
    rows = _sequence(settings)
    parts = step.parts
    gap = parts.get("gaps", 0.0) * 1e9 / len(rows)
    calls = sum(part == "all_reduce" for part, _, _ in rows)
    wait = parts.get("wait", 0.0) * 1e9 / calls if calls else 0.0
    last = rank == ranks(settings) - 1
    at = step.start_ns + parts["idle"] * 1e9
    call = 0
    for index, (part, share, name) in enumerate(rows):
        at += gap
        length = share * parts[part] * 1e9
        if part == "all_reduce":
            late = _skew(rank, call) * length
            call += 1
            yield Kernel(name, part, at + late - (0.0 if last else wait), at + length)
        elif last and wait and index + 1 < len(rows) and rows[index + 1][0] == "all_reduce":
            length += wait
            yield Kernel(name, part, at, at + length)
        else:
            yield Kernel(name, part, at, at + length)
            if wait and index + 1 < len(rows) and rows[index + 1][0] == "all_reduce":
                length += wait
        at += length


def ranks(settings: Settings) -> int:
    """Return the ranks that there really are, ``--fault-fewer-ranks`` taken off."""
    return settings.tp - settings.faults.fewer_ranks


def _head(settings: Settings, rank: int) -> dict[str, Any]:
    world = ranks(settings)
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": world}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": rank, "name": "tpgate stand-in", "totalGlobalMem": 0, "numSms": 132}],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": world,
            "pg_count": 1,
            "pg_config": [{**group, "ranks": list(range(world))}],
            "nccl_version": "2.28.9",
        },
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1790857026000000000,
    }


def _kernel_event(kernel: Kernel, rank: int, correlation: int, node: int) -> dict[str, Any]:
    args: dict[str, Any] = {"device": rank, "context": 1, "stream": 7, "correlation": correlation}
    if node:
        args |= {"graph id": 1, "graph node id": node}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": kernel.name,
        "pid": rank,
        "tid": 7,
        "ts": round(kernel.start_ns / 1e3, 3),
        "dur": round((kernel.end_ns - kernel.start_ns) / 1e3, 3),
        "args": args,
    }


def _host_event(cat: str, name: str, ts_ns: float, length_ns: float, args: dict[str, Any]) -> dict[str, Any]:
    where = {"pid": 4000, "tid": 4000}
    times = {"ts": round(ts_ns / 1e3, 3), "dur": round(length_ns / 1e3, 3)}
    return {"ph": "X", "cat": cat, "name": name, **where, **times, "args": args}


def _step_events(settings: Settings, step: Step, rank: int, correlation: int) -> list[dict[str, Any]]:
    idle = step.parts["idle"] * 1e9
    annotation = "scheduler.get_next_batch_to_run"
    events = [_host_event("user_annotation", annotation, step.start_ns, idle * 0.5, {"External id": correlation})]
    graphs = not settings.faults.graphs_off
    if graphs:
        launch = {"cbid": 311, "correlation": correlation}
        events.append(_host_event("cuda_runtime", "cudaGraphLaunch", step.start_ns + idle * 0.6, idle * 0.3, launch))
    kernels = [] if settings.faults.empty_trace else list(step_kernels(settings, step, rank))
    for index, kernel in enumerate(kernels):
        own = correlation if graphs else correlation + index
        if not graphs:
            launch = {"cbid": 211, "correlation": own}
            events.append(_host_event("cuda_runtime", "cudaLaunchKernel", kernel.start_ns - 4e3, 3e3, launch))
        events.append(_kernel_event(kernel, rank, own, index + 1 if graphs else 0))
    if kernels:
        span = {
            "ph": "X",
            "cat": "gpu_user_annotation",
            "name": f"step[DECODE bs={step.running}]",
            "pid": rank,
            "tid": 7,
        }
        first, end = kernels[0].start_ns, kernels[-1].end_ns
        events.append({**span, "ts": round(first / 1e3, 3), "dur": round((end - first) / 1e3, 3), "args": {}})
    return events


def rank_trace(settings: Settings, steps: Sequence[Step], rank: int) -> dict[str, Any]:
    """Return the kineto-style trace of one rank for some decode steps; times in microseconds, monotonic."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "ts": 0, "pid": 4000, "tid": 0, "args": {"name": "sglang::scheduler"}},
        {"name": "process_labels", "ph": "M", "ts": 0, "pid": rank, "tid": 0, "args": {"labels": f"GPU {rank}"}},
    ]
    for number, step in enumerate(steps):
        events += _step_events(settings, step, rank, 1 + number * 10_000)
    begin, end = steps[0].start_ns, steps[-1].end_ns
    span = {"ph": "X", "cat": "Trace", "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)"}
    events.append({**span, "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": {"Op count": 0}})
    return {**_head(settings, rank), "traceEvents": events}
