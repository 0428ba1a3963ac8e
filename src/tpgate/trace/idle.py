"""Idle GPU time and its cause, as far as the trace tells when the host launched what came next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpgate.trace.events import Trace
from tpgate.trace.intervals import Intervals

_SMALL_NS = 10_000


@dataclass(frozen=True, slots=True)
class Idle:
    """Idle time of one rank between its first and last GPU event.

    Attributes:
        total_s: All of it.
        gaps: Number of gaps.
        median_s: Median gap.
        longest_s: The longest gap.
        launch_bound_s: Gaps whose next work the host launched only after the GPU had run dry.
        queued_s: Gaps whose next work had been launched before they began: the GPU's own hand-over, or a dependency.
        unknown_s: Gaps before work whose launch the trace does not show.
        small_s: Gaps shorter than 10 us, of any cause.
    """

    total_s: float
    gaps: int
    median_s: float
    longest_s: float
    launch_bound_s: float
    queued_s: float
    unknown_s: float
    small_s: float


def find_idle(trace: Trace, busy: Intervals) -> Idle:
    """Return the gaps between busy intervals, told apart by when the work that ends each was launched.

    The launch is the host's API call with the same correlation id. Its end counts: while the call runs, the work is
    not yet with the GPU.
    """
    gaps = busy.gaps
    lengths = gaps.ends - gaps.starts
    if not len(lengths):
        return Idle(0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    following = np.searchsorted(trace.start_ns, gaps.ends, side="left")
    missing = -(1 << 62)
    launched = trace.launches.ends_of(trace.correlations[following], missing)
    known = launched != missing
    late = known & (launched > gaps.starts)
    return Idle(
        total_s=int(lengths.sum()) / 1e9,
        gaps=len(lengths),
        median_s=float(np.median(lengths)) / 1e9,
        longest_s=int(lengths.max()) / 1e9,
        launch_bound_s=int(lengths[late].sum()) / 1e9,
        queued_s=int(lengths[known & ~late].sum()) / 1e9,
        unknown_s=int(lengths[~known].sum()) / 1e9,
        small_s=int(lengths[lengths < _SMALL_NS].sum()) / 1e9,
    )
