"""Sets of time intervals as pairs of ascending int64 arrays (starts, ends), and their lengths. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpgate.trace.events import Ints


class Intervals(NamedTuple):
    """Disjoint, ascending intervals in ns."""

    starts: Ints
    ends: Ints

    @property
    def length(self) -> int:
        """Sum of their lengths in ns."""
        return int((self.ends - self.starts).sum())

    @property
    def gaps(self) -> Intervals:
        """The intervals between them."""
        return Intervals(self.ends[:-1], self.starts[1:])


def union(starts: Ints, ends: Ints) -> Intervals:
    """Return the union of intervals that may overlap; ``starts`` must be ascending. Touching intervals become one."""
    if not len(starts):
        return Intervals(starts, ends)
    reach = np.maximum.accumulate(ends)
    opens = np.concatenate(([True], starts[1:] > reach[:-1]))
    first = np.flatnonzero(opens)
    last = np.concatenate((first[1:] - 1, [len(starts) - 1]))
    return Intervals(starts[first], reach[last])


def joined(one: Intervals, other: Intervals) -> Intervals:
    """Return the union of two sets."""
    starts = np.concatenate((one.starts, other.starts))
    order = np.argsort(starts, kind="stable")
    return union(starts[order], np.concatenate((one.ends, other.ends))[order])


def exclusive(one: Intervals, other: Intervals) -> int:
    """Return the time in ns that ``one`` covers and ``other`` does not."""
    return joined(one, other).length - other.length
