"""The load generator: drives one cell against a server and returns a record of every request."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import threading
import time
from array import array
from multiprocessing.connection import Connection
from typing import Any

import uvloop

from tpgate.errors import LoadError
from tpgate.load.driver import Driver
from tpgate.load.job import INTERRUPTED, Job, Progress, Share, address_of
from tpgate.load.probe import percentile
from tpgate.load.records import ClientHealth, LoadResult
from tpgate.load.worker import drive_processes
from tpgate.specs import LoadSpec


def drive(
    url: str,
    load: LoadSpec,
    *,
    vocabulary: int,
    salt: str = "",
    model: str = "default",
    processes: int = 1,
    stall_timeout_s: float = 60.0,
    request_timeout_s: float = 600.0,
    progress: Progress | None = None,
) -> LoadResult:
    """Drive one cell and block until it is over.

    The connections are opened first. Warm-up requests are handed over to the measured ones without draining the
    server: all of it is one pass, and a record says which it was. A load that ends early (``LoadResult.stalled``)
    still brings back what had arrived; Ctrl-C ends it that way too (:data:`tpgate.load.job.INTERRUPTED`).

    Args:
        url: Base URL of the server, such as ``http://127.0.0.1:30000``.
        load: The cell.
        vocabulary: Size of the model's vocabulary.
        salt: Changes every prompt; give each launch another one where the server is not flushed in between.
        model: Model name for the OpenAI-compatible endpoints.
        processes: Client processes; more than one where a core is not enough (above about 10,000 streams).
        stall_timeout_s: Seconds without any byte from the server that end the load, or fail a stream that had begun.
        request_timeout_s: Seconds that one request may take.
        progress: Called with (answers that ended, requests in all), about 4 times a second.

    Returns:
        Records in order of issue, and the client's self-check.

    Raises:
        LoadError: The URL is wrong, or no connection could be opened.
    """
    address_of(url)
    total = load.warmup_requests + load.requests
    count = max(1, min(processes, load.concurrency, total))
    _allow_descriptors(load.concurrency + 64)
    connections = [load.concurrency // count + (part < load.concurrency % count) for part in range(count)]
    jobs = [
        Job(
            url=url,
            load=load,
            vocabulary=vocabulary,
            salt=salt,
            model=model,
            first=part,
            step=count,
            connections=min(connections[part], len(range(part, total, count))),
            stall_timeout_s=stall_timeout_s,
            request_timeout_s=request_timeout_s,
        )
        for part in range(count)
    ]
    wall, mono = time.time_ns(), time.perf_counter_ns()
    shares = [run_job(jobs[0], progress)] if count == 1 else drive_processes(jobs, progress)
    return merge(shares, wall - mono)


def run_job(job: Job, progress: Progress | None = None, pipe: Connection[Any, Any] | None = None) -> Share:
    """Drive one process's part on a fresh event loop, with the garbage collector off meanwhile.

    Args:
        job: The part.
        progress: Called with (answers that ended, requests of this part).
        pipe: In a worker: says ``ready`` to the parent once connected, waits for its ``go``, and ends on ``stop``.
    """
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    collecting = gc.isenabled()
    gc.disable()
    try:
        share: Share = loop.run_until_complete(_run(Driver(job, loop, progress), pipe))
        return share
    finally:
        if collecting:
            gc.enable()
        loop.close()


async def _run(driver: Driver, pipe: Connection[Any, Any] | None) -> Share:
    await driver.prepare()
    loop = driver.loop
    if pipe is not None:
        pipe.send(("ready", None))
        if pipe.recv() != "go":
            driver.end(INTERRUPTED)
        loop.add_reader(pipe.fileno(), _stop, driver, pipe)
    main = pipe is None and threading.current_thread() is threading.main_thread()
    if main:
        loop.add_signal_handler(signal.SIGINT, driver.end, INTERRUPTED)
    try:
        await driver.run()
    finally:
        if main:
            loop.remove_signal_handler(signal.SIGINT)
        if pipe is not None:
            loop.remove_reader(pipe.fileno())
    return driver.share()


def _stop(driver: Driver, pipe: Connection[Any, Any]) -> None:
    """The parent said stop, or is gone."""
    with contextlib.suppress(EOFError):
        pipe.recv()
    driver.end(INTERRUPTED)


def merge(shares: list[Share], wall_offset_ns: int) -> LoadResult:
    """Merge what the processes brought back: every record once, in order of issue; counts and delays are pooled."""
    records = tuple(sorted((record for share in shares for record in share.records), key=lambda r: r.index))
    lags = array("q")
    for share in shares:
        lags.extend(share.lags_ns)
    tokens = sum(record.output_tokens for record in records)
    reads = sum(share.token_reads for share in shares)
    started = min(share.started_ns for share in shares)
    health = ClientHealth(
        loop_lag_p99_s=percentile(lags, 0.99) / 1e9,
        loop_lag_max_s=max(lags, default=0) / 1e9,
        cpu_share=max(share.cpu_share for share in shares),
        cpu_seconds_per_token=sum(share.cpu_ns for share in shares) / 1e9 / tokens if tokens else None,
        late_stamps=sum(share.late_reads for share in shares) / reads if reads else 0.0,
        processes=len(shares),
    )
    return LoadResult(
        records=records,
        started_ns=started,
        ended_ns=max(share.ended_ns for share in shares),
        wall_start_unix_ns=started + wall_offset_ns,
        health=health,
        stalled=next((share.stalled for share in shares if share.stalled), None),
    )


def _allow_descriptors(wanted: int) -> None:
    """Raise the soft limit of open files as far as the hard one allows.

    Raises:
        LoadError: The hard limit is too low for this many connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise LoadError(
                f"{wanted} open files are needed, the limit is {hard}",
                expected="room for one connection a request in flight",
                next_step=f"ulimit -Hn {wanted}",
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
