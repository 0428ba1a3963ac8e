"""Slow change over a history, apart from the gate: a step that no single night shows, and marks where levels changed.

Sources: Mann (1945) and Kendall (1975) for the trend test with ties; Hirsch, Slack and Smith (1982) for several
blocks; Page (1963) for ordered alternatives over several series; Theil (1950) and Sen (1968) for the slope; least
absolute deviations with optimal partitioning for the level changes (Jackson et al. 2005; robust variant as in
Fearnhead and Rigaill 2019).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, median

from tpgate.stats.power import standard_error
from tpgate.stats.robust import MAD_FACTOR, relative_scale
from tpgate.units import Better

RECENT = 7
"""Runs whose median is compared with the pinned baseline: a week of nights."""

DRIFT_BAR = 0.02
"""Relative worsening of that median that is reported."""

TREND_WINDOW = 20
"""Runs that the trend test looks at."""

TREND_P = 0.01
LEAST_SEGMENT = 3
_PENALTY = 4.0


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotone trend.

    Attributes:
        z: Standardised Mann-Kendall statistic, negative where values fall.
        p: One-sided p-value of the side that ``z`` is on.
        change: Theil-Sen slope times the span, relative to the median: the drift over the window, a fraction.
        count: Values behind it.
    """

    z: float
    p: float
    change: float
    count: int


@dataclass(frozen=True, slots=True)
class Drift:
    """What the history of one check says.

    Attributes:
        level: Worsening of the recent median against the pinned baseline, a fraction; None with too few runs.
        level_bar: Worsening beyond which it counts: 2 %, or what chance explains where that is more.
        trend: The trend over the last runs, or None with too few.
        level_worse: Whether the level is worse than the bar.
        trend_worse: Whether it gets worse, significantly and by more than the bar over the window.
    """

    level: float | None
    level_bar: float
    trend: Trend | None
    level_worse: bool
    trend_worse: bool

    @property
    def drifting(self) -> bool:
        """Whether either test says so."""
        return self.level_worse or self.trend_worse


def mann_kendall(values: Sequence[float]) -> tuple[float, float]:
    """Return (z, one-sided p) of the Mann-Kendall trend test, corrected for ties and continuity; shape (n,), n >= 4."""
    count = len(values)
    if count < 4:
        raise ValueError(f"a trend needs 4 values or more, not {count}")
    return _standardised(*_kendall(values))


def _kendall(values: Sequence[float]) -> tuple[int, float]:
    """Return Kendall's score of ``values`` and its variance where their order means nothing, corrected for ties."""
    count = len(values)
    score = sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    return score, (count * (count - 1) * (2 * count + 5) - ties) / 18


def _standardised(score: int, variance: float) -> tuple[float, float]:
    if variance <= 0 or score == 0:
        return 0.0, 0.5
    z = (score - math.copysign(1, score)) / math.sqrt(variance)
    return z, 1 - NormalDist().cdf(abs(z))


def pooled_trend(blocks: Sequence[Sequence[float]]) -> Trend:
    """Return the common trend within blocks, whatever the level of each: a sweep that was measured in several sessions.

    The seasonal Kendall test of Hirsch, Slack and Smith (1982): scores and variances are summed, and the slope is the
    median of the pairwise slopes inside blocks, over the longest block.

    Args:
        blocks: Values in order within each block; only blocks of two or more say anything; one at least must.
    """
    told = [block for block in blocks if len(block) > 1]
    if not told:
        raise ValueError("a common trend needs a block of 2 values or more")
    parts = [_kendall(block) for block in told]
    z, p = _standardised(sum(score for score, _ in parts), sum(variance for _, variance in parts))
    slopes = [(b - a) / (j - i) for block in told for i, a in enumerate(block) for j, b in enumerate(block) if j > i]
    values = [value for block in told for value in block]
    span = max(len(block) for block in told) - 1
    return Trend(z, p, median(slopes) * span / abs(median(values)), len(values))


def page(blocks: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return (z, one-sided p) of Page's test that values rise from column to column, over several series at once.

    Args:
        blocks: One series a row (cells, say), columns in order of time; shape (b, k), k >= 3, equal lengths.
    """
    columns = len(blocks[0])
    if columns < 3 or any(len(block) != columns for block in blocks):
        raise ValueError("Page's test needs series of one length, 3 or more")
    total = 0.0
    for block in blocks:
        ranks = [sum(b < a for b in block) + (sum(b == a for b in block) + 1) / 2 for a in block]
        total += sum((index + 1) * rank for index, rank in enumerate(ranks))
    rows = len(blocks)
    mean = rows * columns * (columns + 1) ** 2 / 4
    variance = rows * columns**2 * (columns + 1) * (columns**2 - 1) / 144
    z = (total - mean) / math.sqrt(variance)
    return z, 1 - NormalDist().cdf(z)


def theil_sen(values: Sequence[float]) -> float:
    """Return the median of all pairwise slopes, in units of ``values`` a step; shape (n,), n >= 2."""
    return median((b - a) / (j - i) for i, a in enumerate(values) for j, b in enumerate(values) if j > i)


def trend_of(values: Sequence[float]) -> Trend:
    """Return the trend of some values in order of time; shape (n,), n >= 4."""
    z, p = mann_kendall(values)
    return Trend(z, p, theil_sen(values) * (len(values) - 1) / abs(median(values)), len(values))


def _sign(better: Better) -> float:
    return -1.0 if better is Better.HIGHER else 1.0


def drift(
    pinned: Sequence[float],
    history: Sequence[float],
    better: Better,
    *,
    noise_floor: float = 0.005,
    window: int = TREND_WINDOW,
    bar: float = DRIFT_BAR,
) -> Drift:
    """Test the history of one check for slow worsening.

    Args:
        pinned: Values of the baseline's launches, shape (n,), n >= 1; empty where there is none (no level test).
        history: Values of past runs in order of time, shape (h,).
        better: Direction of the metric; without one, either way counts.
        noise_floor: Least relative scale that is believed.
        window: Runs that the trend test looks at.
        bar: Relative worsening that is reported.
    """
    recent = history[-RECENT:]
    level, level_bar = None, bar
    if pinned and len(recent) == RECENT and median(pinned) != 0:
        sigma = max(relative_scale(pinned, noise_floor, 0.5)[0], relative_scale(recent, noise_floor, 0.5)[0])
        level_bar = max(bar, NormalDist().inv_cdf(0.999) * standard_error(sigma, len(pinned), RECENT))
        level = _sign(better) * (median(recent) - median(pinned)) / abs(median(pinned))
    last = history[-window:]
    trend = trend_of(last) if len(last) >= 10 and median(last) != 0 else None
    toward_worse = 0.0 if trend is None else _sign(better) * trend.change
    if better is Better.NEITHER:
        toward_worse = abs(toward_worse)
        level = None if level is None else abs(level)
    return Drift(
        level=level,
        level_bar=level_bar,
        trend=trend,
        level_worse=level is not None and level > level_bar,
        trend_worse=trend is not None and trend.p < TREND_P and toward_worse > bar,
    )


def _segment_costs(values: Sequence[float]) -> list[list[float]]:
    """Return the sum of absolute deviations from the median of every segment [i, j], by (start, length - 1)."""
    table = []
    for start in range(len(values)):
        ordered: list[float] = []
        row = []
        for value in values[start:]:
            position = next((k for k, other in enumerate(ordered) if other > value), len(ordered))
            ordered.insert(position, value)
            half = len(ordered) // 2
            row.append(sum(ordered[-half:]) - sum(ordered[:half]) if half else 0.0)
        table.append(row)
    return table


def change_points(values: Sequence[float], *, least: int = LEAST_SEGMENT, size: float = DRIFT_BAR) -> list[int]:
    """Return the indexes at which a new level begins, in order.

    Least absolute deviations with a penalty of 4 sigma log(n) a level, sigma from first differences; a level holds at
    least three runs, so that a single bad night is no change. An audit tool, not a gate: it needs runs after the step.

    Args:
        values: Past runs in order of time, shape (n,); at most a few hundred.
        least: Runs a level, at least.
        size: Least relative step between two levels that is marked.
    """
    count = len(values)
    if count < 2 * least:
        return []
    steps = [abs(b - a) for a, b in pairwise(values)]
    sigma = max(MAD_FACTOR * median(steps) / math.sqrt(2), 1e-3 * abs(median(values)), 1e-300)
    costs = _segment_costs(values)
    penalty = _PENALTY * sigma * math.log(count)
    best = [0.0] + [math.inf] * count
    previous = [0] * (count + 1)
    for end in range(least, count + 1):
        for start in range(end - least + 1):
            total = best[start] + costs[start][end - start - 1] + penalty
            if total < best[end]:
                best[end], previous[end] = total, start
    marks: list[int] = []
    end = count
    while end > 0:
        marks.append(previous[end])
        end = previous[end]
    bounds = [*sorted(marks), count]
    levels = [median(values[a:b]) for a, b in pairwise(bounds)]
    return [
        bounds[index + 1]
        for index in range(len(levels) - 1)
        if levels[index] == 0 or abs(levels[index + 1] / levels[index] - 1) >= size
    ]
