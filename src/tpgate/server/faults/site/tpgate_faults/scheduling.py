"""Faults of the scheduler process: it sleeps, stalls, batches less, dies, hangs. One decode step is one step."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

Hook = tuple[str, Callable[..., Any], str]

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
_DEATH_STATUS = 17


def _each_decode(act: Callable[[int], None]) -> list[Hook]:
    """Return a hook that calls ``act`` with the number of the decode step, from 1, before it runs."""
    numbers = itertools.count(1)

    def before(_scheduler: object, batch: Any, *_: Any, **__: Any) -> None:  # noqa: ANN401 - SGLang's own class
        if batch.forward_mode.is_decode():
            act(next(numbers))

    return [(f"{_SCHEDULER}.run_batch", before, "BEFORE")]


def scheduler_sleep_ms(size: float, _: dict[str, float]) -> list[Hook]:
    """Sleep ``size`` ms before every decode step."""
    return _each_decode(lambda _number: time.sleep(size / 1e3))


def stall_every(size: float, asked: dict[str, float]) -> list[Hook]:
    """Stall for ``stall_ms`` (200 by default) before every ``size``-th decode step."""
    length = asked.get("stall_ms", 200.0) / 1e3
    every = int(size)
    return _each_decode(lambda number: time.sleep(length) if number % every == 0 else None)


def stall_ms(_size: float, _: dict[str, float]) -> list[Hook]:
    """Nothing by itself: the length of a stall."""
    return []


def die_after_steps(size: float, _: dict[str, float]) -> list[Hook]:
    """End the scheduler process after ``size`` decode steps, as a crash does."""
    return _each_decode(lambda number: os._exit(_DEATH_STATUS) if number > size else None)


def hang_after_steps(size: float, _: dict[str, float]) -> list[Hook]:
    """Stand still for an hour after ``size`` decode steps."""
    return _each_decode(lambda number: time.sleep(3600.0) if number > size else None)


def max_running(size: float, _: dict[str, float]) -> list[Hook]:
    """Let at most ``size`` requests run together; the server's arguments do not show it."""
    cap = int(size)

    def after(result: int, _scheduler: object, running_bs: int, *_: Any, **__: Any) -> int:  # noqa: ANN401
        return min(result, max(0, cap - running_bs))

    return [(f"{_SCHEDULER}.get_num_allocatable_reqs", after, "AFTER")]
