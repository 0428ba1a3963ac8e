"""Reads a torch-profiler (kineto) trace of one rank: streaming, in bounded memory, and never by half.

The normal path runs one regular expression over chunks of the file. It depends on the order of keys that kineto
writes; every event whose category it wants is counted by the same expression whether or not the rest of it fits, and
where one did not fit the whole file is decoded event by event instead.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tpgate.errors import TraceError
from tpgate.trace.collect import Collector
from tpgate.trace.events import Defects, Trace
from tpgate.trace.host import read_host
from tpgate.trace.row import GPU, LAUNCHES, STEPS, expression
from tpgate.trace.slow import rows_slowly
from tpgate.trace.stream import LIMIT_BYTES, Chunks

_WANTED = (*GPU, *STEPS, *LAUNCHES)
_EVENT = expression(_WANTED)
_HEAD_BYTES = 1 << 20
_RANK_IN_NAME = re.compile(r"(?:TP-|[Rr]ank[-_]?)(\d+)")
_DEVICE = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{[^{}]*?"name"\s*:\s*"([^"]*)"')
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*\{')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')


def read(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> Trace:
    """Return the GPU events of one rank's trace, with what was wrong with the file counted in ``defects``.

    Args:
        path: A ``.json`` or ``.json.gz`` file; which of them it is, its first bytes say.
        limit_bytes: Uncompressed bytes above which the file is refused.

    Raises:
        TraceError: The file cannot be read, is no trace, or is larger than the limit.
    """
    chunks = Chunks(path, limit_bytes)
    collector = Collector()
    head = b""
    missed = missed_last = 0
    for piece in chunks:
        head = head or piece[:_HEAD_BYTES]
        missed += missed_last
        missed_last = collector.add(_EVENT.findall(piece))
    if chunks.first not in (0x7B, 0x5B) or (b"traceEvents" not in head and not collector.rows and not chunks.events):
        raise TraceError(
            f"{path}: this is no profiler trace",
            expected="JSON with traceEvents, as torch.profiler writes it",
            next_step="give the .trace.json.gz file that the profiler wrote",
        )
    cut = chunks.cut or not ends_properly(chunks)
    slow = missed > 0 or (missed_last > 0 and not cut)
    if slow:
        collector = Collector()
        collector.add(rows_slowly(path, limit_bytes, _WANTED))
    info = head + chunks.tail[-_HEAD_BYTES:]
    host = None if collector.gpu_events else read_host(path, limit_bytes, info, cut=cut)
    return collector.finish(
        path=path,
        rank=_integer(info, b"rank"),
        named_rank=named_rank(path),
        world_size=_integer(info, b"world_size"),
        device_name=_device_name(info),
        base_ns=int(match[1]) if (match := _BASE.search(info)) else 0,
        origin_ns=host.origin_ns if host else 0,
        defects=replace(host.defects if host else Defects(), cut_off=cut, slow_path=slow or bool(host and host.slow)),
        categories=host.categories if host else {},
        operators=host.operators if host else None,
        bytes_read=chunks.total,
    )


def named_rank(path: Path) -> int | None:
    """Return the tensor-parallel rank in a file's name (``...-TP-3-DECODE.trace.json.gz``, ``rank3.json``)."""
    found = _RANK_IN_NAME.findall(path.name)
    return int(found[-1]) if found else None


def trace_files(folder: Path) -> list[Path]:
    """Return the trace files directly in a folder, in order of their ranks, then names."""
    found = [p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz")) and p.is_file()]
    return sorted(found, key=lambda p: (named_rank(p) if named_rank(p) is not None else 1 << 30, p.name))


def _integer(info: bytes, key: bytes) -> int | None:
    block = _DISTRIBUTED.search(info)
    if block is None:
        return None
    match = re.compile(rb'"' + key + rb'"\s*:\s*(\d+)').search(info, block.end(), block.end() + 4096)
    return int(match[1]) if match else None


def _device_name(info: bytes) -> str | None:
    match = _DEVICE.search(info)
    return match[1].decode(errors="replace") if match else None


def ends_properly(chunks: Chunks) -> bool:
    """Return whether every bracket that was open at the last event is closed at the end of the file."""
    text = re.sub(rb'"[^"\\]*(?:\\.[^"\\]*)*"', b"", chunks.tail, flags=re.DOTALL)
    depth = sum(map(text.count, (b"{", b"["))) - sum(map(text.count, (b"}", b"]")))
    if not chunks.tail.startswith(b'"ph"'):
        return depth == 0
    return depth == (-3 if chunks.first == 0x7B else -2)
