"""False alarms in a window without a known event, on series whose steps were taken out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scoreboard.ours import Values, ask, pin, seeded
from scoreboard.rules import RULES
from scoreboard.series import Series, residuals
from tpgate.stats.verdict import Verdict

START, END = "2026-03-29", "2026-05-04"
BASELINE_NIGHTS = 12


@dataclass
class Tally:
    """Alarms of one gate on one metric."""

    checks: int = 0
    alarms: int = 0
    unsure: int = 0
    nights: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    judged: set[str] = field(default_factory=set)
    launches: list[int] = field(default_factory=list)
    suspicious: int = 0

    @property
    def rate(self) -> float:
        """Alarms a check."""
        return self.alarms / self.checks if self.checks else math.nan

    @property
    def noisy_nights(self) -> float:
        """Share of nights with any alarm."""
        return sum(count > 0 for count in self.nights.values()) / len(self.judged) if self.judged else math.nan


def levels(series: Sequence[Series]) -> dict[str, dict[str, dict[tuple[str, str], float]]]:
    """Return scenario to night to (cell, metric) to value / level: noise alone."""
    found: dict[str, dict[str, dict[tuple[str, str], float]]] = defaultdict(lambda: defaultdict(dict))
    for one in series:
        for day, value in residuals(one).items():
            found[one.scenario][day][one.cell, one.metric] = math.exp(value)
    return found


def quiet_nights(nights: dict[str, dict]) -> list[str]:
    return sorted(day for day in nights if START <= day <= END)


def usable(nights: dict[str, dict[tuple[str, str], float]], days: Sequence[str]) -> set[tuple[str, str]]:
    """Return the checks that at least three quarters of ``days`` measured."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for day in days:
        for check in nights[day]:
            counts[check] += 1
    return {check for check, count in counts.items() if count >= 0.75 * len(days)}


def complete(nights: dict, days: Sequence[str], checks: set) -> list[str]:
    return [day for day in days if checks <= set(nights[day])]


def ours(series: Sequence[Series], metrics: set[str], *, most: int = 4) -> Tally:
    """Replay every night of the window through the gate; a further launch is another quiet night's noise.

    The pinned baseline is made of the window's other nights, twelve drawn at random, the judged one left out.
    """
    tally = Tally()
    for scenario, nights in levels([one for one in series if one.metric in metrics]).items():
        days = quiet_nights(nights)
        checks = usable(nights, days)
        full = complete(nights, days, checks)
        if len(full) < BASELINE_NIGHTS + 2:
            continue
        for day in days:
            source = seeded(scenario, day, *sorted(metrics))
            others = [one for one in full if one != day]
            chosen = sorted(source.sample(others, BASELINE_NIGHTS))
            baseline = pin([{check: nights[one][check] for check in checks} for one in chosen], days=chosen)
            first: Values = {check: nights[day][check] for check in checks if check in nights[day]}
            rest = [one for one in others if one not in chosen] or others

            def again(source=source, rest=rest, nights=nights) -> Values:
                return nights[source.choice(rest)]

            if not first:
                continue
            answer = ask(baseline, first, again, most=most)
            _count(tally, answer, day, len(first))
    return tally


def each_alone(series: Sequence[Series], metrics: set[str]) -> Tally:
    """Replay every series as if it were a scenario of its own: the quorum without the family rule."""
    whole = Tally()
    for one in series:
        if one.metric not in metrics:
            continue
        tally = ours([one], metrics)
        whole.checks += tally.checks
        whole.alarms += tally.alarms
        whole.unsure += tally.unsure
        whole.judged |= tally.judged
        whole.launches += tally.launches
        for day, count in tally.nights.items():
            whole.nights[day] += count
    return whole


def _count(tally: Tally, answer, day: str, checks: int) -> None:
    tally.checks += checks
    tally.judged.add(day)
    tally.launches.append(answer.launches)
    for one in answer.judgement.comparisons:
        tally.alarms += one.verdict is Verdict.REGRESSED
        tally.nights[day] += one.verdict is Verdict.REGRESSED
        tally.unsure += one.verdict is Verdict.INCONCLUSIVE


def published(series: Sequence[Series], metric: str) -> dict[str, Tally]:
    """Replay the same nights through the published rules, each with the whole history before the night."""
    found = {name: Tally() for name in RULES}
    for one in series:
        if one.metric != metric:
            continue
        sign = -1 if metric == "output_tokens_per_second" else 1
        noise = residuals(one)
        days = sorted(noise)
        worse = {day: math.exp(sign * noise[day]) for day in days}
        for day in days:
            if not START <= day <= END:
                continue
            history = [worse[other] for other in days if START <= other < day]
            for name, rule in RULES.items():
                alarm = rule(history, worse[day])
                if alarm is None:
                    continue
                tally = found[name]
                tally.checks += 1
                tally.judged.add(day)
                tally.alarms += alarm
                tally.nights[day] += alarm
    return found
