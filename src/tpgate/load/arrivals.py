"""Arrival times of an open loop, and how well they were kept."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tpgate.load.records import RequestRecord
from tpgate.specs import LoadSpec


def offsets_ns(load: LoadSpec) -> list[int]:
    """Return when every request of an open loop is due, in nanoseconds after its start, warm-up included.

    Constant: request i is due at i / rate. Poisson: the gaps are exponential with mean 1 / rate, drawn from the seed
    of the load. The schedule is absolute: a late request does not shift the later ones.
    """
    rate = load.rate
    if rate is None:
        return []
    total = load.warmup_requests + load.requests
    if load.arrivals == "constant":
        return [round(index * 1e9 / rate) for index in range(total)]
    source = random.Random(f"{load.seed}/{load.cell}/{rate}")  # noqa: S311 - a schedule, not a secret
    due, now = [], 0.0
    for _ in range(total):
        due.append(round(now * 1e9))
        now += source.expovariate(rate)
    return due


@dataclass(frozen=True, slots=True)
class ArrivalReport:
    """How an open loop kept its schedule.

    Attributes:
        asked_rate: Requests per second by the schedule.
        achieved_rate: Requests per second that were sent: (n - 1) / (last start - first start).
        lag_p50_s: Median of start minus schedule.
        lag_p99_s: Its 99th percentile (nearest rank).
        lag_max_s: Its maximum.
    """

    asked_rate: float
    achieved_rate: float | None
    lag_p50_s: float
    lag_p99_s: float
    lag_max_s: float


def arrival_report(records: Sequence[RequestRecord], rate: float) -> ArrivalReport | None:
    """Return how the measured requests among ``records`` kept the schedule; None where there is none."""
    measured = [record for record in records if not record.warmup]
    if not measured:
        return None
    lags = sorted((record.started_ns - record.scheduled_ns) / 1e9 for record in measured)
    starts = sorted(record.started_ns for record in measured)
    span = (starts[-1] - starts[0]) / 1e9
    last = len(lags) - 1
    return ArrivalReport(
        asked_rate=rate,
        achieved_rate=last / span if span > 0 else None,
        lag_p50_s=lags[min(last, len(lags) // 2)],
        lag_p99_s=lags[min(last, int(0.99 * len(lags)))],
        lag_max_s=lags[-1],
    )
