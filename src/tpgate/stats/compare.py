"""The comparison of a few launches with the launches of a pinned baseline: pure, one check at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tpgate.stats.bars import PLANNED_LAUNCHES, Bars, draw_bars
from tpgate.stats.replicate import Step, next_step, quorum
from tpgate.stats.verdict import Verdict
from tpgate.units import Better, format_change

_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Check:
    """What was found about one metric in one cell; fractions, positive is worse.

    Attributes:
        verdict: The judgement of this check alone, before the family rule.
        reason: Why, in one sentence.
        baseline: Median of the baseline's launches.
        now: Median of the judged launches.
        effect: Worsening of that median; None where the baseline is 0.
        effects: Worsening of every judged launch, in order.
        bars: The lines that were used.
        over: Judged launches beyond the bar.
        confirmed: Whether a quorum of launches is beyond the bar.
        suspicious: Whether another launch should be made.
        broken_ceiling: Whether the absolute limit is broken.
        warnings: What a reader should know.
    """

    verdict: Verdict
    reason: str
    baseline: float
    now: float
    effect: float | None
    effects: tuple[float, ...]
    bars: Bars
    over: int
    confirmed: bool
    suspicious: bool
    broken_ceiling: bool = False
    warnings: tuple[str, ...] = ()


def worsening(value: float, reference: float, better: Better) -> float:
    """Return the relative change from ``reference`` to ``value``, signed so that positive is worse.

    Any change of a metric without a direction counts as worse. A reference of 0 gives 0 for 0, else infinity with
    the sign of the change (both are real values only where the metric may be 0).
    """
    if reference == 0:
        change = 0.0 if value == 0 else math.copysign(math.inf, value)
    else:
        change = (value - reference) / abs(reference)
    if better is Better.NEITHER:
        return abs(change)
    return -change if better is Better.HIGHER else change


def is_gain(value: float, reference: float, better: Better, bar: float) -> bool:
    """Whether ``value`` is so much better that losing it again would be a worsening beyond ``bar``."""
    if better is Better.NEITHER:
        return False
    return worsening(value, reference, better) < 0 and worsening(reference, value, better) > bar + _SLACK


def breaks_ceiling(value: float, ceiling: float | None, better: Better) -> bool:
    """Whether ``value`` is beyond the absolute limit: above it, or below it where higher is better."""
    if ceiling is None:
        return False
    return value < ceiling if better is Better.HIGHER else value > ceiling


def _require_finite(name: str, values: Sequence[float]) -> None:
    if not values:
        raise ValueError(f"{name}: no launches")
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"{name}: {list(values)} holds a value that is not finite")


def _describe(effect: float, bars: Bars, over: int, count: int) -> str:
    size = "no change" if effect == 0 else f"{abs(effect):.1%} {'worse' if effect > 0 else 'better'}"
    if not math.isfinite(effect):
        size = "not 0 any more" if effect > 0 else "0 now"
    launches = "one launch" if count == 1 else f"{over} of {count} launches beyond it"
    return f"{size}, bar {bars.bar:.1%} ({launches})"


def _decide(effects: Sequence[float], middle: float, bars: Bars) -> tuple[Verdict, bool, str]:
    """Return (verdict, confirmed, addition to the reason) of launches against their bars, gains left aside."""
    count = len(effects)
    bar = bars.bar + _SLACK
    over = sum(effect > bar for effect in effects)
    if over >= quorum(count):
        return Verdict.REGRESSED, True, ""
    if over == count and middle > bars.single:
        return Verdict.REGRESSED, False, f", and beyond the {bars.single:.1%} at which so few launches are believed"
    if over == 0 or count - over > max(count, PLANNED_LAUNCHES) - quorum(count):
        if bars.blind:
            return Verdict.INCONCLUSIVE, False, f": noise hides less than {bars.mde:.1%}, more than is accepted"
        return Verdict.OK, False, ""
    return (
        Verdict.INCONCLUSIVE,
        False,
        f": suspected, {quorum(count)} of {max(count, PLANNED_LAUNCHES)} launches decide",
    )


def _warnings(bars: Bars, tolerance: float, baseline: int, launches: int, *, provisional: bool) -> list[str]:
    found = []
    if provisional:
        found.append(
            f"provisional baseline of {baseline} launches: bar {bars.bar:.1%} for a tolerance of {tolerance:.1%}"
        )
    elif bars.bar > tolerance + _SLACK:
        found.append(f"noise of {bars.sigma:.1%} widens the bar to {bars.bar:.1%}, tolerance {tolerance:.1%}")
    if not bars.measured:
        found.append("a baseline of one launch has no spread: twice the metric's noise floor was assumed")
    if launches > 1:
        found.append(f"judged over {launches} launches")
    return found


def compare(
    baseline: Sequence[float],
    now: Sequence[float],
    *,
    better: Better,
    tolerance: float,
    noise_floor: float = 0.005,
    absolute_floor: float = 0.0,
    ceiling: float | None = None,
    provisional: bool = False,
    planned: int = PLANNED_LAUNCHES,
) -> Check:
    """Judge the launches ``now`` against the launches ``baseline``.

    Args:
        baseline: One value a baseline launch, base units, shape (n,), n >= 1.
        now: One value a judged launch, same unit, shape (m,), m >= 1.
        better: Direction of the metric.
        tolerance: Largest worsening that the owner accepts, a fraction; a change of exactly this much is accepted.
        noise_floor: Least relative scale that is believed.
        absolute_floor: Change in base units up to which nothing is a change; it is accepted where it is more than the
            tolerance, so that noise within it blinds no check.
        ceiling: Absolute limit in base units.
        provisional: Whether the baseline is too small to be trusted fully.
        planned: Launches that may be spent; the MDE is theirs.

    Raises:
        ValueError: A side is empty or holds a value that is not finite; nothing is ever judged on NaN.
    """
    _require_finite("baseline", baseline)
    _require_finite("now", now)
    reference = median(baseline)
    least = absolute_floor / abs(reference) if reference else 0.0
    bars = draw_bars(
        baseline,
        tolerance=max(tolerance, least),
        noise_floor=noise_floor,
        provisional=provisional,
        planned=max(planned, len(now)),
    )
    check = _check(now, reference, bars, better, absolute_floor, planned)
    warnings = tuple(_warnings(bars, tolerance, len(baseline), len(now), provisional=provisional))
    if breaks_ceiling(check.now, ceiling, better):
        reason = f"beyond the absolute limit; {check.reason}"
        check = replace(check, verdict=Verdict.REGRESSED, reason=reason, broken_ceiling=True)
    return replace(check, warnings=warnings)


def _check(
    now: Sequence[float], reference: float, bars: Bars, better: Better, absolute_floor: float, planned: int
) -> Check:
    """Return the check against its bars alone, the absolute limit and warnings left aside."""

    def effect_of(one: float) -> float:
        return 0.0 if abs(one - reference) <= absolute_floor else worsening(one, reference, better)

    value = median(now)
    effects = tuple(effect_of(one) for one in now)
    middle = effect_of(value)
    over = sum(effect > bars.bar + _SLACK for effect in effects)
    verdict, confirmed, addition = _decide(effects, middle, bars)
    reason = _describe(middle, bars, over, len(now)) + addition
    if over == 0 and middle < 0 and is_gain(value, reference, better, bars.bar):
        verdict, reason = Verdict.IMPROVED, reason + ": refresh the baseline, or the next loss hides in this gain"
    step = next_step(effects, bar=bars.bar + _SLACK, suspicion=bars.suspicion, most=planned)
    return Check(
        verdict=verdict,
        reason=reason,
        baseline=reference,
        now=value,
        effect=middle if math.isfinite(middle) else None,
        effects=effects,
        bars=bars,
        over=over,
        confirmed=confirmed,
        suspicious=step.step in (Step.MORE, Step.UNDECIDED),
    )


def describe_change(check: Check) -> str:
    """Return the change of the median itself, signed as the metric moved, for people."""
    if check.baseline == 0:
        return "—"
    return format_change((check.now - check.baseline) / abs(check.baseline))
