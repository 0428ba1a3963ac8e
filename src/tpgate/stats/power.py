"""What a number of launches can see, and how many are needed to see a wanted effect.

The statistic is the difference of two medians, in units of the relative scale sigma of one launch; its standard error
is sigma * sqrt(v(n_baseline) + v(n_now)) with v the variance of a sample median. The MDE is the usual
(z_alpha + z_power) * standard error, one-sided (Cohen 1988, ch. 2).
"""

from __future__ import annotations

import math
from statistics import NormalDist

from tpgate.stats.robust import median_variance

ALPHA = 0.005
"""One-sided false-alarm probability of one check, before confirmation by further launches."""

POWER = 0.9
"""Probability with which an effect as large as the MDE is seen."""


def standard_error(sigma: float, baseline_launches: int, launches: int) -> float:
    """Return the relative standard error of (median of now / median of baseline), a fraction."""
    return sigma * math.sqrt(median_variance(baseline_launches) + median_variance(launches))


def mde(sigma: float, baseline_launches: int, launches: int, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the least true relative worsening seen with ``power`` at the false-alarm rate ``alpha``.

    Args:
        sigma: Relative scale of one launch, a fraction.
        baseline_launches: Launches in the baseline.
        launches: Launches that are judged (or planned).
        alpha: One-sided false-alarm probability.
        power: Wanted probability of detection.

    Returns:
        A fraction: 0.03 is 3 %. It is the limit that noise sets; a gate calls at its bar, which is never lower than
        the tolerance.
    """
    normal = NormalDist()
    factor = normal.inv_cdf(1 - alpha) + normal.inv_cdf(power)
    return factor * standard_error(sigma, baseline_launches, launches)


def launches_needed(
    sigma: float, baseline_launches: int, wanted: float, *, alpha: float = ALPHA, power: float = POWER, most: int = 100
) -> int | None:
    """Return the fewest launches whose MDE is at most ``wanted``, or None where even ``most`` do not reach it.

    With a small baseline there is a limit that no number of fresh launches gets under: its own uncertainty.
    """
    for count in range(1, most + 1):
        if mde(sigma, baseline_launches, count, alpha=alpha, power=power) <= wanted:
            return count
    return None


def baseline_launches_needed(sigma: float, launches: int, wanted: float, *, most: int = 100) -> int | None:
    """Return the fewest baseline launches with which ``launches`` fresh ones have an MDE of at most ``wanted``."""
    for count in range(2, most + 1):
        if mde(sigma, count, launches) <= wanted:
            return count
    return None
