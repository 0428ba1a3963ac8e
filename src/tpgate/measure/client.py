"""Client metrics: from request records to values. Definitions stand in :mod:`tpgate.measure.definitions.client`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tpgate.load.records import LoadResult, RequestRecord
from tpgate.measure.definitions import METRICS, metric
from tpgate.measure.result import Value
from tpgate.measure.window import SteadyWindow
from tpgate.specs import LoadSpec

Floats = npt.NDArray[np.float64]
_IN_WINDOW = 0.9
_BINS = 120


def _tokens_by_time(records: Iterable[RequestRecord]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return arrival times (ns, ascending) and the tokens that came at each, over all requests."""
    times, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for record in records:
        if len(record.chunk_ns):
            times.append(np.asarray(record.chunk_ns, np.int64))
            cumulative = np.asarray(record.chunk_tokens, np.int64)
            counts.append(cumulative - np.concatenate(([0], cumulative[:-1])))
    time, count = np.concatenate(times), np.concatenate(counts)
    order = np.argsort(time, kind="stable")
    return time[order], count[order]


def tokens_between(records: Iterable[RequestRecord], start_ns: int, end_ns: int) -> int:
    """Return the output tokens that arrived after ``start_ns`` and up to ``end_ns``."""
    time, count = _tokens_by_time(records)
    return int(count[(time > start_ns) & (time <= end_ns)].sum())


def _quantile_values(stem: str, samples: Sequence[float] | Floats, what: str) -> dict[str, Value]:
    """Return p50, p90 and p99 of ``samples``; a quantile with too few samples is missing, with that reason."""
    values = {}
    for percent in (50, 90, 99):
        name = f"{stem}_p{percent}"
        least = metric(name).minimum_samples
        if len(samples) < least:
            values[name] = Value.missing(name, f"{len(samples)} {what}, p{percent} needs {least}")
        else:
            values[name] = Value.of(name, float(np.percentile(np.asarray(samples), percent)), len(samples))
    return values


def _spans_window(record: RequestRecord, window: SteadyWindow) -> bool:
    """Whether at least 90 % of the request's decode lies in the window: the drain runs at a lower concurrency."""
    first, last = record.chunk_ns[0], record.chunk_ns[-1]
    inside = min(last, window.end_ns) - max(first, window.start_ns)
    return inside >= _IN_WINDOW * (last - first)


def client_values(result: LoadResult, load: LoadSpec, window: SteadyWindow | str) -> dict[str, Value]:
    """Return every client metric of one cell, each with its value or the reason why it has none.

    Args:
        result: What the load brought back.
        load: The cell.
        window: Its steady window, or why there is none.
    """
    names = [name for name, definition in METRICS.items() if definition.source == "client"]
    if isinstance(window, str):
        reason = f"no steady window: {window}"
        values = {name: Value.missing(name, reason) for name in names}
        return values | _whole_run(result)
    values = _whole_run(result) | _throughput(result, window)
    measured = [r for r in result.records if r.ok and not r.warmup and r.ttft_ns is not None]
    steady = [r for r in measured if _spans_window(r, window)]
    values |= _quantile_values("ttft", [r.ttft_ns / 1e9 for r in measured if r.ttft_ns is not None], "requests")
    values |= _quantile_values("e2e", [r.e2e_ns / 1e9 for r in steady if r.e2e_ns is not None], "requests")
    tpot = [t / 1e9 for r in steady if (t := r.tpot_ns) is not None]
    values |= _quantile_values("tpot", tpot, "requests with two token-bearing chunks")
    arrivals = [np.asarray(r.chunk_ns, np.float64) for r in steady if len(r.chunk_ns) > 1]
    gaps = [times[1:] - times[:-1] for times in arrivals]
    pooled: Floats = np.concatenate(gaps) / 1e9 if gaps else np.empty(0)
    values |= _quantile_values("inter_chunk", pooled, "gaps")
    chunks = sum(len(r.chunk_ns) for r in measured)
    if chunks:
        values["tokens_per_chunk"] = Value.of("tokens_per_chunk", sum(r.output_tokens for r in measured) / chunks)
    p50 = values["tpot_p50"].value
    if p50:
        name = "output_tokens_per_second_per_user"
        values[name] = Value.of(name, 1.0 / p50, values["tpot_p50"].samples)
    missing = "no request of the steady window succeeded"
    return {name: values.get(name, Value.missing(name, missing)) for name in names}


def _whole_run(result: LoadResult) -> dict[str, Value]:
    name = "output_tokens_per_second_whole_run"
    time, count = _tokens_by_time(result.records)
    if not len(time) or not result.records:
        return {name: Value.missing(name, "no token arrived")}
    seconds = (int(time[-1]) - min(r.started_ns for r in result.records)) / 1e9
    return {name: Value.of(name, float(count.sum()) / seconds, int(count.sum()))}


def _throughput(result: LoadResult, window: SteadyWindow) -> dict[str, Value]:
    records = result.records
    values = {}
    tokens = tokens_between(records, window.start_ns, window.end_ns)
    name = "output_tokens_per_second"
    if tokens:
        values[name] = Value.of(name, tokens / window.seconds, tokens)
    else:
        values[name] = Value.missing(name, "no token arrived inside the steady window")
    began = min(r.started_ns for r in records)
    early = tokens_between(records, began, window.start_ns)
    name = "output_tokens_per_second_early"
    if early and window.start_ns > began:
        values[name] = Value.of(name, early / ((window.start_ns - began) / 1e9), early)
    else:
        values[name] = Value.missing(name, "no token arrived before the steady window")
    done = sum(window.start_ns < r.ended_ns <= window.end_ns for r in records if r.ok)
    name = "request_throughput"
    if done:
        values[name] = Value.of(name, done / window.seconds, done)
    else:
        values[name] = Value.missing(name, "no request completed inside the steady window")
    values["achieved_concurrency"] = Value.of("achieved_concurrency", window.concurrency)
    return values


def timeline(result: LoadResult) -> dict[str, Any]:
    """Return throughput and requests in flight over the load, in bins, for the report's chart.

    Returns:
        ``t_s`` (bin centres, s since the load began), ``tokens_per_second``, ``running``; lists of equal length.
    """
    time, count = _tokens_by_time(result.records)
    span = result.ended_ns - result.started_ns
    if span <= 0 or not len(time):
        return {"t_s": [], "tokens_per_second": [], "running": []}
    edges = np.linspace(0, span, _BINS + 1)
    width = span / _BINS / 1e9
    tokens, _ = np.histogram(time - result.started_ns, bins=edges, weights=count)
    centres = (edges[:-1] + edges[1:]) / 2
    starts = np.sort(np.array([r.started_ns for r in result.records], np.int64)) - result.started_ns
    ends = np.sort(np.array([r.ended_ns for r in result.records], np.int64)) - result.started_ns
    running = np.searchsorted(starts, centres, "right") - np.searchsorted(ends, centres, "right")
    return {
        "t_s": [round(float(c) / 1e9, 4) for c in centres],
        "tokens_per_second": [round(float(t) / width, 2) for t in tokens],
        "running": [int(r) for r in running],
    }


def scenario_values(cells: Sequence[tuple[LoadSpec, dict[str, Value]]]) -> dict[str, Value]:
    """Return the metrics of a whole scenario: the Theil-Sen slope of TPOT over concurrency.

    Source: P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968).

    Args:
        cells: Closed-loop cells with their values; a concurrency that stands in several cells counts once, unlabelled
            cells first.
    """
    name = "seconds_per_added_request"
    points: dict[int, float] = {}
    for load, values in sorted(cells, key=lambda cell: bool(cell[0].label)):
        value = values.get("tpot_p50")
        if load.rate is None and value is not None and value.value is not None:
            points.setdefault(load.concurrency, value.value)
    least = metric(name).minimum_samples
    if len(points) < least:
        return {name: Value.missing(name, f"{len(points)} concurrencies with a TPOT, the slope needs {least}")}
    at = sorted(points)
    slopes = [(points[b] - points[a]) / (b - a) for i, a in enumerate(at) for b in at[i + 1 :]]
    slope = float(np.median(slopes))
    if slope <= 0:
        return {name: Value.missing(name, f"slope {slope:.3g} s/request: TPOT does not rise with concurrency here")}
    return {name: Value.of(name, slope, len(points))}
