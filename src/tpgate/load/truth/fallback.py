"""The truth server in Python, for machines without a C compiler: same arguments, same log, honest about its lateness.

It is slower than the C one by far. The log holds when each write really happened, so that a client is still held to
the truth; a tick that takes longer than it should shows in the log and is not made up for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from time import perf_counter_ns
from typing import IO, Any, cast

import orjson
import uvloop

from tpgate.load.truth.emissions import Emission, Kind, pack
from tpgate.load.truth.server import Schedule

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
_EARLY = ("silent", "cut", "errorevent")


def _chunk(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def _event(value: dict[str, Any]) -> bytes:
    return _chunk(b"data: " + orjson.dumps(value) + b"\n\n")


@dataclass
class _Request:
    number: int
    ordinal: int
    path: str
    asked: int
    prompt: int
    usage: bool
    fault: str
    arrived: int
    due: int = 0
    sent: int = 0
    held: int = 0
    pending: bytes = field(default=b"")


class _Server:
    """All streams, the tick, and the log."""

    def __init__(self, schedule: Schedule, log: IO[bytes]) -> None:
        self.schedule = schedule
        self.log = log
        self.live: dict[_Peer, _Request] = {}
        self.ordinals = 0

    def note(self, request: _Request, kind: Kind, ns: int | None = None) -> None:
        when = perf_counter_ns() if ns is None else ns
        self.log.write(pack(Emission(when, request.number, request.ordinal, request.sent, kind)))

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until told to stop."""
        step = self.schedule.tick_us * 1000
        due, ticks = perf_counter_ns(), 0
        while not stop.is_set():
            due = max(due + step, perf_counter_ns() - 50 * step)
            await asyncio.sleep(max(0, due - perf_counter_ns()) / 1e9)
            ticks += bool(self.live)
            if self.live and ticks == self.schedule.stall_tick:
                await asyncio.sleep(self.schedule.stall_us / 1e6)
            self._tick(perf_counter_ns())

    def _tick(self, now: int) -> None:
        running = sum(1 for request in self.live.values() if request.due)
        for request in self.live.values():
            if not request.due and (not self.schedule.slots or running < self.schedule.slots):
                waited = self.schedule.slots and now - request.arrived > self.schedule.tick_us * 1000
                request.due = (now if waited else request.arrived) + self.schedule.first_us * 1000
                running += 1
        halves = [
            (peer, request)
            for peer, request in list(self.live.items())
            if request.due and request.due <= now and self._step(peer, request)
        ]
        for peer, request in halves:
            self._emit(peer, request, request.pending)

    def _step(self, peer: _Peer, request: _Request) -> bool:
        half = request.sent >= request.asked // 2
        if half and request.fault in _EARLY:
            if request.fault == "silent":
                return False
            self.note(request, Kind.FAULT)
            if request.fault == "cut":
                del self.live[peer]
                peer.cut()
            else:
                peer.write(_event({"error": {"message": "scripted failure", "code": 500}}))
                self._end(peer, request)
            return False
        fresh = min(self.schedule.chunk, request.asked - request.sent)
        request.sent += fresh
        request.held += 1
        finish = "length" if request.sent >= request.asked else None
        if request.fault == "short" and request.sent >= request.asked // 2:
            finish, request.asked = "stop", request.sent
        request.pending += _event(self._token_event(request, fresh, finish))
        if request.held < self.schedule.merge and finish is None:
            return False
        if self.schedule.split:
            middle = len(request.pending) // 2
            peer.write(request.pending[:middle])
            request.pending = request.pending[middle:]
            return True
        self._emit(peer, request, request.pending)
        return False

    def _emit(self, peer: _Peer, request: _Request, data: bytes) -> None:
        self.note(request, Kind.EMISSION)
        peer.write(data)
        request.pending, request.held = b"", 0
        if request.sent >= request.asked:
            self._end(peer, request)

    def _token_event(self, request: _Request, fresh: int, finish: str | None) -> dict[str, Any]:
        start = 0 if self.schedule.cumulative else request.sent - fresh
        words = "".join(f" tök{place % 10}" for place in range(start, request.sent))
        if request.path == "/generate":
            ids = [1000 + place % 900 for place in range(start, request.sent)]
            reason = {"type": finish, "length": request.sent} if finish else None
            meta = {"finish_reason": reason, "prompt_tokens": request.prompt, "completion_tokens": request.sent}
            return {"text": words, "output_ids": ids, "meta_info": {"id": "x", **meta, "cached_tokens": 0}}
        text = {"delta": {"content": words}} if "chat" in request.path else {"text": words}
        usage = self._usage(request) if request.usage else None
        return {"id": "c", "choices": [{"index": 0, **text, "finish_reason": finish}], "usage": usage}

    def _usage(self, request: _Request) -> dict[str, Any]:
        counts = {"prompt_tokens": request.prompt, "completion_tokens": request.sent}
        return {**counts, "prompt_tokens_details": {"cached_tokens": 0}}

    def _end(self, peer: _Peer, request: _Request) -> None:
        del self.live[peer]
        tail = b"" if request.path == "/generate" else _event({"choices": [], "usage": self._usage(request)})
        tail += b"" if request.fault == "nodone" else _chunk(b"data: [DONE]\n\n")
        self.note(request, Kind.END)
        self.log.flush()  # the log is whole before the client can know that it is over
        peer.write(tail + (b"" if request.fault == "endless" else b"0\r\n\r\n"))


class _Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: _Server) -> None:
        self.server = server
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.live.pop(self, None)

    def write(self, data: bytes) -> None:
        """Write at once where the socket takes it; the loop's own queue would wait for the end of its round."""
        done = 0
        if not self.transport.get_write_buffer_size() and not self.transport.is_closing():
            try:
                done = os.write(self.transport.get_extra_info("socket").fileno(), data)
            except OSError:
                done = 0
        if done < len(data):
            self.transport.write(data[done:])

    def cut(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, found, rest = self.data.partition(b"\r\n\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in _lines(head))}
        if not found or len(rest) < int(fields.get("content-length", 0)):
            return
        self.data = b""
        self._begin(head.split()[1].decode(), fields, rest)

    def _begin(self, path: str, fields: dict[str, str], text: bytes) -> None:
        server, arrived = self.server, perf_counter_ns()
        body = orjson.loads(text) if text else {}
        asked = body.get("sampling_params", {}).get("max_new_tokens") or body.get("max_tokens") or 16
        prompt = body.get("input_ids") or body.get("prompt") or body.get("messages", [{}])[0].get("content", "").split()
        every, tag = server.schedule.every, fields.get("x-request-id", "").rpartition("tpgate-")[2]
        fault = server.schedule.fault if every and server.ordinals % every == every - 1 else "none"
        usage = bool((body.get("stream_options") or {}).get("continuous_usage_stats"))
        number = int(tag) if tag.isdigit() else -1
        request = _Request(number, server.ordinals, path, asked, len(prompt), usage, fault, arrived)
        server.ordinals += 1
        if fault == "http503" or not body:
            server.note(request, Kind.FAULT if body else Kind.END)
            answer = b'{"error":{"message":"scripted overload"}}' if body else b"{}"
            status = b"503 Service Unavailable" if body else b"200 OK"
            self.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(answer), answer))
            return
        server.note(request, Kind.ARRIVAL, arrived)
        self.write(_HEAD + (_event(_ROLE) if "chat" in path else b""))
        server.live[self] = request


def _lines(head: bytes) -> list[str]:
    return head.decode("latin-1").split("\r\n")[1:]


async def _serve(schedule: Schedule, log: IO[bytes]) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    server = _Server(schedule, log)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listener = await loop.create_server(lambda: _Peer(server), "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{listener.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.run(stop)
    listener.close()


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM; the arguments are those of the C server."""
    given = dict(argument.split("=", 1) for argument in arguments)
    log = Path(given.pop("log"))
    kinds = {each.name: each.type for each in fields(Schedule)}
    values: dict[str, Any] = {
        name: text if kinds[name] == "Fault" else bool(int(text)) if kinds[name] == "bool" else int(text)
        for name, text in given.items()
    }
    with log.open("wb") as file:
        uvloop.run(_serve(Schedule(**values), file))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
