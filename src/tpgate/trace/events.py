"""The compact form of one rank's trace: parallel arrays of GPU events, and what the host did to launch them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
"""Integers; times are 64 bits wide, identities may be kept in fewer."""


class Launches(NamedTuple):
    """The host's launching calls: parallel arrays in ascending order of ``ids``, the correlation ids.

    ``starts`` and ``ends`` are in ns since the trace's origin.
    """

    ids: Ints
    starts: Ints
    ends: Ints

    def ends_of(self, wanted: Ints, missing: int) -> Ints:
        """Return the end of the call that launched each of some correlation ids, ``missing`` where it is not there."""
        if not len(self.ids):
            return np.full(len(wanted), missing, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[at] == wanted, self.ends[at], missing)


class Kind(enum.IntEnum):
    """What a GPU event is."""

    KERNEL = 0
    COPY = 1
    SET = 2


@dataclass(frozen=True, slots=True)
class Defects:
    """What was wrong with a trace, counted.

    Attributes:
        negative: Events dropped for a negative duration.
        not_finite: Events dropped for a time that is no finite number.
        absurd: Events shortened to the next start on their stream, or dropped, for an impossible duration.
        duplicate: Events dropped because the same one was there already.
        cut_off: The file ends before its JSON (or gzip) does.
        slow_path: The fast expression and the count of events differed, so every event was decoded one by one.
    """

    negative: int = 0
    not_finite: int = 0
    absurd: int = 0
    duplicate: int = 0
    cut_off: bool = False
    slow_path: bool = False

    @property
    def dropped(self) -> int:
        """Events that were dropped or changed."""
        return self.negative + self.not_finite + self.absurd + self.duplicate


@dataclass(frozen=True, slots=True)
class Step:
    """One engine step that the scheduler annotated, such as ``step[DECODE bs=64]``.

    Attributes:
        stage: ``DECODE``, ``EXTEND`` and the like.
        batch: Requests in it, or None where the annotation does not say.
        start_ns: Start since the trace's origin.
        duration_ns: Duration.
    """

    stage: str
    batch: int | None
    start_ns: int
    duration_ns: int


class Spans(NamedTuple):
    """Stretches of time in which one operator is the innermost of its thread, in order of their start.

    On one thread they never overlap, and together they cover what its operators cover. ``owners`` points at the
    operators; ``starts`` and ``ends`` are in ns since the trace's origin.
    """

    owners: Ints
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True)
class Operators:
    """One rank's operators in order of their start. Times are ns since the trace's origin.

    Attributes:
        names: Distinct names, such as ``aten::mm``; ``name_ids`` points into it.
        name_ids: Integers of length n.
        start_ns: int64 of length n, ascending.
        duration_ns: int64 of length n, the time of inner operators included.
        self_ns: int64 of length n: the time in which no inner operator ran. Over a thread they add up to the union
            of its operators.
        threads: Thread of each operator as the system numbers it, -1 where that is no number.
        spans: When each was the innermost of its thread: what unions over threads are made of.
    """

    names: tuple[str, ...]
    name_ids: Ints
    start_ns: Ints
    duration_ns: Ints
    self_ns: Ints
    threads: Ints
    spans: Spans

    def __len__(self) -> int:
        return len(self.name_ids)


@dataclass(frozen=True, slots=True)
class Trace:
    """One rank's GPU events in order of their start. Times are ns since ``origin_ns``.

    Attributes:
        path: The file.
        names: Distinct names; ``name_ids`` points into it.
        name_ids: int64 of length n.
        kinds: :class:`Kind` of each event, int64 of length n.
        start_ns: int64 of length n, ascending.
        duration_ns: int64 of length n.
        streams: Stream of each event, int64 of length n.
        devices: Device of each event, int64 of length n.
        correlations: Correlation id of each event, -1 where there is none; kernels of one graph launch share it.
        launches: The host's calls that launched them.
        gpu_steps: Annotated steps on the GPU's time line.
        host_steps: Annotated steps on the host's time line.
        origin_ns: What was subtracted from every time, base time included, so that ranks can be laid side by side.
        rank: Rank that the file says it is of, or None.
        named_rank: Rank that its name says, or None.
        world_size: Ranks that the file says there are, or None.
        device_name: Name of the GPU, or None.
        defects: What was wrong.
        categories: Event category to count; filled only where no GPU event was found.
        operators: What the host did instead; only where no GPU event was found, and there is an operator.
        bytes_read: Uncompressed bytes.
    """

    path: Path
    names: tuple[str, ...]
    name_ids: Ints
    kinds: Ints
    start_ns: Ints
    duration_ns: Ints
    streams: Ints
    devices: Ints
    correlations: Ints
    launches: Launches
    gpu_steps: tuple[Step, ...] = ()
    host_steps: tuple[Step, ...] = ()
    origin_ns: int = 0
    rank: int | None = None
    named_rank: int | None = None
    world_size: int | None = None
    device_name: str | None = None
    defects: Defects = field(default_factory=Defects)
    categories: dict[str, int] = field(default_factory=dict)
    operators: Operators | None = None
    bytes_read: int = 0

    def __len__(self) -> int:
        return len(self.name_ids)

    @property
    def end_ns(self) -> Ints:
        """End of each event."""
        return self.start_ns + self.duration_ns

    @property
    def kernels(self) -> int:
        """Number of kernels."""
        return int((self.kinds == Kind.KERNEL).sum())

    @property
    def label(self) -> str:
        """``rank 3``, or the file's name where no rank is known."""
        rank = self.rank if self.rank is not None else self.named_rank
        return f"rank {rank}" if rank is not None else self.path.name
