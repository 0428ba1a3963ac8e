"""Robust location and scale of a few launches.

Sources: the normal-consistent factor 1.4826 of the MAD (Hampel 1974); its small-sample bias (Park, Kim and Wang 2022,
"Investigation of finite-sample properties of robust location and scale estimators"); the expected range d2 of normal
samples (Tippett 1925); the variance of the sample median, n(x) = pi / 2 / (n + pi/2 - 1) in units of sigma squared
(Rider 1960 for the exact small values).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

MAD_FACTOR = 1.4826
"""Makes the median absolute deviation consistent with the standard deviation of a normal distribution."""

_D2 = {2: 1.128, 3: 1.693, 4: 2.059, 5: 2.326, 6: 2.534}
_MEDIAN_VARIANCE = {1: 1.0, 2: 0.5, 3: 0.449, 4: 0.298, 5: 0.287, 6: 0.215, 7: 0.210, 8: 0.168, 9: 0.166, 10: 0.138}
_MAD_EFFICIENCY = 0.37


def mad(values: Sequence[float]) -> float:
    """Return the median absolute deviation from the median, in the unit of ``values``, without any factor."""
    centre = median(values)
    return median(abs(value - centre) for value in values)


def scale(values: Sequence[float]) -> float | None:
    """Return a robust estimate of the standard deviation, in the unit of ``values``.

    From seven values on it is the MAD (times 1.4826, corrected for small samples). Of fewer values the MAD says next
    to nothing (of three it is the smaller of two gaps), so it is the range over its expectation d2 under normality:
    not robust, but an outlier among so few launches widens the bar and never narrows it.

    Args:
        values: The launches, shape (n,).

    Returns:
        The scale, or None with fewer than two values: one launch has no spread.
    """
    count = len(values)
    if count < 2:
        return None
    if count in _D2:
        return (max(values) - min(values)) / _D2[count]
    return MAD_FACTOR * mad(values) * (1 + 0.76 / count + 0.9 / count**2)


def degrees_of_freedom(count: int) -> float:
    """Return how many degrees of freedom :func:`scale` is worth; the MAD uses about 37 % of the information."""
    if count < 2:
        return 0.0
    return float(count - 1) if count in _D2 else max(2.0, _MAD_EFFICIENCY * (count - 1))


def upper_factor(count: int, confidence: float) -> float:
    """Return the factor that turns a scale from ``count`` launches into its upper confidence bound.

    The bound is sqrt(v / chi2_q(v)) with q = 1 - confidence and v from :func:`degrees_of_freedom`, the chi-squared
    quantile by Wilson and Hilferty (1931), and exact at one and two degrees of freedom, where that is poor.
    """
    freedom = degrees_of_freedom(count)
    if freedom <= 0:
        return math.inf
    tail = 1 - confidence
    if freedom == 1:
        quantile = NormalDist().inv_cdf(0.5 + tail / 2) ** 2
    elif freedom == 2:
        quantile = -2 * math.log(1 - tail)
    else:
        ninth = 2 / (9 * freedom)
        quantile = freedom * max(1e-9, 1 - ninth + NormalDist().inv_cdf(tail) * math.sqrt(ninth)) ** 3
    return max(1.0, math.sqrt(freedom / quantile))


def median_variance(count: int) -> float:
    """Return the variance of the median of ``count`` normal values, in units of their variance.

    Raises:
        ValueError: ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"a median of {count} values")
    return _MEDIAN_VARIANCE.get(count, (math.pi / 2) / (count + math.pi / 2 - 1))


def relative_scale(values: Sequence[float], noise_floor: float, confidence: float) -> tuple[float, bool]:
    """Return (scale as a fraction of the median, whether it was measured).

    The measured scale is widened to its upper confidence bound, since a few launches understate it, and is never
    believed below ``noise_floor``. With one launch nothing was measured: the floor is doubled and the flag is False.
    """
    measured = scale(values)
    centre = abs(median(values))
    if measured is None or centre == 0:
        return 2 * noise_floor, False
    return max(noise_floor, measured / centre * upper_factor(len(values), confidence)), True
