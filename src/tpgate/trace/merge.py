"""Lays the ranks of one capture side by side: what a collective costs, and who keeps whom waiting.

A collective ends on all ranks together, within microseconds. A rank that comes late runs it for the shortest time,
so a late rank makes communication look slow on the others and has the least communication itself. The least duration
over ranks is therefore what the transfer took (its intrinsic time), and the rest is waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpgate.trace.events import Ints, Trace
from tpgate.trace.taxonomy import Taxonomy, default

_CLOSE_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Group:
    """Collectives of one name family on one stream position, matched over ranks by their order.

    Attributes:
        family: Normalised name.
        matched: Collectives found on every rank.
        unmatched: Calls that some rank has and another has not.
        intrinsic_s: Sum of the least durations over ranks.
        wait_s: Mean over ranks of the sum of (duration - least duration).
        median_s: Median over collectives of the least duration.
        longest_s: The longest duration on any rank.
        skew_s: Median over collectives of (longest - least duration): how far apart the ranks arrived.
    """

    family: str
    matched: int
    unmatched: int
    intrinsic_s: float
    wait_s: float
    median_s: float
    longest_s: float
    skew_s: float


@dataclass(frozen=True, slots=True)
class Merged:
    """The collectives of all ranks.

    Attributes:
        labels: The ranks.
        groups: One a family, longest intrinsic time first.
        intrinsic_s: Sum over all collectives of the least duration over ranks.
        wait_s: Mean over ranks of what each spent above that.
        rank_wait_s: The same for each rank.
        rank_communication_s: Sum of communication durations of each rank.
        last: How often each rank had the least duration, which means it arrived last.
        straggler: Label of the rank that arrived last in most collectives, or None where none stands out.
        skew_s: Median skew over all collectives.
        ends_apart_s: Median distance of the ends over ranks by their own clocks, or None where the clocks differ.
        matched: Collectives that were matched.
        unmatched: Calls that could not be.
    """

    labels: tuple[str, ...]
    groups: tuple[Group, ...]
    intrinsic_s: float
    wait_s: float
    rank_wait_s: tuple[float, ...]
    rank_communication_s: tuple[float, ...]
    last: tuple[int, ...]
    straggler: str | None
    skew_s: float
    ends_apart_s: float | None
    matched: int
    unmatched: int

    @property
    def wait_share(self) -> float:
        """Waiting / all time in matched collectives, mean over ranks."""
        whole = self.intrinsic_s + self.wait_s
        return self.wait_s / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of one family on one rank, in order."""

    start_ns: Ints
    duration_ns: Ints


def merge(traces: Sequence[Trace], taxonomy: Taxonomy | None = None) -> Merged:
    """Match the collectives of several ranks by order within (name family, order of the stream's first use).

    Streams have other numbers on other ranks; the k-th stream to run a family on one rank is taken for the k-th on
    another. Copies between GPUs are no collectives and stay out.
    """
    taxonomy = taxonomy or default()
    calls = [_calls(trace, taxonomy) for trace in traces]
    keys = sorted({key for found in calls for key in found})
    blocks: list[tuple[str, np.ndarray[tuple[int, int], np.dtype[np.int64]], Ints, int]] = []
    for key in keys:
        rows = [found.get(key) for found in calls]
        counts = [len(row.start_ns) if row is not None else 0 for row in rows]
        matched = min(counts)
        spare = sum(counts) - matched * len(rows)
        present = [row for row in rows if row is not None]
        if len(present) < len(rows):
            matched = 0
        durations = np.array([row.duration_ns[:matched] for row in present], dtype=np.int64).reshape(
            len(present), matched
        )
        ends = np.array(
            [
                row.start_ns[:matched] + row.duration_ns[:matched] + trace.origin_ns
                for row, trace in zip(rows, traces, strict=True)
                if row is not None
            ],
            dtype=np.int64,
        ).reshape(len(present), matched)
        apart = ends.max(axis=0) - ends.min(axis=0) if matched else np.zeros(0, dtype=np.int64)
        blocks.append((key[0], durations, apart, spare if matched else sum(counts)))
    return _merged(tuple(trace.label for trace in traces), blocks)


def _calls(trace: Trace, taxonomy: Taxonomy) -> dict[tuple[str, int], _Calls]:
    classes = [taxonomy.classify(name) for name in trace.names]
    wanted = [i for i, c in enumerate(classes) if c.name == "communication" and c.part != "peer_copy"]
    mask = np.isin(trace.name_ids, wanted)
    families = sorted({classes[i].family for i in wanted})
    position = {family: at for at, family in enumerate(families)}
    family_of = np.array(
        [position.get(c.family, -1) if c.name == "communication" else -1 for c in classes], dtype=np.int64
    )
    found: dict[tuple[str, int], _Calls] = {}
    for family in families:
        here = mask & (family_of[trace.name_ids] == position[family])
        streams = trace.streams[here]
        first_use = list(dict.fromkeys(streams.tolist()))
        for order, stream in enumerate(first_use):
            chosen = np.flatnonzero(here)[streams == stream]
            found[family, order] = _Calls(trace.start_ns[chosen], trace.duration_ns[chosen])
    return found


def _merged(
    labels: tuple[str, ...], blocks: list[tuple[str, np.ndarray[tuple[int, int], np.dtype[np.int64]], Ints, int]]
) -> Merged:
    ranks = len(labels)
    useful = [block for block in blocks if block[1].shape[1]]
    empty = np.zeros((ranks, 0), dtype=np.int64)
    durations = np.concatenate([block[1] for block in useful], axis=1) if useful else empty
    apart = np.concatenate([block[2] for block in useful]) if useful else np.zeros(0, dtype=np.int64)
    least = durations.min(axis=0) if durations.size else np.zeros(0, dtype=np.int64)
    waits = (durations - least).sum(axis=1) if durations.size else np.zeros(ranks, dtype=np.int64)
    last = np.bincount(durations.argmin(axis=0), minlength=ranks) if durations.size else np.zeros(ranks, dtype=np.int64)
    groups = sorted((_group(*block) for block in blocks), key=lambda group: (-group.intrinsic_s, group.family))
    ends_apart = float(np.median(apart)) if len(apart) else None
    return Merged(
        labels=labels,
        groups=tuple(groups),
        intrinsic_s=float(least.sum()) / 1e9,
        wait_s=float(waits.mean()) / 1e9 if ranks else 0.0,
        rank_wait_s=tuple(float(wait) / 1e9 for wait in waits),
        rank_communication_s=tuple(float(total) / 1e9 for total in durations.sum(axis=1)),
        last=tuple(int(count) for count in last),
        straggler=_straggler(labels, last, durations),
        skew_s=float(np.median(durations.max(axis=0) - least)) / 1e9 if durations.size else 0.0,
        ends_apart_s=ends_apart / 1e9 if ends_apart is not None and ends_apart < _CLOSE_NS else None,
        matched=durations.shape[1],
        unmatched=sum(block[3] for block in blocks),
    )


def _straggler(
    labels: tuple[str, ...], last: Ints, durations: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> str | None:
    """Name the rank that was last in more than its share: twice as often as chance, and at least half of the time."""
    if len(labels) < 2 or not durations.size:
        return None
    worst = int(last.argmax())
    share = float(last[worst]) / durations.shape[1]
    return labels[worst] if share >= max(0.5, 1.5 / len(labels)) else None


def _group(
    family: str, durations: np.ndarray[tuple[int, int], np.dtype[np.int64]], _apart: Ints, unmatched: int
) -> Group:
    if not durations.shape[1]:
        return Group(family, 0, unmatched, 0.0, 0.0, 0.0, 0.0, 0.0)
    least = durations.min(axis=0)
    return Group(
        family=family,
        matched=durations.shape[1],
        unmatched=unmatched,
        intrinsic_s=float(least.sum()) / 1e9,
        wait_s=float((durations - least).sum(axis=1).mean()) / 1e9,
        median_s=float(np.median(least)) / 1e9,
        longest_s=float(durations.max()) / 1e9,
        skew_s=float(np.median(durations.max(axis=0) - least)) / 1e9,
    )
