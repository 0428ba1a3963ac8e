"""Where the lines are drawn: from the owner's tolerance, the measured noise and the size of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tpgate.stats.power import ALPHA, mde, standard_error
from tpgate.stats.robust import relative_scale

PLANNED_LAUNCHES = 4
"""Launches that a gate may spend on one check; the MDE is that of these."""

CONFIDENCE = 0.6
"""Confidence of the upper bound at which the scale of the baseline is taken."""

SUSPICION = 1.0
"""Share of the bar from which on a single launch is suspicious and is repeated."""

SINGLE = 1.5
"""Multiple of the bar beyond which one cell alone, or one launch alone, is believed."""

SINGLE_EXTRA = 0.05
"""What that adds to the bar, at most: a wide bar is believed five percentage points beyond it."""

PROVISIONAL_EXTRA = 0.05
"""Most that a provisional baseline widens a tolerance, as a fraction of the value (5 percentage points)."""

PROVISIONAL_NOISE = 0.20
"""Most that noise may be above the tolerance of a provisional baseline before the check is blind (20 points)."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The lines of one check; all are relative worsenings, as fractions.

    Attributes:
        sigma: Relative scale of one launch that was assumed.
        measured: Whether ``sigma`` rests on at least two launches.
        limit: Largest bar that still keeps the owner's promise: the tolerance, a little more while provisional.
        bar: Worsening beyond which (not at which) a launch counts as worse.
        suspicion: Worsening from which on one launch is repeated.
        single: Worsening beyond which one cell or one launch is believed alone.
        mde: What the planned launches can see.
    """

    sigma: float
    measured: bool
    limit: float
    bar: float
    suspicion: float
    single: float
    mde: float

    @property
    def blind(self) -> bool:
        """Whether noise hides worsenings that the owner does not accept: then nothing may be called OK."""
        return self.mde > self.limit


def draw_bars(
    baseline: Sequence[float],
    *,
    tolerance: float,
    noise_floor: float,
    provisional: bool,
    planned: int = PLANNED_LAUNCHES,
) -> Bars:
    """Return the lines of a check against ``baseline``, the values of its launches, shape (n,), n >= 1.

    The bar is the tolerance, or what one launch may differ by noise alone (z at alpha = 0.005) where that is more.
    A provisional baseline of n launches widens the tolerance by 1/n of itself, at most by five percentage points,
    since its median is itself uncertain; up to twice the tolerance, and at most 20 points above it, its noise is
    tolerated with the wider bar printed; beyond that the check is blind.
    """
    sigma, measured = relative_scale(baseline, noise_floor, CONFIDENCE)
    widened = tolerance + min(tolerance / len(baseline), PROVISIONAL_EXTRA) if provisional else tolerance
    limit = tolerance + min(tolerance, PROVISIONAL_NOISE) if provisional else tolerance
    noise = NormalDist().inv_cdf(1 - ALPHA) * standard_error(sigma, len(baseline), 1)
    bar = max(widened, noise)
    return Bars(
        sigma=sigma,
        measured=measured,
        limit=max(limit, widened),
        bar=bar,
        suspicion=SUSPICION * bar,
        single=min(SINGLE * bar, bar + SINGLE_EXTRA),
        mde=mde(sigma, len(baseline), planned),
    )


def fitting_tolerance(baseline: Sequence[float], *, least: float, most: float, noise_floor: float) -> float:
    """Return the tolerance that the spread of ``baseline`` supports, between what is wanted and what is accepted.

    It is the MDE of the planned launches: anything less would be blind.

    Args:
        baseline: Baseline launches, shape (n,).
        least: Tolerance that the owner would like, a fraction; never less.
        most: Largest tolerance that the owner accepts, a fraction; never more, so that a check may stay blind.
        noise_floor: Least relative scale that is believed.
    """
    bars = draw_bars(baseline, tolerance=least, noise_floor=noise_floor, provisional=False)
    return min(most, max(least, bars.mde * (1 + 1e-9)))
