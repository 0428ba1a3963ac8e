"""The published rules, re-implemented: each says whether the newest value of a history is an alarm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median, stdev

from tpgate.stats.robust import MAD_FACTOR, mad

Rule = Callable[[Sequence[float], float], bool | None]
"""(history, newest) of values where higher is worse -> alarm, or None where the history is too short."""


def previous(limit: float) -> Rule:
    return lambda history, newest: None if not history else newest / history[-1] - 1 > limit


def median_of_7(limit: float) -> Rule:
    return lambda history, newest: None if len(history) < 3 else newest / median(history[-7:]) - 1 > limit


def p95_baseline(limit: float) -> Rule:
    def rule(history: Sequence[float], newest: float) -> bool | None:
        if len(history) < 5:
            return None
        best = sorted(history[-90:])[max(0, round(0.05 * (len(history[-90:]) - 1)))]
        return newest / best - 1 > limit

    return rule


def two_sd(least: float = 0.01, window: int = 7) -> Rule:
    def rule(history: Sequence[float], newest: float) -> bool | None:
        last = history[-window:]
        if len(last) < 3:
            return None
        return newest - mean(last) > 2 * stdev(last) and newest / mean(last) - 1 > least

    return rule


def robust_z(least: float, limit: float = 4.0, runs: int = 14) -> Rule:
    def rule(history: Sequence[float], newest: float) -> bool | None:
        last = history[-runs:]
        if len(last) < 5:
            return None
        scale = MAD_FACTOR * mad(last)
        return newest - median(last) > limit * scale and newest / median(last) - 1 > least

    return rule


RULES: dict[str, Rule] = {
    "5 % against previous": previous(0.05),
    "10 % against previous": previous(0.10),
    "5 % against median of 7": median_of_7(0.05),
    "10 % against median of 7": median_of_7(0.10),
    "5 % over P95 baseline": p95_baseline(0.05),
    "10 % over P95 baseline": p95_baseline(0.10),
    "2 SD and 1 % over 7": two_sd(),
    "4 robust sigma and 3 %": robust_z(0.03),
}
