"""One measured pass of one cell: flush, count, drive, count again, compute, check."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from tpgate.errors import LoadError, ServerError, TpgateError
from tpgate.host.telemetry import Sampler, Telemetry
from tpgate.load.generator import drive
from tpgate.load.health import client_doubts
from tpgate.load.job import INTERRUPTED
from tpgate.load.records import LoadResult, write_records
from tpgate.measure.client import client_values, timeline, tokens_between
from tpgate.measure.conditions import neighbour_doubts
from tpgate.measure.result import Doubt, Run, Value, Window
from tpgate.measure.target import Progress, Server, Target, death
from tpgate.measure.telemetry import telemetry_values
from tpgate.measure.timeline import with_pcie
from tpgate.measure.validity import ServerCounts, counter_doubts, request_doubts, stationarity_doubts
from tpgate.measure.warmup import warm
from tpgate.measure.window import SteadyWindow, steady_window
from tpgate.server.api import Api
from tpgate.specs import LoadSpec, load_digest

INTERRUPTED_COUNT = "interrupted"
"""Count that a run holds where Ctrl-C ended its load."""
_COUNTER_WAIT_S = 5.0
_STILL_S = 2.0
_TELL_EVERY_S = 5.0
_COUNTERS = {
    "generated_tokens": "sglang:generation_tokens_total",
    "decoded_tokens": "sglang:realtime_tokens_total",
    "cached_tokens": "sglang:cached_tokens_total",
}


def read_counts(metrics: dict[str, float]) -> dict[str, float | None]:
    """Return the server's token counters, each summed over its labels; None where it does not publish one."""
    sums: dict[str, float | None] = {}
    for field, name in _COUNTERS.items():
        rows = [
            value
            for key, value in metrics.items()
            if key.partition("{")[0] == name and (field != "decoded_tokens" or 'mode="decode"' in key)
        ]
        sums[field] = sum(rows) if rows else None
    return sums


def _flush(api: Api, server: Server) -> None:
    """Flush the prefix cache, trying for a few seconds: the last response leaves before its batch is done."""
    deadline = time.monotonic() + _COUNTER_WAIT_S
    while True:
        try:
            return api.flush_cache()
        except ServerError:
            if time.monotonic() > deadline or server.alive() is not None:
                raise
        time.sleep(0.1)


def _settled(api: Api) -> dict[str, float | None]:
    """Read the counters until two readings agree, for a few seconds at most: they lag the last response."""
    deadline = time.monotonic() + _COUNTER_WAIT_S
    last = read_counts(api.metrics())
    while True:
        time.sleep(0.1)
        now = read_counts(api.metrics())
        if now == last or time.monotonic() > deadline:
            return now
        last = now


def _counts_between(before: dict[str, float | None], after: dict[str, float | None]) -> ServerCounts:
    """Return the increases; a counter that only appeared during the cell started from 0."""
    return ServerCounts(
        **{
            field: None if (value := after[field]) is None else round(value - (before[field] or 0.0))
            for field in _COUNTERS
        }
    )


def _settled_counts(api: Api, before: dict[str, float | None], expected: int) -> ServerCounts:
    """Read the counters until they hold the client's sum, or stand still, or for a few seconds: they lag."""
    deadline = time.monotonic() + _COUNTER_WAIT_S
    last, since = None, time.monotonic()
    while True:
        counts = _counts_between(before, read_counts(api.metrics()))
        now = time.monotonic()
        if counts != last:
            last, since = counts, now
        reached = counts.generated_tokens is None or counts.generated_tokens >= expected
        if reached or now > deadline or now - since > _STILL_S:
            return counts
        time.sleep(0.1)


def paced(cell: str, progress: Progress) -> Callable[[int, int], None]:
    """Return a callback for (done, total) requests that tells ``progress`` now and then, with the time left."""
    began = told = time.monotonic()
    progress(f"{cell}: started")

    def tell(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told < _TELL_EVERY_S:
            return
        told = now
        left = f", about {(now - began) * (total - done) / done:.0f} s left in this cell" if done else ""
        progress(f"{cell}: {done} of {total} requests{left}")

    return tell


def measure_cell(target: Target, load: LoadSpec, *, folder: Path, processes: int, progress: Progress) -> Run:
    """Drive one cell and return its run; what went wrong is a doubt in it, never an exception.

    A run that Ctrl-C ended holds the count ``interrupted``; the caller saves it and then raises KeyboardInterrupt.

    Args:
        target: The server and its model.
        load: The cell.
        folder: Folder of the launch; the request records are written into it.
        processes: Client processes.
        progress: Told what goes on.
    """
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    api = Api(target.server.url)
    try:
        warmed = warm(target, load, processes=processes, progress=progress)
        _flush(api, target.server)
        before = _settled(api)
    except (ServerError, LoadError) as error:
        return _broken(target.server, load, started_at, error)
    neighbours = neighbour_doubts(target.gpus, target.server.pids())
    sampler = Sampler(target.gpus)
    sampler.start()
    try:
        result = drive(
            target.server.url,
            load,
            vocabulary=target.vocabulary,
            salt=target.salt,
            processes=processes,
            stall_timeout_s=target.stall_timeout_s,
            progress=paced(load.cell, progress),
        )
    except LoadError as error:
        return _broken(target.server, load, started_at, error)
    finally:
        telemetry = sampler.stop()
    neighbours += neighbour_doubts(target.gpus, target.server.pids())
    name = f"{load.cell}.requests.json.gz"
    write_records(folder / name, result)
    run = _run(target, api, load, result, before, telemetry, started_at, f"{folder.name}/{name}")
    more = {"prewarm": warmed} | ({INTERRUPTED_COUNT: 1} if result.stalled == INTERRUPTED else {})
    doubts = tuple(dict.fromkeys((*run.doubts, *neighbours)))  # what was so before and after is said once
    return msgspec.structs.replace(run, counts=run.counts | more, doubts=doubts)


def _run(
    target: Target,
    api: Api,
    load: LoadSpec,
    result: LoadResult,
    before: dict[str, float | None],
    telemetry: Telemetry,
    started_at: str,
    artifact: str,
) -> Run:
    window = steady_window(result, load)
    values: dict[str, Value] = client_values(result, load, window)
    tokens = sum(r.output_tokens for r in result.records)
    counts, doubts = _server_counts(target.server, api, result, before)
    doubts = request_doubts(result, load) + stationarity_doubts(result, target.drift_limit) + doubts
    tpot = values["tpot_p50"].value
    found = client_doubts(result.health, tpot, target.client_lag_limit)
    doubts += [Doubt(check=c, reason=r, advice=a, passing=True) for c, r, a in found]
    details: dict[str, Any] = {"timeline": timeline(result)}
    if isinstance(window, SteadyWindow):
        more, suspicions, summary = _telemetry(target, result, window, telemetry)
        values |= more
        doubts += suspicions
        details["telemetry"] = summary
        start_s = (window.start_ns - result.started_ns) / 1e9
        details["timeline"] = with_pcie(details["timeline"], summary, start_s)
    else:
        advice = "raise requests, or read why requests failed; metrics of the window are missing"
        doubts.append(Doubt(check="no_window", reason=window, advice=advice, fatal=False))
    return Run(
        cell=load.cell,
        load_digest=load_digest(load),
        started_at=started_at,
        values=values,
        doubts=tuple(doubts),
        window=_window(window, result),
        counts={
            "issued": len(result.records),
            "ok": sum(r.ok for r in result.records),
            "warmup": sum(r.warmup for r in result.records),
            "output_tokens": tokens,
            **{f"server_{k}": v for k, v in asdict(counts).items() if v is not None},
        },
        client=asdict(result.health),
        details=details,
        artifacts={"requests": artifact},
    )


def _server_counts(
    server: Server, api: Api, result: LoadResult, before: dict[str, float | None]
) -> tuple[ServerCounts, list[Doubt]]:
    """Return what the server counted, and doubts about it; a dead server counts nothing."""
    dead, advice, unread = server.alive(), "read the server's log beside the results", ""
    if dead is None:
        try:
            counts = _settled_counts(api, before, sum(r.output_tokens for r in result.records))
            return counts, counter_doubts(result, counts)
        except ServerError as error:
            dead, unread = death(server), str(error)
    check = "server_died" if dead else "server_counter"
    return ServerCounts(), [Doubt(check=check, reason=dead or unread, advice=advice)]


def _telemetry(
    target: Target, result: LoadResult, window: SteadyWindow, telemetry: Telemetry
) -> tuple[dict[str, Value], list[Doubt], dict[str, Any]]:
    return telemetry_values(
        telemetry,
        window_start_ns=window.start_ns,
        window_end_ns=window.end_ns,
        tokens=tokens_between(result.records, window.start_ns, window.end_ns),
        model_config=target.model_config,
        tensor_parallel=target.tensor_parallel,
        batch=window.concurrency,
        server_pids=tuple(target.server.pids()) or None,
        prompt_tokens=_prompt_tokens(result, window),
    )


def _prompt_tokens(result: LoadResult, window: SteadyWindow) -> int:
    """Return the prompt tokens prefilled in the window: of requests whose first token arrived in it."""
    records = [r for r in result.records if len(r.chunk_ns) and window.start_ns < r.chunk_ns[0] <= window.end_ns]
    return sum((r.input_tokens or 0) - (r.cached_tokens or 0) for r in records)


def _window(window: SteadyWindow | str, result: LoadResult) -> Window | None:
    if isinstance(window, str):
        return None
    return Window(
        start_s=(window.start_ns - result.started_ns) / 1e9,
        end_s=(window.end_ns - result.started_ns) / 1e9,
        load_s=(result.ended_ns - result.started_ns) / 1e9,
    )


def _broken(server: Server, load: LoadSpec, started_at: str, error: TpgateError) -> Run:
    """Return a void run that names the server's death where that is the cause.

    Raises:
        LoadError: The server lives, and the client cannot do its work.
    """
    dead = death(server)
    if dead is None and isinstance(error, LoadError):
        raise error
    return _void(load, started_at, "server_died" if dead else "server", dead or str(error))


def _void(load: LoadSpec, started_at: str, check: str, reason: str) -> Run:
    doubt = Doubt(check=check, reason=reason, advice="read the server's log beside the results")
    return Run(cell=load.cell, load_digest=load_digest(load), started_at=started_at, values={}, doubts=(doubt,))
