"""A scripted HTTP server on a thread: what each request is answered with, write by write, is the test's to say."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"

Script = Callable[["Request"], Iterator[bytes | None]]


@dataclass
class Request:
    """One request as it arrived; ``number`` counts from 0 in order of arrival."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def index(self) -> int:
        return int(self.headers["x-request-id"].rpartition("-")[2])


def chunked(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def generate_event(tokens: int, ids: list[int], finish: Any = None, **meta: Any) -> bytes:
    info = {"id": "x", "finish_reason": finish, "prompt_tokens": 8, "completion_tokens": tokens, "cached_tokens": 0}
    return event({"text": "w", "output_ids": ids, "meta_info": {**info, **meta}})


def generate_answer(tokens: int, step: int = 1, cumulative: bool = False) -> list[bytes]:
    """The events of a whole /generate stream, [DONE] included."""
    events = []
    for end in range(step, tokens + step, step):
        end = min(end, tokens)
        start = 0 if cumulative else (end - 1) // step * step
        finish = {"type": "length", "length": tokens} if end == tokens else None
        events.append(generate_event(end, list(range(100 + start, 100 + end)), finish))
    return [*events, DONE]


def good(request: Request) -> Iterator[bytes | None]:
    """A right answer to a /generate request."""
    yield HEAD
    for payload in generate_answer(request.body["sampling_params"]["max_new_tokens"]):
        yield chunked(payload)
    yield LAST


@dataclass
class ScriptedServer:
    """``script(request)`` yields what is written; None closes the connection, and so does a script that raises."""

    script: Script
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    def __enter__(self) -> ScriptedServer:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def stop(self) -> None:
        """Stop listening and cut every connection."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._sockets.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while request := self._read(connection):
                    for piece in self.script(request):
                        if piece is None:
                            return
                        connection.sendall(piece)
            except OSError:
                return

    def _read(self, connection: socket.socket) -> Request | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += connection.recv(65536)
        with self._lock:
            request = Request(len(self.requests), first.split()[1], headers, json.loads(body))
            self.requests.append(request)
        return request
