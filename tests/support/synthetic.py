"""Loads whose every moment is known: the server is arithmetic, so what must come out can be worked out by hand."""

from __future__ import annotations

from array import array

from tpgate.load.records import ClientHealth, LoadResult, RequestRecord
from tpgate.specs import LoadSpec

MS = 1_000_000
HEALTHY = ClientHealth(
    loop_lag_p99_s=0.0002, loop_lag_max_s=0.001, cpu_share=0.1, cpu_seconds_per_token=5e-6, late_stamps=0.0
)


def view(code: str, values: list[int]) -> memoryview:
    return memoryview(array(code, values)).toreadonly()


def record(
    index: int, start_ms: float, chunks: list[tuple[float, int]], *, warmup: bool = False, **more
) -> RequestRecord:
    """A request that started at ``start_ms`` and whose chunks are (ms, cumulative tokens)."""
    times = [round(at * MS) for at, _ in chunks]
    fields = {
        "index": index,
        "warmup": warmup,
        "scheduled_ns": round(start_ms * MS),
        "started_ns": round(start_ms * MS),
        "chunk_ns": view("q", times),
        "chunk_tokens": view("i", [count for _, count in chunks]),
        "ended_ns": times[-1] if times else round(start_ms * MS),
        "output_tokens": chunks[-1][1] if chunks else 0,
        "input_tokens": 8,
        "cached_tokens": 0,
        "arrived_tokens": chunks[-1][1] if chunks else 0,
        "finish_reason": "length",
    }
    return RequestRecord(**(fields | more))


def result(records: list[RequestRecord], **more) -> LoadResult:
    fields = {
        "records": tuple(records),
        "started_ns": min((r.started_ns for r in records), default=0),
        "ended_ns": max((r.ended_ns for r in records), default=0),
        "wall_start_unix_ns": 0,
        "health": HEALTHY,
    }
    return LoadResult(**(fields | more))


def waves(
    load: LoadSpec, *, prefill_ms: float = 10.0, step_ms: float = 2.0, slower_from: int | None = None
) -> LoadResult:
    """A closed loop in waves: all in flight start together, wait for the prefill, and get a token every step."""
    records, at = [], 0.0
    total = load.warmup_requests + load.requests
    for first in range(0, total, load.concurrency):
        step = step_ms * (2 if slower_from is not None and first >= slower_from else 1)
        chunks = [(at + prefill_ms + step * n, n + 1) for n in range(load.output_tokens)]
        wave = range(first, min(first + load.concurrency, total))
        records += [record(index, at, chunks, warmup=index < load.warmup_requests) for index in wave]
        at = chunks[-1][0]
    return result(records)


def load(concurrency: int = 4, requests: int = 12, tokens: int = 8, **more) -> LoadSpec:
    fields = {"warmup_requests": concurrency, "input_tokens": 8, "output_tokens": tokens}
    return LoadSpec(concurrency=concurrency, requests=requests, **(fields | more))
