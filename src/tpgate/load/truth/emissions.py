"""The truth server's log: when each request came, and when each of its events was written."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_RECORD = struct.Struct("=qiiii")


class Kind(enum.IntEnum):
    """What a log entry tells."""

    ARRIVAL = 0
    EMISSION = 1
    END = 2
    BLOCKED = 3
    FAULT = 4


class Emission(NamedTuple):
    """One entry of the log.

    Attributes:
        ns: CLOCK_MONOTONIC (``time.perf_counter_ns``), just before the write that carried the event's last byte.
        request: The client's index of the request (its X-Request-Id), or -1.
        ordinal: The server's own count of requests, in order of arrival.
        tokens: Cumulative output tokens of the request.
        kind: What happened.
    """

    ns: int
    request: int
    ordinal: int
    tokens: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class RequestTruth:
    """What truly happened to one request: its arrival and its emissions as (time, cumulative tokens)."""

    arrived_ns: int
    emitted: tuple[tuple[int, int], ...]

    @property
    def ttft_ns(self) -> int | None:
        """First emission minus arrival at the server."""
        return self.emitted[0][0] - self.arrived_ns if self.emitted else None

    @property
    def tpot_ns(self) -> float | None:
        """(t_last - t_first) / (n_last - n_first) over emissions."""
        if len(self.emitted) < 2:
            return None
        (first, few), (last, many) = self.emitted[0], self.emitted[-1]
        return (last - first) / (many - few)


def emissions(path: Path) -> list[Emission]:
    """Return every whole entry of the log at ``path``, in order of time of writing."""
    data = path.read_bytes()
    whole = len(data) // _RECORD.size * _RECORD.size
    return [
        Emission(ns, request, ordinal, tokens, Kind(kind))
        for ns, request, ordinal, tokens, kind in _RECORD.iter_unpack(data[:whole])
    ]


def pack(emission: Emission) -> bytes:
    """Return the stored form of one entry."""
    return _RECORD.pack(*emission)


def truth_of(log: Iterable[Emission], by: str = "request") -> dict[int, RequestTruth]:
    """Return the truth of every request by the client's index (``by="request"``) or the server's (``"ordinal"``)."""
    arrivals: dict[int, int] = {}
    events: dict[int, list[tuple[int, int]]] = {}
    for entry in log:
        key = entry.request if by == "request" else entry.ordinal
        if entry.kind is Kind.ARRIVAL:
            arrivals[key] = entry.ns
            events[key] = []
        elif entry.kind is Kind.EMISSION and key in events:
            events[key].append((entry.ns, entry.tokens))
    return {key: RequestTruth(arrivals[key], tuple(rows)) for key, rows in events.items()}
