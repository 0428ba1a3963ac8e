"""Work that can wait: parsing answers and building requests, in slices between two polls of the sockets."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter_ns

from tpgate.load.job import Job
from tpgate.load.outcome import record_of
from tpgate.load.records import RequestRecord
from tpgate.load.stream import Stream

_SLICE_NS = 200_000
_READS_A_STEP = 32
_READY_BYTES = 32 << 20


class Backlog:
    """Parses answers and builds requests in slices of 0.2 ms.

    Between two slices the loop polls its sockets, so a slice delays a stamp by its own length at most. Requests are
    kept ready (up to 32 MiB) so that a whole wave that ends at one moment can be handed over at once.

    Attributes:
        records: Records of the answers that were parsed to their end, in order of ending.
        token_reads: Socket reads of theirs that held a token-bearing event.
        late_reads: Those that held more than one.
    """

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self.records: list[RequestRecord] = []
        self.token_reads = 0
        self.late_reads = 0
        self._job = job
        self._loop = loop
        self._todo = iter(job.indices)
        self._requests: deque[tuple[int, bytes]] = deque()
        self._ready_bytes = 0
        self._finished: deque[Stream] = deque()
        self._partial: deque[Stream] = deque()
        self._scheduled = False

    def finish(self, stream: Stream) -> None:
        """Take an answer that is over."""
        self._finished.append(stream)
        self.rouse()

    def relieve(self, stream: Stream) -> None:
        """Take what an answer has brought so far, so that long streams do not pile up."""
        self._partial.append(stream)

    def rouse(self) -> None:
        """See that a slice comes soon."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._slice)

    def drain(self) -> None:
        """Parse all that is left; the load is over."""
        while self._finished:
            self._record(self._finished.popleft())

    def peek(self) -> int | None:
        """Return the index of the next request, or None where all were sent."""
        return self._requests[0][0] if self._requests or self.build(1) else None

    def pop(self) -> tuple[int, bytes] | None:
        """Return the next request as (index, bytes), or None where all were sent."""
        if self.peek() is None:
            return None
        index, request = self._requests.popleft()
        self._ready_bytes -= len(request)
        return index, request

    def again(self, index: int) -> None:
        """Put a request back to the front."""
        request = self._job.request(index)
        self._requests.appendleft((index, request))
        self._ready_bytes += len(request)

    def build(self, wanted: int) -> bool:
        """Build one more request unless ``wanted`` are ready or they take too much room; return whether it did."""
        if len(self._requests) >= wanted or self._ready_bytes > _READY_BYTES:
            return False
        index = next(self._todo, None)
        if index is None:
            return False
        request = self._job.request(index)
        self._ready_bytes += len(request)
        self._requests.append((index, request))
        return True

    def _slice(self) -> None:
        """One slice; comes again as long as there is work."""
        self._scheduled = False
        until = perf_counter_ns() + _SLICE_NS
        while perf_counter_ns() < until:
            if self._finished:
                if self._finished[0].consume(_READS_A_STEP):
                    self._record(self._finished.popleft())
            elif self._partial:
                if self._partial[0].consume(_READS_A_STEP):
                    self._partial.popleft()
            elif not self.build(self._job.connections):
                return
        self.rouse()

    def _record(self, stream: Stream) -> None:
        self.records.append(record_of(stream, self._job.load))
        self.token_reads += stream.token_reads
        self.late_reads += stream.late_reads
