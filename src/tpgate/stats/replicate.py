"""How often a check is repeated: one launch when all is well, up to four on suspicion, a quorum of three.

The design is the one that costs least for its error rates on real nightly series (see docs/statistics.md): further
launches are asked for only where the first is suspicious, and no more once the answer is certain. Only fresh server
launches count as repetitions: they are independent draws on a healthy host, requests inside one launch are not.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST = 4
"""Launches spent on one check, at most."""

QUORUM = 3
"""Launches of those that must be worse than the bar before the check is REGRESSED."""


class Step(enum.StrEnum):
    """What to do after the launches so far."""

    PASS = "pass"  # noqa: S105 - the name of an outcome
    FAIL = "fail"
    MORE = "more"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step of one check, with its reason in words."""

    step: Step
    reason: str

    @property
    def decided(self) -> bool:
        """Whether no further launch can change the answer."""
        return self.step in (Step.PASS, Step.FAIL)


def quorum(launches: int) -> int:
    """Return how many of ``launches`` must be worse: 3 of up to 4, three quarters of more."""
    return QUORUM if launches <= MOST else math.ceil(launches * QUORUM / MOST)


def next_step(
    effects: Sequence[float], *, bar: float, suspicion: float, most: int = MOST, budget_left: bool = True
) -> Decision:
    """Decide whether another launch is needed.

    Args:
        effects: Worsening of every launch so far, fractions, positive is worse; shape (m,), in order.
        bar: Worsening beyond which a launch counts as worse.
        suspicion: Worsening beyond which a first launch is repeated.
        most: Launches that may be spent.
        budget_left: Whether the time set aside (GPU minutes) allows another launch.

    Returns:
        PASS or FAIL when certain, MORE when another launch is wanted, UNDECIDED at the cap.
    """
    count = len(effects)
    over = sum(effect > bar for effect in effects)
    planned = max(most, count)
    needed = min(quorum(planned), planned)
    if count and over >= needed:
        return Decision(Step.FAIL, f"{over} of {count} launches are worse than {bar:.1%}, {needed} are enough")
    if count == 1 and effects[0] <= suspicion:
        return Decision(Step.PASS, f"one launch, within {suspicion:.1%}: nothing suspicious")
    if count and count - over > planned - needed:
        return Decision(Step.PASS, f"{count - over} of {count} launches are within {bar:.1%}: no quorum is possible")
    if count >= most:
        return Decision(Step.UNDECIDED, f"{over} of {count} launches are worse than {bar:.1%} at the cap of {most}")
    if not budget_left:
        return Decision(Step.UNDECIDED, f"{over} of {count} launches are worse than {bar:.1%} and no time is left")
    return Decision(Step.MORE, f"{over} of {count} launches are worse than {bar:.1%}: {needed} of {planned} decide")
