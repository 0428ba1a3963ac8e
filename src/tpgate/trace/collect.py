"""Collects events into compact arrays, and sets aside what cannot be true."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tpgate.trace.events import Defects, Ints, Kind, Step, Trace

Row = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes]
"""Category, name, pid, tid, ts, dur, args: the raw bytes of one event; ts is empty where the event did not fit."""

_KINDS = {
    b"kernel": Kind.KERNEL,
    b"Kernel": Kind.KERNEL,
    b"gpu_memcpy": Kind.COPY,
    b"Memcpy": Kind.COPY,
    b"gpu_memset": Kind.SET,
    b"Memset": Kind.SET,
}
_STEP = re.compile(rb"step\[([A-Z_]+)(?:[^\]]*?\bbs=(\d+))?")
_CORRELATION = b'"correlation":'
_LONG_NS = 5_000_000
_LAST_NS = 100_000_000
_UNSEEN = -(1 << 62)


def nanoseconds(text: bytes) -> int:
    """Return a time in microseconds, as the file writes it, in ns; its fraction is kept.

    Raises:
        ValueError: It is no finite number.
        OverflowError: It is infinite.
    """
    whole, _, fraction = text.partition(b".")
    if whole.isdigit():
        if len(fraction) == 3 or not fraction:
            return int(whole) * 1000 + int(fraction or b"0")
        if fraction.isdigit():
            return int(whole) * 1000 + round(int(fraction[:9].ljust(9, b"0")) / 1e6)
    return round(float(text.strip(b'"')) * 1e3)


def _integer_after(args: bytes, key: bytes) -> int:
    at = args.find(key)
    if at < 0:
        return -1
    text = args[at + len(key) : at + len(key) + 22].split(b",", 1)[0].strip(b' \n\r\t"')
    return int(text) if text.isdigit() else -1


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
        self._columns = {key: array("q") for key in ("name", "kind", "start", "dur", "stream", "device", "corr")}
        self._launches: dict[int, tuple[int, int]] = {}
        self._steps: dict[bool, list[tuple[str, int | None, int, int]]] = {True: [], False: []}
        self._negative = 0
        self._not_finite = 0

    def add(self, rows: Iterable[Row]) -> int:
        """Take some events; return how many did not have the expected order of keys."""
        missed = 0
        columns = self._columns
        names = self._names
        put = [columns[key].append for key in ("name", "kind", "start", "dur", "stream", "device", "corr")]
        for category, name, pid, tid, ts, dur, args in rows:
            if not ts:
                missed += 1
                continue
            self.rows += 1
            kind = _KINDS.get(category)
            if kind is None:
                self._host(category, name, ts, dur, args)
                continue
            self.gpu_events += 1
            try:
                start, length = nanoseconds(ts), nanoseconds(dur)
            except (ValueError, OverflowError):
                self._not_finite += 1
                continue
            if length < 0:
                self._negative += 1
                continue
            identity = names.get(name)
            if identity is None:
                identity = names[name] = len(names)
            stream = tid if tid.isdigit() else b"-1"
            device = pid if pid.isdigit() else b"-1"
            correlation = _integer_after(args, _CORRELATION)
            for append, value in zip(
                put, (identity, kind, start, length, int(stream), int(device), correlation), strict=True
            ):
                append(value)
        return missed

    def _host(self, category: bytes, name: bytes, ts: bytes, dur: bytes, args: bytes) -> None:
        launch = category in (b"cuda_runtime", b"cuda_driver")
        step = None if launch else _STEP.match(name)
        if not launch and step is None:
            return
        try:
            start, length = nanoseconds(ts), nanoseconds(dur)
        except (ValueError, OverflowError):
            return
        if step is not None:
            batch = int(step[2]) if step[2] else None
            self._steps[category.startswith(b"gpu")].append((step[1].decode(), batch, start, length))
        elif (correlation := _integer_after(args, _CORRELATION)) >= 0:
            self._launches[correlation] = (start, start + length)

    def finish(self, *, path: Path, base_ns: int, defects: Defects, **more: Any) -> Trace:  # noqa: ANN401
        """Return the trace: events in order of start, duplicates and impossible durations set aside and counted."""
        data = {key: np.array(column, dtype=np.int64) for key, column in self._columns.items()}
        names = tuple(_text(name) for name in self._names)
        data, duplicate = _distinct(data)
        data, absurd = _bounded(data)
        origin = int(data["start"][0]) if len(data["start"]) else 0
        data["start"] = data["start"] - origin
        steps = {
            on_gpu: tuple(Step(stage, batch, start - origin, length) for stage, batch, start, length in found)
            for on_gpu, found in self._steps.items()
        }
        wanted = set(np.unique(data["corr"]).tolist())
        return Trace(
            path=path,
            names=names,
            name_ids=data["name"],
            kinds=data["kind"],
            start_ns=data["start"],
            duration_ns=data["dur"],
            streams=data["stream"],
            devices=data["device"],
            correlations=data["corr"],
            launches={
                key: (start - origin, end - origin) for key, (start, end) in self._launches.items() if key in wanted
            },
            gpu_steps=steps[True],
            host_steps=steps[False],
            origin_ns=origin + base_ns,
            defects=replace(
                defects, negative=self._negative, not_finite=self._not_finite, duplicate=duplicate, absurd=absurd
            ),
            **more,
        )


def _text(name: bytes) -> str:
    if b"\\" in name:
        try:
            return str(json.loads(b'"' + name + b'"'))
        except ValueError:
            return name.decode(errors="replace")
    return name.decode(errors="replace")


def _distinct(data: dict[str, Ints]) -> tuple[dict[str, Ints], int]:
    """Order by start (then stream), and keep one of several equal events."""
    if not len(data["start"]):
        return data, 0
    keys = ("name", "dur", "corr", "stream", "device", "start")
    order = np.lexsort([data[key] for key in keys])
    data = {key: column[order] for key, column in data.items()}
    same = np.ones(len(order) - 1, dtype=bool)
    for key in keys:
        same &= data[key][1:] == data[key][:-1]
    keep = np.concatenate(([True], ~same))
    return {key: column[keep] for key, column in data.items()}, int(same.sum())


def _bounded(data: dict[str, Ints]) -> tuple[dict[str, Ints], int]:
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
    room = np.full(count, _UNSEEN, dtype=np.int64)
    room[:-1][same] = (start[1:] - start[:-1])[same]
    over = dur - room
    clip = (room != _UNSEEN) & (over > _LONG_NS) & (over * 2 > dur)
    median = float(np.median(dur))
    drop = (room == _UNSEEN) & (dur > _LAST_NS) & (dur > 100 * median)
    if not clip.any() and not drop.any():
        return data, 0
    fixed = dur.copy()
    fixed[clip] = room[clip]
    data["dur"] = data["dur"].copy()
    data["dur"][order] = fixed
    keep = np.ones(count, dtype=bool)
    keep[order] = ~drop
    return {key: column[keep] for key, column in data.items()}, int(clip.sum() + drop.sum())
