"""Captures a profile of one cell under load, after the timed cells, and waits until every rank's file is complete."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tpgate.errors import ServerError, TpgateError
from tpgate.load.generator import drive
from tpgate.load.records import LoadResult
from tpgate.measure.attribution import trace_values
from tpgate.measure.captured import Profile
from tpgate.server.api import Api
from tpgate.specs import LoadSpec
from tpgate.trace.complete import incompleteness
from tpgate.trace.reader import named_rank, trace_files

__all__ = ["Profile", "profile_cell", "trace_values"]

_POLL_S = 0.05
_FILES_POLL_S = 0.2
_WAVES = 1
_SETTLE_SHARE = 0.98
_STOP_AFTER_S = 3.0


class Server(Protocol):
    """What a profile needs of a server."""

    @property
    def url(self) -> str:
        """Base URL."""

    def alive(self) -> str | None:
        """None while it lives, else why it does not."""


@dataclass(slots=True)
class _Load:
    """The load in its thread: its result, or why there is none."""

    thread: threading.Thread
    result: LoadResult | None = None
    error: str | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return not self.thread.is_alive()


def profile_cell(
    server: Server,
    load: LoadSpec,
    *,
    vocabulary: int,
    folder: Path,
    steps: int,
    ranks: int,
    activities: tuple[str, ...],
    deadline_s: float,
) -> Profile:
    """Drive a cell's load again, profile some decode steps of it at full concurrency, and wait for the files.

    Nothing is raised for a capture that went wrong: the profile says why, and the timed results are not touched.

    Args:
        server: The server; no timed cell may run.
        load: The cell. Its warm-up wave and a few waves behind it are driven, with prompts of their own.
        vocabulary: Size of the model's vocabulary.
        folder: Where the server shall write its files; must be visible to both under this path.
        steps: Engine steps to capture.
        ranks: Tensor-parallel ranks, which is the number of files to wait for.
        activities: ``GPU``, ``CPU`` or both, as /start_profile takes them.
        deadline_s: Seconds for all of it.
    """
    deadline = time.monotonic() + deadline_s
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    old = set(trace_files(folder))
    profile = Profile(folder=folder, load=load, steps=steps, ranks=ranks, activities=activities)
    api = Api(server.url)
    try:
        before = _tokens(api.metrics())
    except ServerError:
        before = _Tokens(None, None, None)
    running = _start_load(server.url, load, vocabulary, min(60.0, deadline_s))
    reached = _wait_full(api, load, before, running, min(deadline, time.monotonic() + deadline_s / 2))
    if reached.reason:
        profile = profile.noted(reached.reason)
    profile = _capture(api, server, profile, old, running, deadline)
    running.thread.join(timeout=max(0.0, deadline - time.monotonic()))
    return _with_load(profile, running, reached.batch)


def _profile_load(load: LoadSpec) -> LoadSpec:
    """The load of a capture: one full wave that is profiled, and waves behind it that keep the server busy."""
    return replace(load, requests=max(_WAVES * load.concurrency, 4), label=f"{load.label}-profile".strip("-"))


def _start_load(url: str, load: LoadSpec, vocabulary: int, stall_s: float) -> _Load:
    wanted = _profile_load(load)

    def run() -> None:
        try:
            running.result = drive(url, wanted, vocabulary=vocabulary, salt="profile", stall_timeout_s=stall_s)
        except TpgateError as error:
            running.error = error.what

    running = _Load(threading.Thread(target=run, name="tpgate-profile-load", daemon=True))
    running.thread.start()
    return running


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The server's counters: prompt tokens prefilled (cached ones too), requests running, requests waiting."""

    prefilled: float | None
    running: float | None
    waiting: float | None


def _tokens(metrics: dict[str, float]) -> _Tokens:
    def total(name: str, word: str = "") -> float | None:
        found = [v for key, v in metrics.items() if key.partition("{")[0] == name and word in key]
        return sum(found) if found else None

    return _Tokens(
        total("sglang:realtime_tokens_total", 'mode="prefill'),
        total("sglang:num_running_reqs"),
        total("sglang:num_queue_reqs"),
    )


@dataclass(frozen=True, slots=True)
class _Reached:
    """The batch that was seen running, and why full concurrency was not seen, or None."""

    batch: float | None
    reason: str | None = None


def _wait_full(api: Api, load: LoadSpec, before: _Tokens, running: _Load, deadline: float) -> _Reached:
    """Wait until the first wave is prefilled, so that every step from now on decodes at full concurrency.

    The count of prefilled tokens moves with every iteration. The gauge of running requests lags by some forty decode
    steps, so it is believed only where that count is not published.
    """
    wanted = load.concurrency * load.input_tokens * _SETTLE_SHARE
    seen: float | None = None
    while time.monotonic() < deadline and not running.over:
        try:
            now = _tokens(api.metrics())
        except ServerError as error:
            return _Reached(None, f"the server's counters cannot be read, full concurrency was not seen: {error.what}")
        seen = now.running
        if now.prefilled is not None:
            if now.prefilled - (before.prefilled or 0.0) >= wanted:
                return _Reached(float(load.concurrency))
        elif seen is not None and seen >= load.concurrency and not now.waiting:
            return _Reached(seen)
        time.sleep(_POLL_S)
    why = "the load ended first" if running.over else "not in time"
    return _Reached(None, f"full concurrency of {load.concurrency} was not seen ({seen} running): {why}")


@dataclass(slots=True)
class _Stopper:
    """Ends a profiler that waits for steps which will not come: the load is over and no file has appeared."""

    api: Api
    load: _Load
    over_since: float | None = None
    stopped: bool = False

    def stop_if_over(self) -> None:
        """Stop the profiler some seconds after the end of the load, once."""
        if not self.load.over or self.stopped:
            return
        now = time.monotonic()
        self.over_since = self.over_since or now
        if now - self.over_since > _STOP_AFTER_S:
            self.stopped = True
            with contextlib.suppress(ServerError):
                self.api.stop_profile()


def _capture(api: Api, server: Server, profile: Profile, old: set[Path], running: _Load, deadline: float) -> Profile:
    began = time.monotonic()
    try:
        api.start_profile(
            output_dir=str(profile.folder),
            num_steps=profile.steps,
            activities=profile.activities,
            profile_by_stage=False,
            with_stack=False,
            record_shapes=False,
            profile_prefix=None,
        )
    except ServerError as error:
        return profile.failed(f"the profiler did not start: {error.what}")
    files, missing = _wait_files(profile, old, server.alive, _Stopper(api, running), deadline)
    profile = replace(profile, files=files, seconds=time.monotonic() - began)
    return profile.failed(missing) if missing else profile


def _wait_files(
    profile: Profile, old: set[Path], alive: Callable[[], str | None], stopper: _Stopper, deadline: float
) -> tuple[tuple[Path, ...], str | None]:
    """Wait for one complete file a rank; return what there is and what is missing."""
    sizes: dict[Path, int] = {}
    done: dict[Path, int | None] = {}
    broken: dict[Path, str] = {}
    while True:
        for path in trace_files(profile.folder):
            size = path.stat().st_size
            if path in old or path in done or sizes.get(path) != size:
                sizes[path] = size
                continue
            reason = incompleteness(path)
            if reason is None:
                done[path] = named_rank(path)
                broken.pop(path, None)
            else:
                broken[path] = reason
        distinct = len(set(done.values())) if None not in done.values() else len(done)
        files = tuple(sorted(done, key=lambda path: (named_rank(path) or 0, path.name)))
        if distinct >= profile.ranks:
            return files, None
        dead = alive()
        if dead is not None or time.monotonic() >= deadline:
            return files, _what_is_missing(profile, done, broken, dead)
        if not sizes.keys() - old:
            stopper.stop_if_over()
        time.sleep(_FILES_POLL_S)


def _what_is_missing(profile: Profile, done: dict[Path, int | None], broken: dict[Path, str], dead: str | None) -> str:
    seen = {rank for rank in done.values() if rank is not None}
    absent = [str(rank) for rank in range(profile.ranks) if rank not in seen]
    parts = [f"{len(done)} of {profile.ranks} ranks have a complete trace file"]
    if absent and len(seen) == len(done):
        parts.append(f"none of rank {', '.join(absent)}")
    parts += [f"{path.name}: {reason}" for path, reason in sorted(broken.items())]
    parts.append(f"the server died: {dead}" if dead else "the deadline passed")
    return "; ".join(parts)


def _with_load(profile: Profile, running: _Load, batch: float | None) -> Profile:
    if running.error is not None:
        profile = profile.noted(f"the load failed: {running.error}")
    elif running.result is None:
        profile = profile.noted("the load had not ended at the deadline")
    elif running.result.stalled:
        profile = profile.noted(f"the load ended early: {running.result.stalled}")
    return replace(profile, batch=batch)
