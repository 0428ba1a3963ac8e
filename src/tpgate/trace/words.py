"""Figures and sentences for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tpgate.trace.kernels import KernelChange
from tpgate.units import FRACTION, SECONDS, format_value

_KERNELS = 3


def amount(seconds: float) -> str:
    """Return a time with its unit, such as ``23.5 µs``."""
    return format_value(seconds, SECONDS)


def percent(share: float) -> str:
    """Return a share, such as ``23.9 %``."""
    return format_value(share, FRACTION)


def sentence_of_kernels(changes: Sequence[KernelChange], *, rising: bool, floor_s: float) -> list[str]:
    """Return sentences on the kernels that drive a change: the same one slower, more calls, or another in its place.

    Args:
        changes: All changes.
        rising: Whether the whole became slower.
        floor_s: Change per unit below which a kernel is not spoken of.
    """
    said = []
    replaced: set[str] = set()
    for new in (change for change in changes if change.how == "new" and abs(change.change_s) > floor_s):
        gone = [c for c in changes if c.how == "vanished" and c.category == new.category and c.family not in replaced]
        if gone:
            replaced |= {new.family, gone[0].family}
            net = new.change_s + gone[0].change_s
            said.append(f"{gone[0].family} was replaced by {new.family} ({new.category}): {_signed(net)} per unit")
    driving = [
        change
        for change in changes
        if abs(change.change_s) > floor_s and (change.change_s > 0) is rising and change.family not in replaced
    ]
    said += [_sentence(change) for change in driving[:_KERNELS]]
    if not said and rising:
        said.append("no kernel became slower by an amount that matters")
    return said


def _sentence(change: KernelChange) -> str:
    before, now = amount(change.mean_before_s), amount(change.mean_now_s)
    ratio = change.calls_now / change.calls_before if change.calls_before else 0.0
    texts = {
        "slower": f"{change.family} ({change.category}) became slower: {before} to {now} a call, as often as before",
        "faster": f"{change.family} ({change.category}) became faster: {before} to {now} a call",
        "more often": f"{change.family} ({change.category}) is called {ratio:.2f} times as often, {now} a call",
        "less often": f"{change.family} ({change.category}) is called {ratio:.2f} times as often, {now} a call",
        "new": f"{change.family} ({change.category}) is new: {_signed(change.change_s)} per unit",
        "vanished": f"{change.family} ({change.category}) is gone: {_signed(change.change_s)} per unit",
    }
    return texts[change.how]


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{amount(abs(seconds))}"
