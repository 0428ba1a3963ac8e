"""Reads a plain or gzipped trace in chunks that end between events, within a limit."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tpgate.errors import TraceError

try:
    _zlib: Any = importlib.import_module("isal.isal_zlib")
except ImportError:
    _zlib = zlib
_CORRUPT: tuple[type[Exception], ...] = (zlib.error, _zlib.error)

CHUNK_BYTES = 1 << 20
_PACKED_BYTES = 1 << 18
LIMIT_BYTES = 8 << 30
"""Uncompressed size above which a trace is refused: a guard against a gzip bomb and against a capture gone wild."""
_GAP_BYTES = 256 << 20
_MARK = b'"ph"'
_GZIP = 31
_GZIP_MAGIC = b"\x1f\x8b"


class Chunks:
    """Iterates over a trace in pieces of whole events.

    Every piece but the first starts at an event's ``"ph"`` key (which cannot stand inside a JSON string, where the
    quotes would be escaped). After the iteration, ``tail`` holds what follows the last such key.

    Attributes:
        total: Uncompressed bytes read so far.
        cut: The compressed stream ended early or is corrupt.
        first: First byte that is not white space, or None.
        tail: The last event and all that follows it.
        events: Whether any event was seen.
    """

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.total = 0
        self.cut = False
        self.first: int | None = None
        self.tail = b""
        self.events = False

    def __iter__(self) -> Iterator[bytes]:
        carry = b""
        for piece in self._pieces():
            if self.first is None:
                text = piece.lstrip()
                self.first = text[0] if text else None
            buffer = carry + piece if carry else piece
            at = buffer.rfind(_MARK)
            if at <= 0:
                carry = buffer
                if len(carry) > _GAP_BYTES:
                    raise self._error(f"no event within {len(carry) >> 20} MiB")
                continue
            self.events = True
            carry = buffer[at:]
            yield buffer[:at]
        self.events = self.events or carry.startswith(_MARK)
        self.tail = carry
        if carry:
            yield carry

    def _error(self, what: str) -> TraceError:
        return TraceError(
            f"{self.path}: {what}",
            expected="a profiler trace: .json or .json.gz with traceEvents",
            next_step="give the file that the profiler wrote",
        )

    def _pieces(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                packed = file.peek(2)[:2] == _GZIP_MAGIC
                for piece in self._inflated(file) if packed else iter(lambda: file.read(CHUNK_BYTES), b""):
                    self.total += len(piece)
                    if self.total > self.limit_bytes:
                        raise TraceError(
                            f"{self.path}: more than {self.limit_bytes} bytes uncompressed",
                            expected="a trace of a few decode steps, without stacks and shapes",
                            next_step="profile fewer steps, or raise the limit",
                        )
                    yield piece
        except OSError as error:
            raise self._error(str(error)) from error

    def _inflated(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the uncompressed bytes, at most a chunk at a time; what a cut-off file still holds is not lost."""
        member: Any = _zlib.decompressobj(_GZIP)
        ready: list[bytes] = []
        size = 0
        while packed := member.unused_data or file.read(_PACKED_BYTES):
            if member.eof:
                if not packed.startswith(_GZIP_MAGIC):
                    break
                member = _zlib.decompressobj(_GZIP)
            while packed:
                try:
                    piece = member.decompress(packed, CHUNK_BYTES)
                except _CORRUPT:
                    self.cut = True
                    yield b"".join(ready)
                    return
                packed = member.unconsumed_tail
                ready.append(piece)
                size += len(piece)
                if size >= CHUNK_BYTES:
                    yield b"".join(ready)
                    ready, size = [], 0
        self.cut = not member.eof
        yield b"".join(ready)
