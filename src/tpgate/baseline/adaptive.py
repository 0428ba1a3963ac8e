"""Whether another launch is wanted: asked after every launch, answered from the declared checks so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from tpgate.baseline.contract import demands
from tpgate.baseline.judge import check_row
from tpgate.baseline.schema import Baseline
from tpgate.measure.result import Result
from tpgate.stats.replicate import MOST, Step, next_step


@dataclass(frozen=True, slots=True)
class Wish:
    """The answer after the launches so far.

    Attributes:
        more: Whether another launch is wanted.
        suspects: Checks that ask for it, as ``cell:metric``.
        reason: One sentence.
    """

    more: bool
    suspects: tuple[str, ...]
    reason: str


def next_launch(
    result: Result,
    baseline: Baseline | None,
    *,
    most: int = MOST,
    minutes_left: float | None = None,
    launch_minutes: float = 0.0,
    today: date | None = None,
) -> Wish:
    """Decide whether to launch the server again.

    Args:
        result: The launches so far.
        baseline: What they are judged against; without one there is nothing to confirm.
        most: Launches that may be spent.
        minutes_left: GPU minutes that may still be spent, or None for no cap.
        launch_minutes: GPU minutes that one launch takes.
        today: Day on which tolerances are looked at.

    Returns:
        A wish for more only where a sound value is suspicious; a void or failed launch is no reason to try again.
    """
    if baseline is None or not result.launches or baseline.identity.differences(result.launches[0].identity):
        return Wish(False, (), "there is no baseline to confirm anything against")
    day = today or datetime.now(UTC).date()
    suspects: list[str] = []
    for demand in demands(result):
        check = check_row(demand, result, baseline, day, most)
        if check is None:
            continue
        if check.bars.blind and max(check.effects) <= check.bars.single:
            continue  # no number of launches makes a blind check green; only a loss beyond doubt is worth confirming
        decision = next_step(check.effects, bar=check.bars.bar, suspicion=check.bars.suspicion, most=most)
        if decision.step is Step.MORE:
            suspects.append(f"{demand.cell}:{demand.metric}")
    count = len(result.launches)
    if not suspects:
        return Wish(False, (), f"decided after {count} launch(es)")
    if minutes_left is not None and minutes_left < launch_minutes:
        reason = f"{len(suspects)} suspected, but {minutes_left:.1f} GPU minutes left for one of {launch_minutes:.1f}"
        return Wish(False, tuple(suspects), reason)
    return Wish(True, tuple(suspects), f"launch {count + 1} of at most {most}: {', '.join(suspects[:3])} suspected")
