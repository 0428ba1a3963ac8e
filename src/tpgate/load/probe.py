"""The client watches itself: how late its loop runs, and how much of a core it uses."""

from __future__ import annotations

import asyncio
import time
from array import array
from time import perf_counter_ns

from tpgate.load.timer import Timer

PERIOD_NS = 47_000_000
"""Period of the probe: not a divisor of common step times, so that it does not beat with the server's steps."""


class LagProbe:
    """A periodic timer on the client's loop; its delay is what a socket read that became ready then would have had.

    The schedule is absolute. A delay that swallows several periods counts once for each of them, with what each of
    them waited, as the reads that came in the meantime did.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, period_ns: int = PERIOD_NS) -> None:
        self.lags_ns = array("q")
        self._period = period_ns
        self._timer = Timer(loop, self._tick)
        self._due = 0
        self._cpu_ns = 0
        self._wall_ns = 0
        self.cpu_share = 0.0

    def start(self) -> None:
        """Begin to watch."""
        self._cpu_ns, self._wall_ns = time.process_time_ns(), perf_counter_ns()
        self._due = self._wall_ns + self._period
        self._timer.set(self._due)

    def _tick(self) -> None:
        self._observe()
        self._timer.set(self._due)

    def _observe(self) -> None:
        now = perf_counter_ns()
        while self._due <= now:
            self.lags_ns.append(now - self._due)
            self._due += self._period

    def stop(self) -> None:
        """Stop watching; a delay that is still going on counts."""
        self._observe()
        self.close()
        wall = max(1, perf_counter_ns() - self._wall_ns)
        self.cpu_share = min(1.0, (time.process_time_ns() - self._cpu_ns) / wall)

    def close(self) -> None:
        """Give the timer back."""
        self._timer.close()


def percentile(values: array[int], share: float) -> int:
    """Return the nearest-rank percentile of ``values``, or 0 where there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
