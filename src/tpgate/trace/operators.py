"""Operators of a trace without GPU events, such as a CPU server's: who had each thread at every moment."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from tpgate.trace.decode import INVALID, integers, times
from tpgate.trace.events import Defects, Ints, Operators, Spans
from tpgate.trace.row import Row, text_of

COLLECTIVES = (b"gloo:", b"nccl:", b"mpi:", b"ucc:")
"""How the annotations begin with which a process group marks its work; other annotations enclose, and do no work."""
_LONG_NS = 5_000_000


class OperatorCollector:
    """Takes raw events and builds :class:`Operators`."""

    def __init__(self) -> None:
        self._names: dict[bytes, int] = {}
        self._columns = {key: array("q") for key in ("name", "start", "dur", "thread", "process", "args")}
        self._negative = 0
        self._not_finite = 0

    def add(self, rows: Iterable[Row]) -> int:
        """Take some events; return how many did not have the expected order of keys."""
        missed = 0
        taken = []
        for row in rows:
            if not row[4]:
                missed += 1
            elif row[0] == b"cpu_op" or row[1].startswith(COLLECTIVES):
                taken.append(row)
        if taken:
            self._take(taken)
        return missed

    def _take(self, rows: list[Row]) -> None:
        _, names, pids, tids, starts, durations, args = zip(*rows, strict=True)
        known = self._names
        for name in dict.fromkeys(names):
            known.setdefault(name, len(known))
        start, length = times(starts), times(durations)
        broken = (start == INVALID) | (length == INVALID)
        negative = ~broken & (length < 0)
        self._not_finite += int(broken.sum())
        self._negative += int(negative.sum())
        found = {
            "name": [known[name] for name in names],
            "start": start,
            "dur": length,
            "thread": integers(tids),
            "process": integers(pids),
            "args": [hash(text) for text in args],
        }
        for key, column in self._columns.items():
            column.frombytes(np.asarray(found[key], dtype=np.int64)[~(broken | negative)].tobytes())

    def finish(self, window_end_ns: int | None = None) -> tuple[Operators, int, Defects]:
        """Return the operators, their origin in ns, and what was wrong with them.

        Args:
            window_end_ns: When the recording ended; no operator can have ended later.
        """
        columns = {key: np.frombuffer(column, dtype=np.int64) for key, column in self._columns.items()}
        keys = ("args", "name", "dur", "process", "thread", "start")
        order = np.lexsort([-columns[key] if key == "dur" else columns[key] for key in keys])
        columns = {key: column[order] for key, column in columns.items()}
        same = np.ones(max(len(order) - 1, 0), dtype=bool)
        for column in columns.values():
            same &= column[1:] == column[:-1]
        keep = np.concatenate(([True], ~same)) if len(order) else np.zeros(0, dtype=bool)
        columns = {key: column[keep] for key, column in columns.items()}
        origin = int(columns["start"][0]) if len(columns["start"]) else 0
        start, thread = columns["start"] - origin, columns["thread"]
        last = INVALID if window_end_ns is None else window_end_ns - origin
        end, absurd = _bounded(start, start + columns["dur"], columns["process"], thread, last)
        spans = _innermost(start, end, columns["process"], thread)
        own = np.bincount(spans.owners, weights=spans.ends - spans.starts, minlength=len(start)).astype(np.int64)
        names = tuple(text_of(name) for name in self._names)
        found = Operators(names, columns["name"], start, end - start, own, thread, spans)
        return found, origin, Defects(self._negative, self._not_finite, absurd, int(same.sum()))


def _by_thread(processes: Ints, threads: Ints) -> list[Ints]:
    """Return the positions of each thread's events, in order."""
    order = np.lexsort([threads, processes])
    changes = (np.diff(threads[order]) != 0) | (np.diff(processes[order]) != 0)
    return [part for part in np.split(order, np.flatnonzero(changes) + 1) if len(part)]


def _bounded(start: Ints, end: Ints, processes: Ints, threads: Ints, last: int) -> tuple[Ints, int]:
    """Shorten operators that outlast the recording, or the one they are in by more than 5 ms and half of themselves."""
    fixed = end.copy()
    if last != INVALID:
        over = end > np.maximum(start, last)
        fixed[over] = np.maximum(start, last)[over]
    for members in _by_thread(processes, threads):
        starts, ends = start[members].tolist(), fixed[members].tolist()
        open_ends: list[int] = []
        for at, (begin, stop) in enumerate(zip(starts, ends, strict=True)):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            over_ns = stop - open_ends[-1] if open_ends else 0
            if over_ns > _LONG_NS and over_ns * 2 > stop - begin:
                stop = ends[at] = open_ends[-1]
            open_ends.append(stop)
        fixed[members] = ends
    return fixed, int((fixed != end).sum())


def _innermost(start: Ints, end: Ints, processes: Ints, threads: Ints) -> Spans:
    """Return when each operator was the one begun last of those open on its thread."""
    owners, starts, ends = array("q"), array("q"), array("q")

    def give(owner: int, begin: int, stop: int) -> int:
        if stop <= begin:
            return begin
        owners.append(owner)
        starts.append(begin)
        ends.append(stop)
        return stop

    for members in _by_thread(processes, threads):
        stack: list[tuple[int, int]] = []
        at = 0
        for owner, begin, stop in zip(members.tolist(), start[members].tolist(), end[members].tolist(), strict=True):
            while stack and stack[-1][1] <= begin:
                at = give(stack[-1][0], at, stack[-1][1])
                stack.pop()
            if stack:
                give(stack[-1][0], at, begin)
            at = begin
            stack.append((owner, stop))
        while stack:
            owner, stop = stack.pop()
            at = give(owner, at, stop)
    columns = [np.frombuffer(column, dtype=np.int64) for column in (owners, starts, ends)]
    order = np.argsort(columns[1], kind="stable")
    return Spans(*(column[order] for column in columns))
