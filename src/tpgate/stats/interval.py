"""Confidence intervals of a median and of a change, without assuming a distribution."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tpgate.stats.compare import worsening
from tpgate.units import Better


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval.

    Attributes:
        low: Lower end.
        high: Upper end.
        confidence: Confidence that it really has, at least (for order statistics seldom the one that was asked for).
    """

    low: float
    high: float
    confidence: float


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the order-statistic interval of the median: exact for every continuous distribution.

    The interval from the k-th smallest to the k-th largest value covers the median with probability
    1 - 2 P(Bin(n, 1/2) < k) (Conover 1999, ch. 3.2).

    Args:
        values: The sample, shape (n,).
        confidence: Wanted confidence.

    Returns:
        The narrowest interval that reaches it, or None where the whole range does not (fewer than 6 values at 95 %).
    """
    ordered = sorted(values)
    count = len(ordered)
    tail = 0.0
    found: Interval | None = None
    for rank in range(1, count // 2 + 1):
        tail += math.comb(count, rank - 1) / 2.0**count
        if 1 - 2 * tail < confidence:
            break
        found = Interval(ordered[rank - 1], ordered[count - rank], 1 - 2 * tail)
    return found


def effect_interval(
    baseline: Sequence[float],
    now: Sequence[float],
    better: Better,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 1,
) -> Interval | None:
    """Return a bootstrap percentile interval of the worsening of the median (Efron and Tibshirani 1993, ch. 13).

    Launches are resampled, each side on its own, from a fixed seed, so the same input gives the same interval. With
    few launches it is too narrow; it is shown for people and decides nothing.

    Args:
        baseline: Baseline launches, shape (n,).
        now: Judged launches, shape (m,).
        better: Direction of the metric.
        confidence: Wanted confidence.
        draws: Resamples.
        seed: Seed of the resampling.

    Returns:
        The interval of the effect (fraction, positive is worse), or None with fewer than three launches on a side.
    """
    if len(baseline) < 3 or len(now) < 3 or median(baseline) == 0:
        return None
    source = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    effects = []
    for _ in range(draws):
        before = median(source.choices(baseline, k=len(baseline)))
        after = median(source.choices(now, k=len(now)))
        effects.append(worsening(after, before, better))
    effects.sort()
    cut = (1 - confidence) / 2
    low = effects[math.floor(cut * (draws - 1))]
    high = effects[math.ceil((1 - cut) * (draws - 1))]
    return Interval(low, high, confidence)
