"""Collects events into compact arrays, and sets aside what cannot be true."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tpgate.trace.decode import INVALID, correlations, integers, times
from tpgate.trace.events import Defects, Ints, Kind, Launches, Step, Trace
from tpgate.trace.row import Row, text_of

_KINDS = {
    b"kernel": Kind.KERNEL,
    b"Kernel": Kind.KERNEL,
    b"gpu_memcpy": Kind.COPY,
    b"Memcpy": Kind.COPY,
    b"gpu_memset": Kind.SET,
    b"Memset": Kind.SET,
}
_LAUNCHES = frozenset((b"cuda_runtime", b"cuda_driver"))
_STEP = re.compile(rb"step\[([A-Z_]+)(?:[^\]]*?\bbs=(\d+))?")
_CODES = {"name": "i", "kind": "b", "start": "q", "dur": "q", "stream": "q", "device": "i", "corr": "q"}
_TYPES: dict[str, Any] = {key: np.dtype(code) for key, code in _CODES.items()}
_LONG_NS = 5_000_000
_LAST_NS = 100_000_000
Columns = dict[str, Ints]


class Collector:
    """Takes raw events and builds a :class:`Trace`.

    Attributes:
        rows: Events taken, of every wanted category.
        gpu_events: Kernels, copies and sets among them.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.gpu_events = 0
        self._names: dict[bytes, int] = {}
        self._columns = {key: array(code) for key, code in _CODES.items()}
        self._launches = (array("q"), array("q"), array("q"))
        self._steps: dict[bool, list[tuple[str, int | None, int, int]]] = {True: [], False: []}
        self._negative = 0
        self._not_finite = 0

    def add(self, rows: Iterable[Row]) -> int:
        """Take some events; return how many did not have the expected order of keys."""
        missed = 0
        gpu: list[Row] = []
        launches: list[Row] = []
        for row in rows:
            category = row[0]
            if not row[4]:
                missed += 1
            elif category in _KINDS:
                gpu.append(row)
            elif category in _LAUNCHES:
                launches.append(row)
            elif row[1].startswith(b"step["):
                self._step(row)
        self.rows += len(gpu) + len(launches)
        if gpu:
            self._gpu(gpu)
        if launches:
            self._launch(launches)
        return missed

    def _gpu(self, rows: list[Row]) -> None:
        self.gpu_events += len(rows)
        categories, names, pids, tids, starts, durations, args = zip(*rows, strict=True)
        known = self._names
        for name in dict.fromkeys(names):
            known.setdefault(name, len(known))
        start, length = times(starts), times(durations)
        broken = (start == INVALID) | (length == INVALID)
        negative = ~broken & (length < 0)
        self._not_finite += int(broken.sum())
        self._negative += int(negative.sum())
        found: dict[str, Any] = {
            "name": [known[name] for name in names],
            "kind": [_KINDS[category] for category in categories],
            "start": start,
            "dur": length,
            "stream": integers(tids),
            "device": integers(pids, digits=9),
            "corr": correlations(args),
        }
        keep = ~(broken | negative)
        for key, column in self._columns.items():
            column.frombytes(np.asarray(found[key], dtype=_TYPES[key])[keep].tobytes())

    def _launch(self, rows: list[Row]) -> None:
        ids, start, length = (
            correlations([row[6] for row in rows]),
            times([row[4] for row in rows]),
            times([row[5] for row in rows]),
        )
        keep = (ids >= 0) & (start != INVALID) & (length != INVALID)
        for column, values in zip(self._launches, (ids, start, start + length), strict=True):
            column.frombytes(values[keep].tobytes())

    def _step(self, row: Row) -> None:
        match = _STEP.match(row[1])
        start, length = times([row[4], row[5]]) if match else (INVALID, INVALID)
        if match is not None and INVALID not in (start, length):
            batch = int(match[2]) if match[2] else None
            self._steps[row[0].startswith(b"gpu")].append((match[1].decode(), batch, int(start), int(length)))

    def finish(self, *, path: Path, origin_ns: int = 0, base_ns: int, defects: Defects, **more: Any) -> Trace:  # noqa: ANN401
        """Return the trace: events in order of start, duplicates and impossible durations set aside and counted.

        Args:
            path: The file.
            origin_ns: What to subtract from times where there is no GPU event; else it is the first one's start.
            base_ns: What the file adds to all times.
            defects: What is known to be wrong already.
            more: Further fields of the trace.
        """
        data: Columns = {key: np.frombuffer(self._columns.pop(key), dtype=_TYPES[key]) for key in _CODES}
        names = tuple(text_of(name) for name in self._names)
        data, duplicate = _distinct(data)
        data, absurd = _bounded(data)
        origin = int(data["start"][0]) if len(data["start"]) else origin_ns
        steps = {
            on_gpu: tuple(Step(stage, batch, start - origin, length) for stage, batch, start, length in found)
            for on_gpu, found in self._steps.items()
        }
        return Trace(
            path=path,
            names=names,
            name_ids=data["name"],
            kinds=data["kind"],
            start_ns=data["start"] - origin,
            duration_ns=data["dur"],
            streams=data["stream"],
            devices=data["device"],
            correlations=data["corr"],
            launches=self._launches_of(data["corr"], origin),
            gpu_steps=steps[True],
            host_steps=steps[False],
            origin_ns=origin + base_ns,
            defects=replace(
                defects,
                negative=defects.negative + self._negative,
                not_finite=defects.not_finite + self._not_finite,
                duplicate=defects.duplicate + duplicate,
                absurd=defects.absurd + absurd,
            ),
            **more,
        )

    def _launches_of(self, wanted: Ints, origin: int) -> Launches:
        """Return the launches of the GPU events that were kept, by correlation id."""
        ids, starts, ends = (np.frombuffer(column, dtype=np.int64) for column in self._launches)
        keep = np.flatnonzero(np.isin(ids, wanted))
        order = keep[np.argsort(ids[keep], kind="stable")]
        return Launches(ids[order], starts[order] - origin, ends[order] - origin)


def _distinct(data: Columns) -> tuple[Columns, int]:
    """Order by start (then stream), and keep one of several equal events."""
    if not len(data["start"]):
        return data, 0
    keys = ("name", "dur", "corr", "stream", "device", "start")
    order = np.lexsort([data[key] for key in keys])
    for key in keys:
        data[key] = data[key][order]
    data["kind"] = data["kind"][order]
    del order
    same = np.ones(len(data["start"]) - 1, dtype=bool)
    for key in keys:
        same &= data[key][1:] == data[key][:-1]
    if not same.any():
        return data, 0
    keep = np.concatenate(([True], ~same))
    return {key: column[keep] for key, column in data.items()}, int(same.sum())


def _bounded(data: Columns) -> tuple[Columns, int]:
    """Shorten events that overrun the next start on their stream by far; drop a last one that is impossibly long.

    An event is far too long if it overruns the next one's start on its own stream by more than 5 ms and more than
    half of itself: streams run their kernels in order, and what programmatic launches overlap is microseconds. The
    limit is taken from the stream's own order, never from the span, which such an event would have spoiled. The last
    event of a stream has no next one: above 100 ms and 100 times the median duration of all events it is dropped.
    """
    count = len(data["start"])
    if count < 2:
        return data, 0
    order = np.lexsort([data["start"], data["stream"], data["device"]])
    start, dur = data["start"][order], data["dur"][order]
    same = (data["stream"][order][1:] == data["stream"][order][:-1]) & (
        data["device"][order][1:] == data["device"][order][:-1]
    )
    room = np.full(count, INVALID, dtype=np.int64)
    room[:-1][same] = (start[1:] - start[:-1])[same]
    over = dur - room
    clip = (room != INVALID) & (over > _LONG_NS) & (over * 2 > dur)
    median = float(np.median(dur))
    drop = (room == INVALID) & (dur > _LAST_NS) & (dur > 100 * median)
    if not clip.any() and not drop.any():
        return data, 0
    fixed = dur.copy()
    fixed[clip] = room[clip]
    data["dur"] = data["dur"].copy()
    data["dur"][order] = fixed
    keep = np.ones(count, dtype=bool)
    keep[order] = ~drop
    return {key: column[keep] for key, column in data.items()}, int(clip.sum() + drop.sum())
