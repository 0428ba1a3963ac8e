"""The labelled events, night by night: the gate and the published rules see the same numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scoreboard.ours import Values, ask, pin, result_of, seeded
from scoreboard.quiet import levels, quiet_nights
from scoreboard.rules import RULES
from scoreboard.series import Point, Series
from tpgate.baseline.judge import judge
from tpgate.stats.drift import DRIFT_BAR, TREND_P, drift, pooled_trend, trend_of
from tpgate.stats.verdict import Verdict
from tpgate.units import Better

THROUGHPUT = "output_tokens_per_second"
PINNED_UNTIL = "2026-05-04"
PINNED_NIGHTS = 10
BROKEN = "DeepSeek-R1-0528 MTP3"
REPLAY_IMAGE = "nightly_202605131605"
WAVE_GAP = 50_000
"""Distance of two CI run numbers, which count the whole site's runs, beyond which a new wave of runs began."""


@dataclass
class Night:
    """What one night looked like to our gate."""

    red: int = 0
    checks: int = 0
    unsure: int = 0
    launches: int = 0
    environment: int = 0
    scenarios: int = 0
    rules: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def _by_scenario(series: Sequence[Series]) -> dict[str, list[Series]]:
    found: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        if one.metric == THROUGHPUT:
            found[one.scenario].append(one)
    return found


def _pinned(members: list[Series]):
    """Return the baseline of the last complete nights before the events, with the image and commit of each."""
    days = sorted(set.intersection(*({d for d in one.nights if d < PINNED_UNTIL} for one in members)))[-PINNED_NIGHTS:]
    values = [{(one.cell, THROUGHPUT): one.nights[day].value for one in members} for day in days]
    last = members[0].nights[days[-1]]
    return pin(values, days=days, commit=last.commit, notes={"image": last.image})


def night_by_night(series: Sequence[Series], days: Sequence[str]) -> dict[str, dict[str, Night]]:
    """Return scenario to night to what the gates said; further launches are the night's value with quiet noise."""
    noise = levels([one for one in series if one.metric == THROUGHPUT])
    found: dict[str, dict[str, Night]] = {}
    for scenario, members in _by_scenario(series).items():
        baseline = _pinned(members)
        quiet = quiet_nights(noise[scenario])
        found[scenario] = {}
        for day in days:
            there = [one for one in members if day in one.nights]
            if not there:
                continue
            first: Values = {(one.cell, THROUGHPUT): one.nights[day].value for one in there}
            source = seeded(scenario, day)

            def again(first=first, source=source, quiet=quiet, scenario=scenario) -> Values:
                draw = noise[scenario][source.choice(quiet)]
                return {check: value * draw.get(check, 1.0) for check, value in first.items()}

            point = there[0].nights[day]
            answer = ask(baseline, first, again, commit=point.commit, notes={"image": point.image})
            found[scenario][day] = _night(answer, there, day)
    return found


def _night(answer, members: list[Series], day: str) -> Night:
    verdicts = [one.verdict for one in answer.judgement.comparisons]
    night = Night(
        red=verdicts.count(Verdict.REGRESSED),
        checks=len(verdicts),
        unsure=verdicts.count(Verdict.INCONCLUSIVE),
        launches=answer.launches,
        environment=any("environment suspected" in text for text in answer.judgement.warnings),
        scenarios=1,
    )
    for one in members:
        values = [1 / one.nights[other].value for other in sorted(one.nights) if other <= day]
        for name, rule in RULES.items():
            night.rules[name] += bool(rule(values[:-1], values[-1]))
    return night


def total(nights: dict[str, dict[str, Night]], day: str, *, broken: bool) -> Night:
    """Return the sum over the scenarios of the broken model, or over all others."""
    whole = Night()
    for scenario, by_day in nights.items():
        if scenario.startswith(BROKEN + " ") is not broken or day not in by_day:
            continue
        one = by_day[day]
        for name in ("red", "checks", "unsure", "launches", "environment", "scenarios"):
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
        for name, count in one.rules.items():
            whole.rules[name] += count
    return whole


def replay_drift(series: Sequence[Series]) -> list[str]:
    """Test the replays of old commits on one image, and the nights after the fix, for drift."""
    lines = []
    for model in ("DeepSeek-R1-0528 MTP3", "DeepSeek-R1-0528"):
        one = next(
            s for s in series if (s.scenario, s.cell, s.metric) == (f"{model} isl1024/osl1024", "c128", THROUGHPUT)
        )
        points = sorted((p for p in one.points if p.replay and REPLAY_IMAGE in p.image), key=lambda p: p.stamp)
        trend = trend_of([point.value for point in points])
        size = f"change {trend.change:+.1%}, Mann-Kendall z {trend.z:+.1f}"
        lines.append(f"{model} c128, {trend.count} replays in order of upload: {size}")
        lines.append(f"{model} c128, {_in_waves(points)}")
        nights = one.nights
        before = [nights[day].value for day in sorted(nights) if day < PINNED_UNTIL][-PINNED_NIGHTS:]
        after = [nights[day].value for day in sorted(nights) if day >= "2026-05-14"][:9]
        found = drift(before, after, Better.HIGHER)
        said = "DRIFT" if found.drifting else "steady"
        lines.append(
            f"{model} c128, week after the fix against the pinned April level: {found.level:+.1%} worse, {said}"
        )
    return lines


def waves(points: Sequence[Point], gap: int = WAVE_GAP) -> list[list[float]]:
    """Return the values in the order in which their runs were started, one block a wave of runs."""
    ordered = sorted(points, key=lambda point: point.run)
    blocks = [[ordered[0].value]]
    for before, point in pairwise(ordered):
        if point.run - before.run > gap:
            blocks.append([])
        blocks[-1].append(point.value)
    return blocks


def _in_waves(points: Sequence[Point]) -> str:
    blocks = waves(points)
    found = pooled_trend(blocks)
    said = "steady"
    if found.p < TREND_P and found.z < 0:
        said = "DRIFT" if found.change < -DRIFT_BAR else f"a trend, smaller than the bar of {DRIFT_BAR:.0%}"
    sizes = ", ".join(str(len(block)) for block in blocks if len(block) > 1)
    return (
        f"in order of start within waves of {sizes}: change {found.change:+.1%} over the longest, "
        f"z {found.z:+.1f}, {said}"
    )


def changed_configuration(series: Sequence[Series]) -> str:
    """Judge the same configuration on half the GPUs: another identity."""
    members = _by_scenario(series)[f"{BROKEN} isl1024/osl1024"]
    day = max(set.intersection(*(set(one.nights) for one in members)))
    values = [{(one.cell, THROUGHPUT): one.nights[day].value for one in members}] * 10
    baseline = pin(values, keys={"gpu_count": "8"})
    slower = [{check: value * 0.76 for check, value in values[0].items()}]
    judgement = judge(result_of(slower, keys={"gpu_count": "4"}), baseline)
    field_name, before, now = judgement.differences[0]
    return f"{judgement.verdict}: {field_name} {before} -> {now}"


def median_change(series: Sequence[Series], before: str, after: str) -> float:
    """Return the median relative change over all throughput series between two nights."""
    found = sorted(
        math.log(one.nights[after].value / one.nights[before].value)
        for one in series
        if one.metric == THROUGHPUT and before in one.nights and after in one.nights
    )
    return math.expm1(found[len(found) // 2]) if found else math.nan
