"""Writes profiler traces whose truth is known, in the layouts that are met in the field."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "nvjet_sm90_tst_64x64_64x13_4x1_v_bz_TNT"
ATTENTION = "_fwd_grouped_kernel_stage1"
NORM = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, unsigned int)"
MOE = "fused_moe_kernel"


def event(category: str, name: str, ts: float, dur: float, **more) -> dict:
    """One complete event in kineto's order of keys; times in microseconds."""
    where = {"pid": more.pop("pid", 0), "tid": more.pop("tid", 7)}
    return {"ph": "X", "cat": category, "name": name, **where, "ts": ts, "dur": dur, "args": more.pop("args", more)}


def kernel(name: str, ts: float, dur: float, *, stream: int = 7, correlation: int | None = None) -> dict:
    args = {"device": 0, "context": 1, "stream": stream}
    if correlation is not None:
        args["correlation"] = correlation
    return event("kernel", name, ts, dur, tid=stream, args=args)


def launch(correlation: int, ts: float, dur: float = 3.0, name: str = "cudaLaunchKernel") -> dict:
    return event("cuda_runtime", name, ts, dur, pid=99, tid=99, args={"cbid": 211, "correlation": correlation})


def step(ts: float, dur: float, batch: int = 4, stage: str = "DECODE") -> dict:
    return event("gpu_user_annotation", f"step[{stage} bs={batch}]", ts, dur, args={})


def document(events: list[dict], *, rank: int | None = 0, world: int = 1, base: int = 0) -> dict:
    head: dict = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU"}]}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world, "pg_config": [{"ranks": [0]}]}
    head |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": base}
    return {**head, "traceEvents": events, "traceName": "/tmp/a [b] {c}.json"}


def text_of(content: dict, layout: str = "compact") -> str:
    """The document as one line, one line without spaces, indented, or as kineto's own mixed lines."""
    if layout == "compact":
        return json.dumps(content)
    if layout == "dense":
        return json.dumps(content, separators=(",", ":"))
    if layout == "indented":
        return json.dumps(content, indent=4)
    rows = []
    for row in content["traceEvents"]:
        head = ", ".join(f'"{k}": {json.dumps(row[k])}' for k in ("ph", "cat", "name", "pid", "tid") if k in row)
        times = ", ".join(f'"{k}": {json.dumps(row[k])}' for k in ("ts", "dur") if k in row)
        args = json.dumps(row.get("args", {}))
        rows.append(f'  {{\n    {head},\n    {times},\n    "args": {{\n      {args[1:-1]}\n    }}\n  }}')
    rest = json.dumps({k: v for k, v in content.items() if k != "traceEvents"}, indent=2)
    return rest[:-2] + ',\n  "traceEvents": [\n' + ",\n".join(rows) + "\n  ]\n}"


def write(path: Path, events: list[dict], *, layout: str = "compact", **more) -> Path:
    text = text_of(document(events, **more), layout).encode()
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def decode_steps(
    steps: int = 4,
    *,
    batch: int = 4,
    idle: float = 20.0,
    attention: float = 30.0,
    gemm: float = 50.0,
    moe: float = 0.0,
    nccl: float = 0.0,
    gap: float = 0.0,
    late: bool = False,
    graphs: bool = False,
) -> list[dict]:
    """Some decode steps, each: idle time, then norm 10 us, attention, GEMM, MoE and all-reduce one after the other.

    ``gap`` is idle time before every kernel. With ``late`` the host launches each kernel after the one before it has
    ended; else all of a step is launched before the step. With ``graphs`` the kernels of a step share one launch.
    """
    rows: list[dict] = []
    at, correlation = 1000.0, 1
    parts = [(NORM, 10.0), (ATTENTION, attention), (GEMM, gemm), (MOE, moe), (NCCL, nccl)]
    for _ in range(steps):
        begin = at
        at += idle
        first = at
        for name, length in parts:
            if not length:
                continue
            ended = at
            at += gap
            rows.append(kernel(name, at, length, correlation=correlation))
            if not graphs:
                rows.append(launch(correlation, ended + 0.1 if late else begin - 50, 1.0))
                correlation += 1
            at += length
        if graphs:
            rows.append(launch(correlation, begin - 50, 1.0, "cudaGraphLaunch"))
            correlation += 1
        rows.append(step(first, at - first, batch))
    return rows
