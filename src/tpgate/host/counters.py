"""Cumulative counters that wrap: from raw readings to bytes, with every interval that cannot be known marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SLACK = 1.1
"""How far over the link's capacity an increase may lie before it is called implausible (jitter of the read time)."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """Increases of one counter between consecutive readings.

    Attributes:
        start_ns: Start of every interval, the middle of the reading that begins it; length n.
        end_ns: Its end.
        increase: Bytes in it; NaN where they cannot be known.
        wraps: Intervals in which the counter passed its end.
        ambiguous: Intervals so long that the counter could have wrapped more than once.
        implausible: Intervals whose increase is over what the link can carry: a reset, or a faulty sensor.
    """

    start_ns: Ints
    end_ns: Ints
    increase: Floats
    wraps: int
    ambiguous: int
    implausible: int

    def between(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        """Return the bytes between two moments, and the share of that span in which they are not known.

        An interval that is cut by an end counts in proportion. Where a share is unknown, only the known bytes are
        returned: scaling them is the caller's decision.
        """
        if end_ns <= start_ns:
            return 0.0, 1.0
        inside = np.minimum(self.end_ns, end_ns) - np.maximum(self.start_ns, start_ns)
        inside = np.maximum(inside, 0)
        length = np.maximum(self.end_ns - self.start_ns, 1)
        known = np.isfinite(self.increase)
        total = float(np.sum(np.where(known, self.increase, 0.0) * inside / length))
        covered = float(np.sum(inside[known]))
        return total, max(0.0, 1.0 - covered / (end_ns - start_ns))

    def rates(self, start_ns: int, end_ns: int) -> Floats:
        """Return B/s of every known interval that lies wholly between two moments."""
        keep = (self.start_ns >= start_ns) & (self.end_ns <= end_ns) & np.isfinite(self.increase)
        seconds = np.maximum(self.end_ns - self.start_ns, 1)[keep] / 1e9
        return np.asarray(self.increase[keep] / seconds, np.float64)

    def longest_still_s(self, start_ns: int, end_ns: int) -> float:
        """Return the longest span between two moments, in seconds, in which the counter did not move at all."""
        keep = (self.start_ns >= start_ns) & (self.end_ns <= end_ns)
        longest = run = 0.0
        for still, length in zip(self.increase[keep] == 0, (self.end_ns - self.start_ns)[keep], strict=True):
            run = run + float(length) / 1e9 if still else 0.0
            longest = max(longest, run)
        return longest


def unwrap(
    begin_ns: Ints, end_ns: Ints, raw: Ints, *, bits: int = 32, capacity: float | None = None, slack: float = SLACK
) -> Unwrapped:
    """Return the increases of a counter that counts modulo ``2**bits``.

    A decrease is one wrap. One interval may hide further ones when ``capacity`` x interval reaches ``2**bits``: those
    intervals are unknown, never guessed. A counter declared as 64 bits wide that never exceeded 32 bits and went back
    is taken as a 32-bit one (drivers were seen to do so).

    Args:
        begin_ns: Monotonic time before each reading; length n + 1, ascending.
        end_ns: The same after it.
        raw: The readings; negative where there was none.
        bits: Declared width.
        capacity: Most bytes a second that can be counted; None where it is not known.
        slack: Factor on ``capacity`` above which an increase is implausible.
    """
    present = raw >= 0
    times, values = ((begin_ns + end_ns) // 2)[present], raw[present]
    if len(values) < 2:
        none = np.empty(0, np.int64)
        return Unwrapped(none, none, np.empty(0, np.float64), 0, 0, 0)
    if bits > 32 and values.max() < 1 << 32 and bool(np.any(np.diff(values) < 0)):
        bits = 32
    modulus = float(1 << bits)
    start, end = times[:-1], times[1:]
    steps = np.diff(values).astype(np.float64)
    wrapped = steps < 0
    increase = np.where(wrapped, steps + modulus, steps)
    # Bounds are taken from the outer stamps, so that a reading that was slow cannot make an increase look implausible.
    outer = (end_ns[present][1:] - begin_ns[present][:-1]) / 1e9
    ambiguous: Bools = np.zeros(len(steps), np.bool_)
    implausible: Bools = wrapped if bits > 32 else np.zeros(len(steps), np.bool_)
    if capacity is not None:
        ambiguous = outer * capacity >= modulus
        implausible = (implausible | (increase > outer * capacity * slack)) & ~ambiguous
    increase[ambiguous | implausible] = np.nan
    known = ~(ambiguous | implausible)
    return Unwrapped(
        start, end, increase, int(np.sum(wrapped & known)), int(np.sum(ambiguous)), int(np.sum(implausible))
    )
