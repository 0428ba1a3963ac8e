"""What a run's details say about its profile, in the few figures that reports draw."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tpgate.measure.result import Result, Run
from tpgate.report.folder import cell_names, last_run

IDLE = "idle"
"""Name of the part in which no kernel ran."""
Parts = dict[str, float]
"""Category to seconds per output token."""


class _Category(msgspec.Struct, frozen=True):
    share: float
    per_token_s: float | None = None


class _Idle(msgspec.Struct, frozen=True):
    seconds: float


class _Kernel(msgspec.Struct, frozen=True):
    name: str
    category: str
    seconds: float


class _Together(msgspec.Struct, frozen=True):
    rank_wait_s: dict[str, float]
    rank_communication_s: dict[str, float]
    straggler: str | None = None


class _Summary(msgspec.Struct, frozen=True):
    """The fields of :class:`tpgate.trace.summary.Summary` that are drawn; further ones are passed over."""

    busy_share: float
    categories: dict[str, _Category]
    idle: _Idle
    top: list[_Kernel] = []
    tokens: float | None = None
    steps: int | None = None
    collectives: _Together | None = None
    rank_busy_s: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Rank:
    """Seconds of one rank over the capture.

    Attributes:
        name: Its label.
        communication_s: In communication kernels.
        wait_s: The part of them that is waiting for other ranks.
        busy_s: In any kernel; None where that was not kept.
    """

    name: str
    communication_s: float
    wait_s: float
    busy_s: float | None = None


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profiled run.

    Attributes:
        parts: Category to seconds per output token, idle time included; empty where the tokens are not known.
        shares: Category to its share of GPU busy time.
        ranks: Every rank's communication; empty with one rank.
        straggler: The rank that the others wait for, or None.
        top: (kernel, category, seconds over the capture), longest first.
        busy_share: GPU busy time / span.
        steps: Decode steps, or None.
    """

    parts: Parts
    shares: dict[str, float]
    ranks: tuple[Rank, ...]
    straggler: str | None
    top: tuple[tuple[str, str, float], ...]
    busy_share: float
    steps: int | None


def profiled(run: Run) -> Profiled | None:
    """Return the profile of a run, or None where it has none or one of another version."""
    trace = run.details.get("trace")
    if not isinstance(trace, dict) or not isinstance(trace.get("summary"), dict):
        return None
    try:
        summary = msgspec.convert(trace["summary"], _Summary)
    except msgspec.ValidationError:
        return None
    parts = {name: time.per_token_s for name, time in summary.categories.items() if time.per_token_s}
    idle = summary.idle.seconds / summary.tokens if summary.tokens else None
    together = summary.collectives
    return Profiled(
        parts={**parts, **({IDLE: idle} if idle is not None and parts else {})},
        shares={name: time.share for name, time in summary.categories.items() if time.share},
        ranks=tuple(
            Rank(name, seconds, together.rank_wait_s.get(name, 0.0), summary.rank_busy_s.get(name))
            for name, seconds in together.rank_communication_s.items()
        )
        if together
        else (),
        straggler=together.straggler if together else None,
        top=tuple((kernel.name, kernel.category, kernel.seconds) for kernel in summary.top[:12]),
        busy_share=summary.busy_share,
        steps=summary.steps,
    )


def profiles(result: Result) -> dict[str, Profiled]:
    """Return every cell's profile, of the last run that counts."""
    runs = ((cell, last_run(result, cell)) for cell in cell_names(result))
    found = ((cell, profiled(run)) for cell, run in runs if run is not None)
    return {cell: profile for cell, profile in found if profile is not None}
