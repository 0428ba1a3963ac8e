"""Two builds measured in turn on one host: the effect of pairs, its interval, and what may be said of it.

Launches alternate A B B A, so that slow drift of the host (heat, a neighbour) falls on both sides alike and drops out
of the pairs. The effect is estimated on the log ratio of each pair, where a change by a factor is the same size up and
down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median, stdev

from tpgate.stats.interval import Interval
from tpgate.stats.verdict import Verdict
from tpgate.units import Better

CONFIDENCE = 0.99
"""Confidence of the two-sided interval: half a per cent on the side of a false alarm, as for the gate."""

MOST_SHOWN = 10.0
"""Largest end of an interval that is printed as a figure."""


@dataclass(frozen=True, slots=True)
class PairedEffect:
    """The effect of B against A on one metric; fractions of A, positive is worse.

    Attributes:
        effect: Hodges-Lehmann estimate over the pairs.
        interval: Its confidence interval.
        pairs: Pairs behind it.
        measured: Whether the spread was measured; else, or where it was smaller, the metric's noise floor was assumed.
    """

    effect: float
    interval: Interval
    pairs: int
    measured: bool


def log_worsening(base: float, head: float, better: Better) -> float:
    """Return the log ratio of ``head`` to ``base``, signed so that positive is worse; without a direction, as it is.

    Raises:
        ValueError: A value is not positive and finite: there is no ratio.
    """
    if not (0 < base < math.inf and 0 < head < math.inf):
        raise ValueError(f"no ratio of {head} to {base}")
    change = math.log(head / base)
    return -change if better is Better.HIGHER else change


def _fraction(log_change: float, better: Better) -> float:
    """Turn a signed log ratio back into a worsening relative to the base: a loss of half is 50 %, not 100 %."""
    return -math.expm1(-log_change) if better is Better.HIGHER else math.expm1(log_change)


def _hodges_lehmann(values: Sequence[float]) -> float:
    """Return the median of all pairwise means (Hodges and Lehmann 1963): robust, and efficient with few values."""
    return median((a + b) / 2 for i, a in enumerate(values) for b in values[i:])


def paired_effect(
    base: Sequence[float],
    head: Sequence[float],
    better: Better,
    *,
    noise_floor: float,
    confidence: float = CONFIDENCE,
) -> PairedEffect:
    """Return the effect of ``head`` against ``base`` over pairs of neighbouring launches.

    The interval is Student's over the log ratios. A spread below the metric's noise floor is not believed: the floor
    (times the square root of 2, for a difference of two launches) takes its place, as a known scale.

    Args:
        base: One value a pair, base units, shape (n,), n >= 1.
        head: The other value of each pair, shape (n,).
        better: Direction of the metric.
        noise_floor: Least relative scale of one launch that is believed.
        confidence: Wanted confidence.

    Raises:
        ValueError: The sides differ in length, are empty, or hold a value without a ratio.
    """
    if len(base) != len(head) or not base:
        raise ValueError(f"{len(base)} and {len(head)} values are no pairs")
    logs = [log_worsening(a, b, better) for a, b in zip(base, head, strict=True)]
    count = len(logs)
    centre = _hodges_lehmann(logs)
    floor = math.sqrt(2) * noise_floor
    spread = stdev(logs) if count > 1 else 0.0
    measured = spread > floor
    if measured:
        from scipy.stats import t as student

        half = float(student.ppf((1 + confidence) / 2, count - 1)) * spread / math.sqrt(count)
    else:
        known = floor if count > 1 else 2 * floor
        half = NormalDist().inv_cdf((1 + confidence) / 2) * known / math.sqrt(count)
    ends = sorted(_fraction(centre + sign * half, better) for sign in (-1, 1))
    return PairedEffect(_fraction(centre, better), Interval(ends[0], ends[1], confidence), count, measured)


def decide(found: PairedEffect, better: Better, tolerance: float) -> tuple[Verdict, str]:
    """Return the verdict on an effect, and why.

    It is worse where it is larger than the tolerance and its interval excludes no change: size and separation both.
    It is fine where the whole interval lies within the tolerance. Anything else needs more pairs.
    """
    low, high, effect = found.interval.low, found.interval.high, found.effect
    span = f"{_shown(low)} to {_shown(high)}"
    said = f"{effect:+.1%} worse, {found.interval.confidence:.0%} interval {span}, {found.pairs} pairs"
    if better is Better.NEITHER:
        moved = abs(effect) > tolerance and (low > 0 or high < 0)
        if moved:
            return Verdict.REGRESSED, f"{said}: it moved, and either way counts"
    elif effect > tolerance and low > 0:
        return Verdict.REGRESSED, said
    elif high < 0 and effect < -tolerance / (1 + tolerance):
        return Verdict.IMPROVED, said
    if high <= tolerance and (better is not Better.NEITHER or low >= -tolerance):
        return Verdict.OK, said
    return Verdict.INCONCLUSIVE, f"{said}: it reaches over the tolerance of {tolerance:.1%}, more rounds would tell"


def _shown(end: float) -> str:
    """Return an end of an interval for people; two noisy pairs can leave it almost anywhere."""
    return f"{end:+.1%}" if end < MOST_SHOWN else f"over {MOST_SHOWN:+.0%}"
