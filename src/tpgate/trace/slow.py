"""The typed decode of a whole trace: the fallback where the fast expression did not fit every event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tpgate.errors import TraceError
from tpgate.trace.row import Row
from tpgate.trace.stream import Chunks

SLOW_LIMIT_BYTES = 2 << 30
"""Uncompressed size above which the whole-file decode is refused; it needs several times that in memory."""


class _Event(msgspec.Struct):
    ph: str = ""
    cat: str = ""
    name: msgspec.Raw = msgspec.Raw(b'""')
    pid: msgspec.Raw = msgspec.Raw(b"-1")
    tid: msgspec.Raw = msgspec.Raw(b"-1")
    ts: msgspec.Raw = msgspec.Raw(b"nan")
    dur: msgspec.Raw = msgspec.Raw(b"nan")
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _File(msgspec.Struct):
    traceEvents: list[_Event] = []  # noqa: N815 - the name in the file


class _Args(msgspec.Struct):
    correlation: int | None = None


def rows_slowly(path: Path, limit_bytes: int, categories: tuple[str, ...]) -> Iterator[Row]:
    """Return every complete event of some categories, whatever the order of its keys.

    Raises:
        TraceError: The file is no valid JSON, or too large to be decoded whole.
    """
    chunks = Chunks(path, min(limit_bytes, SLOW_LIMIT_BYTES))
    text = b"".join(chunks)
    kind: Any = list[_Event] if chunks.first == 0x5B else _File
    try:
        decoded = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TraceError(
            f"{path}: the events are not as the profiler writes them, and the file is no valid JSON: {error}",
            expected="a complete torch-profiler trace",
            next_step="capture it again, and wait until the profiler has written it",
        ) from error
    del text
    events = decoded if isinstance(decoded, list) else decoded.traceEvents
    wanted = frozenset(categories)
    return (_row(event) for event in events if event.cat in wanted and event.ph in ("X", ""))


def _row(event: _Event) -> Row:
    name = bytes(event.name)
    raw = bytes(event.args)[1:-1]
    args = b"" if b"{" in raw or b"}" in raw else raw
    if b'"correlation"' in raw:
        try:
            correlation = msgspec.json.decode(event.args, type=_Args).correlation
        except (msgspec.MsgspecError, RecursionError):
            correlation = None
        args = b"" if correlation is None else b'"correlation": %d' % correlation
    times = bytes(event.ts), bytes(event.dur)
    return (
        event.cat.encode(),
        name.strip(b'"'),
        bytes(event.pid).strip(b'"'),
        bytes(event.tid).strip(b'"'),
        *times,
        args,
    )
