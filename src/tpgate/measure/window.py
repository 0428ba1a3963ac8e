"""The steady window of a load: the span in which the achieved concurrency stays at the target.

Ramp and drain are cut. In a closed loop the window starts when as many requests have completed as there were warm-up
requests (so the handed-over load is at full concurrency), and ends with the first completion after the last request
was issued. Where requests run in waves, as equal lengths and ``ignore_eos`` make them, it holds whole waves. In an open
loop it spans the arrivals of the measured requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpgate.load.records import LoadResult, RequestRecord
from tpgate.specs import LoadSpec

MINIMUM_CONCURRENCY = 0.9
"""Least achieved concurrency over the target for which a window counts as steady."""


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """A steady window, in monotonic nanoseconds.

    Attributes:
        start_ns: Start; tokens that arrive after it count.
        end_ns: End; tokens that arrive up to it count.
        concurrency: Time-weighted mean of requests in flight within it.
    """

    start_ns: int
    end_ns: int
    concurrency: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def mean_in_flight(records: tuple[RequestRecord, ...], start_ns: int, end_ns: int) -> float:
    """Return the time-weighted mean of requests in flight between two moments (Little's law, exactly)."""
    overlap = sum(max(0, min(r.ended_ns, end_ns) - max(r.started_ns, start_ns)) for r in records)
    return overlap / (end_ns - start_ns)


def steady_window(result: LoadResult, load: LoadSpec) -> SteadyWindow | str:
    """Return the steady window of ``result``, or the reason why it has none."""
    records = result.records
    if len(records) < load.warmup_requests + load.requests:
        return f"only {len(records)} of {load.warmup_requests + load.requests} requests were issued"
    if load.rate is None:
        bounds = _closed_loop(records, load)
    else:
        measured = [r for r in records if not r.warmup]
        bounds = (measured[0].started_ns, measured[-1].started_ns)
    start_ns, end_ns = bounds
    if end_ns <= start_ns:
        return (
            f"{load.requests} measured requests after {load.warmup_requests} warm-up requests leave no span at "
            f"{load.concurrency} in flight; raise the number of requests"
        )
    concurrency = mean_in_flight(records, start_ns, end_ns)
    if load.rate is None and concurrency < MINIMUM_CONCURRENCY * load.concurrency:
        limit = MINIMUM_CONCURRENCY * load.concurrency
        return f"achieved concurrency {concurrency:.2f} is under {limit:.2f}, the target being {load.concurrency}"
    return SteadyWindow(start_ns, end_ns, concurrency)


def _closed_loop(records: tuple[RequestRecord, ...], load: LoadSpec) -> tuple[int, int]:
    ends = sorted(r.ended_ns for r in records)
    last_issue = max(r.started_ns for r in records)
    start_ns = ends[load.warmup_requests - 1]
    end_ns = next((end for end in ends if end > last_issue), ends[-1])
    return start_ns, end_ns
