"""HTTP/1.1, as much as the stand-in needs: keep-alive, bodies with a length, chunked answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import orjson

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that was read in full."""

    method: str
    path: str
    query: str
    body: bytes


class Handler(Protocol):
    """What answers requests: exactly one answer, or one stream that is begun and ended, a request."""

    def __call__(self, request: HttpRequest, connection: Connection) -> None:
        """Answer ``request`` on ``connection``, now or later."""
        ...


class Connection(asyncio.Protocol):
    """One client connection; requests on it are answered one after the other.

    Args:
        handler: Answers the requests.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answering = False
        self._trickle: deque[bytes] | None = None
        self._dripping: asyncio.Task[None] | None = None
        self.on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport and switch Nagle's algorithm off."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")  # noqa: S101
        self._transport = transport  # type: ignore[assignment]
        plug = transport.get_extra_info("socket")
        if plug is not None:
            with contextlib.suppress(OSError):
                plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever streams on this connection."""
        self._transport = None
        if self._dripping is not None:
            self._dripping.cancel()
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        """Collect bytes until a request is whole."""
        self._buffer += data
        self._next()

    def _next(self) -> None:
        while not self._answering:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            method, target, *_ = (*lines[0].split(" "), "", "")
            length = 0
            for line in lines[1:]:
                name, _, value = line.partition(":")
                if name.strip().lower() == "content-length" and value.strip().isdigit():
                    length = int(value)
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            path, _, query = target.partition("?")
            self._answering = True
            self._handler(HttpRequest(method, path, query, body), self)

    def write(self, data: bytes) -> None:
        """Write raw bytes, byte by byte if :meth:`trickle` was called."""
        if self._transport is None:
            return
        if self._trickle is None:
            self._transport.write(data)
            return
        self._trickle.extend(data[i : i + 1] for i in range(len(data)))
        if self._dripping is None or self._dripping.done():
            self._dripping = asyncio.get_running_loop().create_task(self._drip(self._trickle))

    async def _drip(self, queue: deque[bytes]) -> None:
        while queue and self._transport is not None:
            self._transport.write(queue.popleft())
            await asyncio.sleep(0)

    def trickle(self) -> None:
        """Send everything from now on in pieces of one byte."""
        self._trickle = deque()

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Send a whole answer."""
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\ncontent-type: {kind}\r\n"
        self.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        self._done()

    def answer_json(self, value: object, status: int = 200) -> None:
        """Send a whole answer as JSON."""
        self.answer(status, orjson.dumps(value))

    def begin(self) -> None:
        """Begin a stream of events."""
        self.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    def chunk(self, data: bytes) -> None:
        """Send a piece of a stream as one HTTP chunk."""
        if data:
            self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End a stream."""
        self.write(b"0\r\n\r\n")
        self._done()

    def drop(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _done(self) -> None:
        self._answering = False
        self.on_lost = None
        asyncio.get_running_loop().call_soon(self._next)
