"""One keep-alive connection: stamps every read, keeps it, and knows when an answer is over without parsing it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol, cast

from tpgate.load.stream import Stream

_END = b"\r\n0\r\n\r\n"
_LAST = b"0\r\n\r\n"


class Owner(Protocol):
    """Who is told about the fate of a connection's requests."""

    def finished(self, connection: Connection, stream: Stream) -> None:
        """The answer is over, or was given up (``stream.failure``)."""

    def lost(self, connection: Connection) -> None:
        """The connection closed while it was idle."""


class Connection(asyncio.Protocol):
    """A connection of a load generator; at most one request is on its way."""

    __slots__ = ("_add_part", "_add_time", "_framed", "alive", "answered", "fd", "owner", "stream", "transport")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.stream: Stream | None = None
        self.alive = False
        self.answered = 0
        self.fd = -1
        self.transport: asyncio.Transport | None = None
        self._framed = False
        self._add_time: Callable[[int], object] = int
        self._add_part: Callable[[bytes], object] = bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport and its descriptor."""
        self.transport = cast(asyncio.Transport, transport)
        self.fd = transport.get_extra_info("socket").fileno()
        self.alive = True

    def send(self, request: bytes, stream: Stream) -> None:
        """Write a request now, past the loop's own write queue, which waits for the end of the loop's round.

        ``stream.started_ns`` is stamped here.
        """
        self.stream = stream
        self._framed = False
        self._add_time, self._add_part = stream.times.append, stream.parts.append
        stream.started_ns = stream.last_ns = perf_counter_ns()
        try:
            written = os.write(self.fd, request)
        except BlockingIOError:
            written = 0
        except OSError:
            return  # the loop reports the loss of the connection
        if written < len(request) and self.transport is not None:
            self.transport.write(request[written:])

    def data_received(self, data: bytes) -> None:
        """Stamp and keep a read; look at its end only."""
        self._add_time(perf_counter_ns())
        self._add_part(data)
        if self._framed:
            if data.endswith(_LAST) or len(data) < 5:
                self._ending(data)
        elif self.stream is not None:
            self._first(self.stream)

    def _ending(self, data: bytes) -> None:
        stream = self.stream
        if stream is None:
            return
        if data.endswith(_END):
            self._finish(stream, stream.times[-1])
        else:
            self.settle()  # a terminator that is split over reads, or an event that looks like one

    def _first(self, stream: Stream) -> None:
        """Parse until the head is known. Chunked answers then need their last bytes only, the others every read."""
        stream.consume()
        if stream.complete or stream.malformed:
            self._finish(stream, stream.last_ns)
        elif stream.chunked:
            self._framed = True

    def settle(self) -> None:
        """Parse what is there, and end the answer if that completes it (a chunked body with trailers ends unseen)."""
        stream = self.stream
        if stream is not None:
            stream.consume()
            if stream.complete or stream.malformed:
                self._finish(stream, stream.last_ns)

    def _finish(self, stream: Stream, when: int) -> None:
        stream.ended_ns = when
        self.answered += 1
        self._idle()
        if stream.closes or stream.malformed:
            self.close()
        self.owner.finished(self, stream)

    def give_up(self, reason: str) -> None:
        """End the request on its way with ``reason`` and close the connection."""
        stream = self.stream
        self._idle()
        self.close()
        if stream is not None:
            stream.failure = reason
            stream.ended_ns = perf_counter_ns()
            self.owner.finished(self, stream)

    def _idle(self) -> None:
        self.stream = None
        self._add_time, self._add_part = int, bytes

    def close(self) -> None:
        """Close at once; nothing more will be read."""
        self.alive = False
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request on its way: a body that runs to the end of the connection ends well, others are cut."""
        was_alive, self.alive = self.alive, False
        stream = self.stream
        if stream is None:
            if was_alive:
                self.owner.lost(self)
            return
        self._idle()
        stream.ended_ns = perf_counter_ns()
        if exc is None:
            stream.close()
        if stream.complete:
            stream.ended_ns = stream.last_ns
        else:
            stream.failure = f"connection lost ({exc})" if exc else "connection closed by the server"
        self.owner.finished(self, stream)
