"""One streamed HTTP answer: reads are stamped and kept as they come, and parsed later, when nobody waits."""

from __future__ import annotations

from array import array

import msgspec

from tpgate.load.engines.base import Reader

_MESSAGE_BYTES = 4096
_UNREADABLE = (ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
DONE = b"[DONE]"


def _size(text: str | bytes, base: int) -> int:
    """Return a length in a framing; a negative one would send the reader back."""
    size = int(text, base)
    if size < 0:
        raise ValueError(f"a length of {size}")
    return size


class Stream:
    """The answer to one request.

    ``times`` and ``parts`` are filled by the connection, one entry a socket read, and emptied by :meth:`consume`.
    The time of an event is the time of the read that brought its last byte. HTTP framing: chunked, content-length,
    or up to the end of the connection.

    Attributes:
        index: Index of the request.
        scheduled_ns: When it was to be sent.
        started_ns: Just before its first byte was written.
        ended_ns: When the answer ended, or was given up; 0 until then.
        failure: Why the request was given up from outside (lost connection, deadline), or None.
        last_ns: Time of the last read that was parsed.
        chunked: Whether the body is in chunked coding.
        closes: Whether the connection cannot be used again.
        complete: Whether the body ended as its framing says.
        done: Whether ``[DONE]`` came.
        malformed: What could not be read, or None.
    """

    __slots__ = (
        "_body",
        "_data",
        "_left",
        "_pending",
        "_read_events",
        "_rest",
        "_trailer",
        "_usual",
        "chunk_ns",
        "chunk_tokens",
        "chunked",
        "closes",
        "complete",
        "done",
        "ended_ns",
        "event_stream",
        "failure",
        "index",
        "last_ns",
        "late_reads",
        "malformed",
        "parts",
        "reader",
        "scheduled_ns",
        "started_ns",
        "status",
        "times",
        "token_reads",
    )

    def __init__(self, index: int, reader: Reader, started_ns: int, scheduled_ns: int | None = None) -> None:
        self.index = index
        self.reader = reader
        self.started_ns = started_ns
        self.scheduled_ns = started_ns if scheduled_ns is None else scheduled_ns
        self.ended_ns = 0
        self.failure: str | None = None
        self.times: list[int] = []
        self.parts: list[bytes] = []
        self.last_ns = started_ns
        self.chunk_ns = array("q")
        self.chunk_tokens = array("i")
        self.token_reads = 0
        self.late_reads = 0
        self.status = 0
        self.event_stream = False
        self.closes = False
        self.complete = False
        self.done = False
        self.malformed: str | None = None
        self.chunked = False
        self._trailer = False
        self._left: int | None = 0
        self._rest = b""
        self._pending = b""
        self._data: list[bytes] = []
        self._body = b""
        self._read_events = 0
        self._usual = False

    def consume(self, limit: int | None = None) -> bool:
        """Parse up to ``limit`` kept reads, oldest first; return whether none is left."""
        count = len(self.parts) if limit is None else min(limit, len(self.parts))
        try:
            for when, part in zip(self.times[:count], self.parts[:count], strict=True):
                if not (self._usual and self._single(part, when)):
                    self._part(part, when)
        except _UNREADABLE as error:
            self.malformed = self.malformed or f"unreadable answer: {error}"[:200]
        if count:
            self.last_ns = self.times[count - 1]
            del self.times[:count], self.parts[:count]
        return not self.parts

    def _single(self, part: bytes, when: int) -> bool:
        """Take in a read that is one whole chunk with one whole event, as nearly all are; False for any other."""
        size = len(part)
        head = part.find(b"\r\n")
        start = head + 8
        if (
            part[-4:] != b"\n\n\r\n"
            or part[head + 2 : start] != b"data: "
            or part.find(b"\n", start) != size - 4
            or part[:head] != b"%x" % (size - head - 4)
        ):
            return False
        payload = part[start:-4]
        reader = self.reader
        known = reader.tokens
        if payload == DONE:
            self.done = True
        elif (tokens := reader.read(payload)) > known:
            self.chunk_tokens.append(tokens)
            self.chunk_ns.append(when)
            self.token_reads += 1
        return True

    def close(self) -> None:
        """Say that no more reads will come: a body without a length ends here, and a last line needs no line end."""
        self.consume()
        if self.status and self._left is None and not self.chunked and self.failure is None:
            self.complete = True
        if self._pending or self._data:
            try:
                self._lines(b"\n\n", self.last_ns)
            except _UNREADABLE as error:
                self.malformed = self.malformed or f"unreadable answer: {error}"[:200]

    @property
    def message(self) -> str:
        """The text of an answer that is no event stream, such as an error page; at most 200 characters."""
        text = self._body.decode("utf-8", "replace").strip()
        return " ".join(text.split())[:200]

    def _part(self, data: bytes, when: int) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        self._read_events = 0
        if not self.status:
            data = self._head(data)
        if self.status and data:
            if self.chunked:
                self._chunks(data, when)
            else:
                self._plain(data, when)
        self._usual = (
            self.chunked
            and self.event_stream
            and self.status == 200
            and not (self._left or self._rest or self._pending or self._data or self._trailer)
        )
        if self._read_events:
            self.token_reads += 1
            self.late_reads += self._read_events > 1

    def _head(self, data: bytes) -> bytes:
        """Read the head once it is whole and return what follows it."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._rest = data
            return b""
        lines = data[:end].decode("latin-1").split("\r\n")
        version, _, rest = lines[0].partition(" ")
        status = int(rest[:3])
        if not version.startswith("HTTP/1.") or status < 100:
            raise ValueError(f"not HTTP/1.x: {lines[0][:40]!r}")
        if 100 <= status < 200:
            return self._head(data[end + 4 :])
        fields = {name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(":") for x in lines)}
        self.event_stream = fields.get("content-type", "").startswith("text/event-stream")
        self.chunked = "chunked" in fields.get("transfer-encoding", "")
        length = fields.get("content-length")
        self._left = 0 if self.chunked else None if length is None else _size(length, 10)
        connection = fields.get("connection", "keep-alive" if version == "HTTP/1.1" else "close")
        self.closes = "close" in connection or (not self.chunked and length is None)
        self.complete = self._left == 0 and not self.chunked
        self.status = status
        return data[end + 4 :]

    def _plain(self, data: bytes, when: int) -> None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            self.complete = self._left == 0
        self._payload(data, when)

    def _chunks(self, data: bytes, when: int) -> None:
        """Undo the chunked coding; ``_left`` counts what is missing of a chunk that began in an earlier read."""
        position, size = 0, len(data)
        left = self._left or 0
        while position < size and not self.complete:
            if left > 2:
                piece = data[position : position + left - 2]
                position += len(piece)
                left -= len(piece)
                self._payload(piece, when)
            elif left:
                position += 1
                left -= 1
            else:
                end = data.find(b"\r\n", position)
                if end < 0:
                    self._rest = data[position:]
                    break
                line = data[position:end]
                position = end + 2
                if self._trailer:
                    self.complete = not line
                elif (length := _size(line.partition(b";")[0], 16)) == 0:
                    self._trailer = True
                else:
                    stop = position + length
                    if stop + 2 <= size:
                        self._payload(data[position:stop], when)
                        position = stop + 2
                    else:
                        left = length + 2
        self._left = left

    def _payload(self, data: bytes, when: int) -> None:
        if not self.event_stream or self.status != 200:
            self._body = (self._body + data)[:_MESSAGE_BYTES]
        elif (
            data[-2:] == b"\n\n"
            and data[:6] == b"data: "
            and data.find(b"\n") == len(data) - 2
            and not (self._pending or self._data)
        ):
            self._event(data[6:-2], when)
        else:
            self._lines(data, when)

    def _lines(self, data: bytes, when: int) -> None:
        """The general way: events that share a read, span reads, or use CRLF, comments and several data lines."""
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        for line in lines:
            line = line[:-1] if line[-1:] == b"\r" else line
            if line[:5] == b"data:":
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                event, self._data = b"\n".join(self._data), []
                self._event(event, when)

    def _event(self, payload: bytes, when: int) -> None:
        if payload == DONE:
            self.done = True
            return
        known = self.reader.tokens
        tokens = self.reader.read(payload)
        if tokens > known:
            self.chunk_tokens.append(tokens)
            self.chunk_ns.append(when)
            self._read_events += 1
