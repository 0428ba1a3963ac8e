"""A timer that is exact to microseconds and wakes the loop the way a socket does.

The loop's own timers are rounded to milliseconds, which is too coarse to judge stamps by. On Linux a timerfd stands
in for them; it becomes readable at absolute times, and the loop sees it in the same poll as its sockets.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

_MONOTONIC, _FLAGS, _ABSOLUTE = 1, 0o2004000, 1


class _Times(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Timer:
    """Calls ``callback`` from the loop at an absolute monotonic time; set again for every call."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(_MONOTONIC, _FLAGS)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._ready)

    def set(self, due_ns: int) -> None:
        """Call back at ``due_ns`` (``time.perf_counter_ns``), or at once if that has passed."""
        if self._fd < 0:
            delay = max(0, due_ns - time.perf_counter_ns()) / 1e9
            self._handle = self._loop.call_later(delay, self._callback)
            return
        seconds, rest = divmod(max(1, due_ns), 1_000_000_000)
        times = _Times(0, 0, seconds, rest)
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(times), None)

    def close(self) -> None:
        """Stop it and give its descriptor back."""
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _ready(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self._callback()
