"""Drives one process's part of a cell on its own event loop."""

from __future__ import annotations

import asyncio
import time
from array import array
from time import perf_counter_ns

from tpgate.errors import LoadError
from tpgate.load.arrivals import offsets_ns
from tpgate.load.backlog import Backlog
from tpgate.load.connection import Connection
from tpgate.load.engines import engine_of
from tpgate.load.job import Job, Progress, Share
from tpgate.load.probe import LagProbe
from tpgate.load.stream import Stream
from tpgate.load.timer import Timer

_SWEEP_S = 0.25
_CONNECT_TIMEOUT_S = 20.0


class Driver:
    """Keeps the connections busy: hands each over to the next request first, and leaves all else to the backlog."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop, progress: Progress | None = None) -> None:
        self.job = job
        self.loop = loop
        self.stalled: str | None = None
        self.probe = LagProbe(loop)
        self.over: asyncio.Future[None] = loop.create_future()
        self._progress = progress
        self._reader = engine_of(job.load.api).reader
        self._backlog = Backlog(job, loop)
        self._left = len(job.indices)
        self._connections: list[Connection] = []
        self._idle: list[Connection] = []
        self._retried: set[int] = set()
        self._unsent: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._offsets = offsets_ns(job.load)
        self._arrivals: Timer | None = None
        self._started_ns = 0
        self._ended_ns = 0
        self._cpu_ns = 0

    async def prepare(self) -> None:
        """Open every connection and build the first requests.

        Raises:
            LoadError: The server cannot be reached.
        """
        while len(self._connections) < self.job.connections:
            count = min(64, self.job.connections - len(self._connections))
            opened = await asyncio.gather(*(self._connect() for _ in range(count)), return_exceptions=True)
            self._connections += [item for item in opened if isinstance(item, Connection)]
            for item in opened:
                if isinstance(item, BaseException):
                    self.close()
                    raise item
        while self._backlog.build(2 * self.job.connections):
            pass

    async def run(self) -> None:
        """Drive the load to its end, early or not. The connections are open."""
        self._cpu_ns = time.process_time_ns()
        self._started_ns = self._ended_ns = perf_counter_ns()
        self.probe.start()
        sweep = self.loop.call_later(self._sweep_s, self._sweep)
        if self.over.done():
            pass  # ended before it began
        elif self._offsets:
            self._idle = list(self._connections)
            self._arrivals = Timer(self.loop, self._arrive)
            self._arrive()
        else:
            for connection in list(self._connections):
                self._next(connection, None)
        try:
            await self.over
        finally:
            sweep.cancel()
            self.probe.stop()
            if self._arrivals is not None:
                self._arrivals.close()
            for task in self._tasks:
                task.cancel()
            self.close()
            await asyncio.sleep(0)

    def close(self) -> None:
        """Close every connection."""
        self.probe.close()
        for connection in self._connections:
            connection.close()

    def share(self) -> Share:
        """Parse what is left and return everything. The load is over."""
        self._backlog.drain()
        cpu = time.process_time_ns() - self._cpu_ns
        records = sorted(self._backlog.records, key=lambda record: record.index)
        return Share(
            records,
            self._started_ns,
            self._ended_ns,
            array("q", self.probe.lags_ns),
            self.probe.cpu_share,
            cpu,
            self._backlog.token_reads,
            self._backlog.late_reads,
            self.stalled,
        )

    def end(self, reason: str) -> None:
        """End the load early; requests on their way are recorded as given up."""
        if self.over.done():
            return
        self.stalled = reason
        self.over.set_result(None)
        for connection in self._connections:
            connection.give_up(reason)
        for stream in self._unsent.values():
            self._backlog.finish(stream)

    def finished(self, connection: Connection, stream: Stream) -> None:
        """Hand the connection over to the next request first; the answer is parsed later."""
        now = stream.ended_ns
        if now > self._ended_ns:
            self._ended_ns = now
        if stream.failure is not None and self._retry(connection, stream):
            return
        self._left -= 1
        if self._left == 0 and not self.over.done():
            self.over.set_result(None)
        if not self.over.done():
            if connection.alive:
                self._next(connection, None)
            else:
                self._replace(connection)
        self._backlog.finish(stream)

    def lost(self, connection: Connection) -> None:
        """The server closed an idle connection: open another one."""
        if connection in self._idle:
            self._idle.remove(connection)
            self._replace(connection)

    def _retry(self, connection: Connection, stream: Stream) -> bool:
        """Send a request again, once, that the server never saw because it was closing an idle connection."""
        unseen = not stream.status and not stream.parts and connection.answered > 0
        if not unseen or stream.index in self._retried or self.over.done():
            return False
        self._retried.add(stream.index)
        self._unsent[stream.index] = stream
        self._backlog.again(stream.index)
        self._replace(connection)
        return True

    def _next(self, connection: Connection, due: int | None) -> None:
        """Send the next request, or let the connection rest where none is due."""
        if self._offsets and due is None:
            self._idle.append(connection)
            self._arrive()
            return
        popped = self._backlog.pop()
        if popped is None:
            return
        index, request = popped
        self._unsent.pop(index, None)
        stream = Stream(index, self._reader(), 0)
        connection.send(request, stream)
        stream.scheduled_ns = stream.started_ns if due is None else due

    def _arrive(self) -> None:
        """Send every request that is due, as far as connections are free; wake up for the one after."""
        while (index := self._backlog.peek()) is not None:
            due = self._started_ns + self._offsets[index]
            if due > perf_counter_ns():
                if self._arrivals is not None:
                    self._arrivals.set(due)
                return
            if not self._idle:
                return  # the cap: the next answer that ends comes back here
            self._next(self._idle.pop(), due)

    @property
    def _sweep_s(self) -> float:
        return min(_SWEEP_S, self.job.stall_timeout_s / 4, self.job.request_timeout_s / 4)

    def _sweep(self) -> None:
        """Look for deadlines that passed, and parse the streams that hold much."""
        if self.over.done():
            return
        now = perf_counter_ns()
        stall, limit = self.job.stall_timeout_s * 1e9, self.job.request_timeout_s * 1e9
        latest, busy, failed = 0, False, []
        for connection in self._connections:
            stream = connection.stream
            if stream is None:
                continue
            busy = True
            last = stream.times[-1] if stream.times else stream.last_ns
            latest = max(latest, last)
            if len(stream.parts) >= 8:
                self._backlog.relieve(stream)
            elif stream.parts and now - last > 1e9:
                connection.settle()
            if now - stream.started_ns > limit:
                failed.append((connection, f"no end within {self.job.request_timeout_s:g} s"))
            elif now - last > stall and last > stream.started_ns:
                failed.append((connection, f"no byte for {self.job.stall_timeout_s:g} s"))
        if busy and now - latest > stall:
            self.end(f"no byte from any stream for {self.job.stall_timeout_s:g} s")
            return
        for connection, reason in failed:
            connection.give_up(reason)
        self._backlog.rouse()
        if self._progress is not None:
            self._progress(len(self.job.indices) - self._left, len(self.job.indices))
        self.loop.call_later(self._sweep_s, self._sweep)

    async def _connect(self) -> Connection:
        host, port = self.job.address
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                _, connection = await self.loop.create_connection(lambda: Connection(self), host, port)
        except (OSError, TimeoutError) as error:
            raise LoadError(
                f"cannot connect to {host}:{port}: {str(error) or 'timed out'}",
                expected=f"a server that takes {self.job.connections} connections",
                next_step="look at the server's log; raise `ulimit -n` if descriptors ran out",
            ) from error
        return connection

    def _replace(self, connection: Connection) -> None:
        """Open a new connection in the place of one that is gone; a server that takes none has died."""
        self._connections.remove(connection)

        async def reopen() -> None:
            try:
                fresh = await self._connect()
            except LoadError as error:
                self.end(f"server gone: {error.what}")
                return
            self._connections.append(fresh)
            self._next(fresh, None)

        task = self.loop.create_task(reopen())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
