"""The second look at a trace that holds no GPU event: what it holds instead, and the operators that ran on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tpgate.trace.decode import nanoseconds
from tpgate.trace.events import Defects, Operators
from tpgate.trace.operators import OperatorCollector
from tpgate.trace.row import OPERATORS, expression
from tpgate.trace.slow import rows_slowly
from tpgate.trace.stream import Chunks

_EVENT = expression(OPERATORS)
_ANY_CATEGORY = re.compile(rb'"cat"\s*:\s*"([^"\\]*)"')
_WINDOW_END = re.compile(rb'"name"\s*:\s*"Record Window End"[^{}]*?"ts"\s*:\s*(\d+(?:\.\d+)?)')


@dataclass(frozen=True, slots=True)
class Host:
    """What a trace without GPU events holds.

    Attributes:
        categories: Event category to count.
        operators: The operators, or None where there are none.
        origin_ns: What was subtracted from their times.
        defects: What was wrong with them.
        slow: Whether they were decoded event by event.
    """

    categories: dict[str, int]
    operators: Operators | None
    origin_ns: int
    defects: Defects
    slow: bool


def read_host(path: Path, limit_bytes: int, info: bytes, *, cut: bool) -> Host:
    """Return what a trace without GPU events holds.

    Args:
        path: The file.
        limit_bytes: Uncompressed bytes above which it is refused.
        info: Its head and its tail.
        cut: Whether it is cut off, so that its last event may be a part of one.

    Raises:
        TraceError: The file cannot be read, or has to be decoded event by event and is no valid JSON.
    """
    counts: dict[str, int] = {}
    collector = OperatorCollector()
    missed = missed_last = 0
    for piece in Chunks(path, limit_bytes):
        for name in _ANY_CATEGORY.findall(piece):
            key = name.decode(errors="replace")
            counts[key] = counts.get(key, 0) + 1
        missed += missed_last
        missed_last = collector.add(_EVENT.findall(piece))
    slow = missed > 0 or (missed_last > 0 and not cut)
    if slow:
        collector = OperatorCollector()
        collector.add(rows_slowly(path, limit_bytes, OPERATORS))
    ended = _WINDOW_END.search(info)
    operators, origin, defects = collector.finish(nanoseconds(ended[1]) if ended else None)
    return Host(counts, operators if len(operators) else None, origin, defects, slow)
