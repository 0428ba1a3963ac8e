"""Matches the kernels of two captures by their normalised names, and says in which way each changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tpgate.trace.summary import KernelTime, Summary

How = Literal["slower", "faster", "more often", "less often", "new", "vanished"]
_TOP = 20
_CALLS_MOVE = 0.02


@dataclass(frozen=True, slots=True)
class KernelChange:
    """How one kernel family changed.

    Attributes:
        family: Normalised name.
        category: Its category.
        how: What changed most: its duration, how often it is called, or whether it is there at all.
        change_s: Change of its time per unit; positive is slower.
        calls_before: Calls per step before (in the whole capture where the steps are not known).
        calls_now: Calls per step now.
        mean_before_s: Mean duration before; 0 where it was not there.
        mean_now_s: Mean duration now; 0 where it is not there.
    """

    family: str
    category: str
    how: How
    change_s: float
    calls_before: float
    calls_now: float
    mean_before_s: float
    mean_now_s: float


def kernel_changes(before: Summary, now: Summary, unit_before: float, unit_now: float) -> tuple[KernelChange, ...]:
    """Return every family's change, largest first; families are matched by category and normalised name."""
    old = {(kernel.category, kernel.family): kernel for kernel in before.top}
    new = {(kernel.category, kernel.family): kernel for kernel in now.top}
    steps = (before.steps, now.steps) if before.steps and now.steps else (1, 1)
    units = (unit_before, unit_now)
    found = [_change(key, old.get(key), new.get(key), units, steps) for key in dict.fromkeys((*old, *new))]
    return tuple(sorted(found, key=lambda change: (-abs(change.change_s), change.family)))


def new_and_vanished(before: Summary, now: Summary) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the families among the 20 longest of one capture that are nowhere in the other's table."""

    def absent(top: Sequence[KernelTime], other: Sequence[KernelTime]) -> tuple[str, ...]:
        known = {kernel.family for kernel in other}
        return tuple(kernel.family for kernel in top[:_TOP] if kernel.family not in known)

    return absent(now.top, before.top), absent(before.top, now.top)


def _change(
    key: tuple[str, str],
    old: KernelTime | None,
    new: KernelTime | None,
    units: tuple[float, float],
    steps: tuple[int, int],
) -> KernelChange:
    calls_before = old.calls / steps[0] if old else 0.0
    calls_now = new.calls / steps[1] if new else 0.0
    mean_before = old.seconds / old.calls if old else 0.0
    mean_now = new.seconds / new.calls if new else 0.0
    change = (new.seconds / units[1] if new else 0.0) - (old.seconds / units[0] if old else 0.0)
    how: How
    if old is None:
        how = "new"
    elif new is None:
        how = "vanished"
    else:
        by_calls = (calls_now - calls_before) * (mean_before + mean_now) / 2
        by_mean = (mean_now - mean_before) * (calls_before + calls_now) / 2
        if abs(calls_now - calls_before) > _CALLS_MOVE * calls_before and abs(by_calls) > abs(by_mean):
            how = "more often" if by_calls > 0 else "less often"
        else:
            how = "slower" if mean_now > mean_before else "faster"
    return KernelChange(key[1], key[0], how, change, calls_before, calls_now, mean_before, mean_now)
