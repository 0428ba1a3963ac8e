"""An event-loop timer that is exact to tens of microseconds; the loops' own timers are rounded to milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = 0o2004000
_ABSOLUTE = 1


class ExactTimer:
    """Calls a function at an absolute monotonic time, through a timerfd where Linux has one.

    Args:
        callback: Called on the loop when the time has come; it may set the timer again.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1
        if hasattr(self._libc, "timerfd_create"):
            self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._fired)

    def at(self, when_ns: int | None) -> None:
        """Set the timer to a time of ``time.monotonic_ns``, or stop it with None; a past time fires at once."""
        if self._fd >= 0:
            seconds, rest = divmod(0 if when_ns is None else max(1, when_ns), 1_000_000_000)
            value = ctypes.create_string_buffer(struct.pack("qqqq", 0, 0, seconds, rest))
            self._libc.timerfd_settime(self._fd, _ABSOLUTE, value, None)
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if when_ns is not None:
            delay = max(0.0, (when_ns - time.monotonic_ns()) / 1e9)
            self._handle = self._loop.call_later(delay, self._callback)

    def _fired(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        self._callback()

    def close(self) -> None:
        """Release the timer."""
        self.at(None)
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
