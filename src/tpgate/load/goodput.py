"""Goodput: the part of the work that met its latency limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpgate.load.records import RequestRecord


@dataclass(frozen=True, slots=True)
class Limits:
    """Latency limits that a request must meet, in seconds; None is no limit."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


@dataclass(frozen=True, slots=True)
class Goodput:
    """How much of the work met the limits.

    Attributes:
        met: Requests that succeeded within every limit.
        total: Measured requests, failed ones included.
        tokens: Output tokens of the requests that met them.
        requests_per_second: ``met`` / window.
        tokens_per_second: ``tokens`` / window.
    """

    met: int
    total: int
    tokens: int
    requests_per_second: float
    tokens_per_second: float

    @property
    def share(self) -> float | None:
        """``met`` / ``total``; None without requests."""
        return self.met / self.total if self.total else None


def meets(record: RequestRecord, limits: Limits) -> bool:
    """Return whether a request succeeded within every limit. A latency that it does not have meets no limit."""
    pairs = ((record.ttft_ns, limits.ttft_s), (record.tpot_ns, limits.tpot_s), (record.e2e_ns, limits.e2e_s))
    return record.ok and all(limit is None or (value is not None and value <= limit * 1e9) for value, limit in pairs)


def goodput(records: Iterable[RequestRecord], limits: Limits, window_s: float) -> Goodput:
    """Return the goodput of the measured requests among ``records`` over a window of ``window_s`` seconds.

    Formula: requests (tokens) of requests that succeeded within all limits / window. Failed requests count against it.

    Raises:
        ValueError: The window is not longer than 0.
    """
    if window_s <= 0:
        raise ValueError(f"a window of {window_s} s")
    measured = [record for record in records if not record.warmup]
    good = [record for record in measured if meets(record, limits)]
    tokens = sum(record.output_tokens for record in good)
    return Goodput(len(good), len(measured), tokens, len(good) / window_s, tokens / window_s)
