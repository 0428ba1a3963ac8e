"""Ends running servers on the ways out of this process that skip ``with`` blocks: exit hooks and SIGTERM.

What no code of this process can see, SIGKILL or a crash, is the supervisor's to notice.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from tpgate.errors import ServerError

_running: dict[int, Callable[[], None]] = {}
_installed_in: list[int] = []


def watch(key: int, stop: Callable[[], None]) -> None:
    """Call ``stop`` when this process exits or gets SIGTERM, unless :func:`forget` comes first."""
    _running[key] = stop
    if os.getpid() in _installed_in:
        return
    _installed_in.append(os.getpid())
    atexit.register(_stop_all, os.getpid())
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _handler(os.getpid(), before))


def forget(key: int) -> None:
    """Undo :func:`watch`."""
    _running.pop(key, None)


def _stop_all(owner: int) -> None:
    """Stop every server, in the process that started them and not in its forks."""
    if os.getpid() != owner:
        return
    for key, stop in list(_running.items()):
        forget(key)
        try:
            stop()
        except ServerError as error:
            sys.stderr.write(f"tpgate: {error}\n")


def _handler(owner: int, before: Any) -> Callable[[int, FrameType | None], None]:  # noqa: ANN401 - as signal has it
    def handle(number: int, frame: FrameType | None) -> None:
        _stop_all(owner)
        if callable(before):
            before(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    return handle


@contextlib.contextmanager
def interrupt_later() -> Iterator[None]:
    """Hold back Ctrl-C inside the block, and raise KeyboardInterrupt behind it; a bounded clean-up is not cut short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
