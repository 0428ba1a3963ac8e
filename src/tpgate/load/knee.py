"""A ramp that climbs in arrival rate or concurrency until the server no longer keeps up, and finds the knee."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tpgate.errors import LoadError
from tpgate.load.goodput import Limits, meets
from tpgate.load.records import LoadResult

KEEPS_UP = 0.95
"""Share of the arrival rate at which requests must end for a rate to be sustained."""
PAYS = 0.5
"""Share of a level's growth that must come back as throughput for a concurrency to be worth it."""
GOOD_SHARE = 0.9
"""Share of requests within the limits for a level to be sustained, where limits are given."""


@dataclass(frozen=True, slots=True)
class Step:
    """One level of a ramp.

    Attributes:
        level: Arrivals per second, or concurrency.
        arrival_rate: Requests due per second: (n - 1) / (last - first), over measured requests.
        end_rate: Requests that ended well per second, likewise; below the arrival rate, the queue grew.
        tokens_per_second: Output tokens of all requests / time from the first start to the last token.
        ttft_p50_s: Median TTFT, or None.
        e2e_p50_s: Median end-to-end latency, or None.
        good_share: Share of the measured requests that succeeded within the limits.
    """

    level: float
    arrival_rate: float | None
    end_rate: float | None
    tokens_per_second: float
    ttft_p50_s: float | None
    e2e_p50_s: float | None
    good_share: float

    @property
    def keeps_up(self) -> bool:
        """Whether the server took an open loop's rate: requests end as fast as they come, within the limits."""
        if self.arrival_rate is None or self.end_rate is None:
            return False
        return self.end_rate >= KEEPS_UP * self.arrival_rate and self.good_share >= GOOD_SHARE


@dataclass(frozen=True, slots=True)
class Ramp:
    """All levels that were driven, in ascending order, and the knee: the highest sustained level, or None.

    ``bounded`` says whether a level above the knee was seen to fail; if not, the knee lies higher still.
    """

    steps: tuple[Step, ...]
    knee: Step | None
    bounded: bool


def step_of(level: float, result: LoadResult, limits: Limits | None = None) -> Step:
    """Return what one level showed."""
    measured = [record for record in result.records if not record.warmup]
    good = [record for record in measured if meets(record, limits or Limits())]
    span = max((record.chunk_ns[-1] for record in result.records if len(record.chunk_ns)), default=0)
    begin = min((record.started_ns for record in result.records), default=0)
    tokens = sum(record.output_tokens for record in result.records)
    return Step(
        level=level,
        arrival_rate=_rate([record.scheduled_ns for record in measured]),
        end_rate=_rate([record.ended_ns for record in measured if record.ok]),
        tokens_per_second=tokens / ((span - begin) / 1e9) if span > begin else 0.0,
        ttft_p50_s=_median([record.ttft_ns for record in measured]),
        e2e_p50_s=_median([record.e2e_ns for record in measured]),
        good_share=len(good) / len(measured) if measured else 0.0,
    )


def _rate(times: Sequence[int]) -> float | None:
    if len(times) < 2 or max(times) == min(times):
        return None
    return (len(times) - 1) / ((max(times) - min(times)) / 1e9)


def _median(values: Sequence[int | None]) -> float | None:
    known = [value / 1e9 for value in values if value is not None]
    return statistics.median(known) if known else None


def pays(before: Step, after: Step) -> bool:
    """Return whether more concurrency paid: throughput grew by at least half of what the level grew by."""
    if before.tokens_per_second <= 0 or after.good_share < GOOD_SHARE:
        return False
    gain = after.tokens_per_second / before.tokens_per_second - 1
    return gain >= PAYS * (after.level / before.level - 1)


def climb(
    drive_level: Callable[[float], LoadResult],
    *,
    first: float,
    last: float,
    factor: float = 2.0,
    refine: int = 3,
    limits: Limits | None = None,
    whole: bool = False,
) -> Ramp:
    """Climb by ``factor`` until a level is not sustained, then halve the gap ``refine`` times.

    Args:
        drive_level: Drives the load at a level (a rate, or a concurrency where ``whole``) and returns the result.
        first: Lowest level.
        last: Highest level that may be tried.
        factor: Growth from one level to the next, above 1.
        refine: Levels tried between the last that was sustained and the first that was not.
        limits: Latency limits that 90 % of the requests must meet.
        whole: Levels are concurrencies: whole numbers, sustained where more of them pays (:func:`pays`).

    Raises:
        LoadError: ``factor`` or the levels make no ramp.
    """
    if factor <= 1 or not 0 < first <= last:
        raise LoadError(f"a ramp from {first} to {last} by {factor}", expected="0 < first <= last, factor above 1")
    steps: list[Step] = []
    knee: Step | None = None
    ceiling: float | None = None
    level = first
    while ceiling is None:
        step = step_of(level, drive_level(level), limits)
        steps.append(step)
        if not _sustained(knee, step, whole):
            ceiling = level
        else:
            knee = step
            if level >= last:
                break
            level = min(last, round(level * factor) if whole else level * factor)
    for _ in range(refine if knee and ceiling else 0):
        assert knee is not None and ceiling is not None  # noqa: S101, PT018 - the loop's own condition
        level = (knee.level + ceiling) / 2
        level = round(level) if whole else level
        if level in (knee.level, ceiling):
            break
        step = step_of(level, drive_level(level), limits)
        steps.append(step)
        if _sustained(knee, step, whole):
            knee = step
        else:
            ceiling = level
    return Ramp(tuple(sorted(steps, key=lambda each: each.level)), knee, ceiling is not None)


def _sustained(before: Step | None, step: Step, whole: bool) -> bool:
    if not whole:
        return step.keeps_up
    return step.good_share >= GOOD_SHARE if before is None else pays(before, step)
