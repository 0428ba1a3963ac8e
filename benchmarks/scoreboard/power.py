"""How often an injected loss is found, and at which false-alarm rate, on the noise of the quiet nights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scoreboard.ours import TOLERANCES, Values, ask, pin, seeded
from scoreboard.quiet import complete, levels, quiet_nights, usable
from scoreboard.series import Series
from tpgate.stats.verdict import Verdict

METRIC = "output_tokens_per_second"


@dataclass
class Power:
    """Counts over draws."""

    draws: int = 0
    caught: int = 0
    red_checks: int = 0
    injected_checks: int = 0
    unsure: int = 0
    launches: int = 0

    @property
    def scenario_rate(self) -> float:
        """Share of draws in which any slowed check was red."""
        return self.caught / self.draws

    @property
    def check_rate(self) -> float:
        """Share of slowed checks that were red."""
        return self.red_checks / self.injected_checks


def _shift(values: Values, loss: float, only: str | None) -> Values:
    return {check: value * (1 - loss if only in (None, check[0]) else 1) for check, value in values.items()}


def inject(
    series: Sequence[Series], loss: float, *, one_cell: bool, draws: int, baseline: int, tolerance: float, most: int = 4
) -> Power:
    """Draw baselines and fresh launches from quiet nights, slow the fresh ones down, and ask the gate.

    Args:
        series: The series.
        loss: Injected loss of throughput, a fraction; 0 gives false alarms.
        one_cell: Whether one cell alone is slowed down, in turn, or all of them.
        draws: Draws a scenario.
        baseline: Launches in the baseline.
        tolerance: Tolerance that is wanted.
        most: Launches at most.
    """
    power = Power()
    gates = TOLERANCES | {METRIC: (tolerance, TOLERANCES[METRIC][1])}
    for scenario, nights in levels([one for one in series if one.metric == METRIC]).items():
        days = quiet_nights(nights)
        checks = usable(nights, days)
        full = complete(nights, days, checks)
        if len(full) < 10:
            continue
        source = seeded(scenario, loss, one_cell, baseline)
        for draw in range(draws):
            chosen = source.choices(full, k=baseline)
            pinned = pin([{check: nights[day][check] for check in checks} for day in chosen], tolerances=gates)
            only = sorted(checks)[draw % len(checks)][0] if one_cell else None

            def fresh(source=source, full=full, nights=nights, checks=checks, only=only) -> Values:
                night = nights[source.choice(full)]
                return _shift({check: night[check] for check in checks}, loss, only)

            answer = ask(pinned, fresh(), fresh, tolerances=gates, most=most)
            hit = [one for one in answer.judgement.comparisons if only in (None, one.cell)]
            power.draws += 1
            power.launches += answer.launches
            power.injected_checks += len(hit)
            power.red_checks += sum(one.verdict is Verdict.REGRESSED for one in hit)
            power.unsure += sum(one.verdict is Verdict.INCONCLUSIVE for one in hit)
            power.caught += any(one.verdict is Verdict.REGRESSED for one in hit)
    return power
