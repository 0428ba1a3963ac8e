"""Compares two captures: where the difference in time per token comes from, in figures and in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tpgate.trace.kernels import KernelChange, kernel_changes, new_and_vanished
from tpgate.trace.summary import Summary
from tpgate.trace.words import amount, percent, sentence_of_kernels

GATED = ("attention", "communication", "moe")
_MATTERS = 0.01
_SHARE_MOVES = 0.02
_TIME_STAYS = 0.03

Basis = Literal["token", "step", "capture"]


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the time per token.

    Attributes:
        name: Category, or ``idle: ...``.
        before_s: Its time before, per token (or per step, or in all; see :attr:`Diff.basis`).
        now_s: Its time now.
        explains: Its change / the change of the whole; None where the whole did not change.
    """

    name: str
    before_s: float
    now_s: float
    explains: float | None

    @property
    def change_s(self) -> float:
        """Now - before; positive is slower."""
        return self.now_s - self.before_s


@dataclass(frozen=True, slots=True)
class MixShift:
    """A category whose share rose though its own time did not: something else became faster.

    Attributes:
        category: The category.
        share_before: Its share of GPU busy time before.
        share_now: Its share now.
        time_before_s: Its time per token before.
        time_now_s: Its time per token now.
        faster: What became faster instead, most time first.
    """

    category: str
    share_before: float
    share_now: float
    time_before_s: float
    time_now_s: float
    faster: tuple[str, ...]

    def __str__(self) -> str:
        gained = f"; {', '.join(self.faster)} became faster" if self.faster else ""
        return (
            f"MIX SHIFT: {self.category} rose from {percent(self.share_before)} to {percent(self.share_now)} of busy "
            f"time, its own time did not ({amount(self.time_before_s)} before, {amount(self.time_now_s)} now){gained}"
        )


@dataclass(frozen=True, slots=True)
class Diff:
    """The difference between two captures.

    Attributes:
        basis: What the times are per: a token where both batches are known, a step, or the whole capture.
        before_s: Span per basis before.
        now_s: Span per basis now.
        rows: Parts, largest loss first; they add up to the change of the whole.
        kernels: Kernel families that changed, largest change first.
        new: Families among the 20 longest now that were not there before.
        vanished: Families among the 20 longest before that are not there now.
        mix_shifts: Shares that rose while the time did not.
        words: The attribution in sentences, most important first.
        comparable: Why the two should be compared with care, empty where nothing was found.
    """

    basis: Basis
    before_s: float
    now_s: float
    rows: tuple[Row, ...]
    kernels: tuple[KernelChange, ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]
    mix_shifts: tuple[MixShift, ...]
    words: tuple[str, ...]
    comparable: tuple[str, ...]

    @property
    def change_s(self) -> float:
        """Now - before of the whole; positive is slower."""
        return self.now_s - self.before_s


def compare(before: Summary, now: Summary) -> Diff:
    """Return the difference between two captures of the same load."""
    basis, unit_before, unit_now = _basis(before, now)
    whole_before, whole_now = before.span_s / unit_before, now.span_s / unit_now
    rows = _rows(before, now, unit_before, unit_now, whole_now - whole_before)
    kernels = kernel_changes(before, now, unit_before, unit_now)
    new, vanished = new_and_vanished(before, now)
    shifts = mix_shifts(before, now, unit_before, unit_now)
    words = _words(before, now, rows, kernels, basis, (whole_before, whole_now), (new, vanished))
    return Diff(
        basis=basis,
        before_s=whole_before,
        now_s=whole_now,
        rows=rows,
        kernels=kernels,
        new=new,
        vanished=vanished,
        mix_shifts=shifts,
        words=(*words, *(str(shift) for shift in shifts)),
        comparable=_cautions(before, now),
    )


def mix_shifts(before: Summary, now: Summary, unit_before: float, unit_now: float) -> tuple[MixShift, ...]:
    """Return gated categories whose share rose by more than 2 points while their time did not rise by 3 %."""
    found = []
    for name in GATED:
        share_before, share_now = before.categories[name].share, now.categories[name].share
        time_before, time_now = before.categories[name].seconds / unit_before, now.categories[name].seconds / unit_now
        if share_now - share_before <= _SHARE_MOVES or time_now > time_before * (1 + _TIME_STAYS):
            continue
        drops = [
            (old.seconds / unit_before - now.categories[other].seconds / unit_now, other)
            for other, old in before.categories.items()
            if other != name and other in now.categories
        ]
        floor = _MATTERS * before.busy_s / unit_before
        faster = tuple(other for drop, other in sorted(drops, reverse=True) if drop > floor)
        found.append(MixShift(name, share_before, share_now, time_before, time_now, faster))
    return tuple(found)


def ceiling_is_mix_shift(before: Summary, now: Summary, category: str, ceiling: float) -> str | None:
    """Return what to say of a broken share ceiling whose time per token did not rise, or None where it did rise.

    Args:
        before: The baseline's capture.
        now: The capture that broke the ceiling.
        category: The category.
        ceiling: Largest share that was promised, 0 to 1.
    """
    if now.categories[category].share <= ceiling:
        return None
    _, unit_before, unit_now = _basis(before, now)
    return next((str(s) for s in mix_shifts(before, now, unit_before, unit_now) if s.category == category), None)


def _basis(before: Summary, now: Summary) -> tuple[Basis, float, float]:
    if before.tokens and now.tokens:
        return "token", before.tokens, now.tokens
    if before.steps and now.steps:
        return "step", float(before.steps), float(now.steps)
    return "capture", 1.0, 1.0


def _times(summary: Summary, unit: float) -> dict[str, float]:
    """Return the parts of the time per unit; together they are the span."""
    times = {name: part.seconds / unit for name, part in summary.categories.items()}
    if summary.collectives is not None and summary.collectives.matched:
        wait = min(summary.collectives.wait_s / unit, times["communication"])
        times["communication"] -= wait
        times["communication: waiting for a late rank"] = wait
    overlapped = summary.busy_s / unit - sum(times.values())
    times["overlap of categories"] = overlapped
    times["idle: host launched too late"] = summary.idle.launch_bound_s / unit
    times["idle: other"] = (summary.idle.seconds - summary.idle.launch_bound_s) / unit
    rest = summary.span_s / unit - sum(times.values())
    times["idle: other"] += rest
    return times


def _rows(before: Summary, now: Summary, unit_before: float, unit_now: float, change: float) -> tuple[Row, ...]:
    old, new = _times(before, unit_before), _times(now, unit_now)
    whole = before.span_s / unit_before
    explained = abs(change) > 1e-3 * whole
    rows = [
        Row(name, old.get(name, 0.0), new.get(name, 0.0), None)
        for name in dict.fromkeys((*old, *new))
        if old.get(name) or new.get(name)
    ]
    rows = [Row(r.name, r.before_s, r.now_s, r.change_s / change if explained else None) for r in rows]
    return tuple(sorted(rows, key=lambda row: (-row.change_s, row.name)))


def _words(
    before: Summary,
    now: Summary,
    rows: Sequence[Row],
    kernels: Sequence[KernelChange],
    basis: Basis,
    whole: tuple[float, float],
    names: tuple[tuple[str, ...], tuple[str, ...]],
) -> tuple[str, ...]:
    change = whole[1] - whole[0]
    relative = change / whole[0] if whole[0] else 0.0
    if abs(relative) < _MATTERS:
        said = [f"time per {basis} hardly changed: {amount(whole[0])} before, {amount(whole[1])} now"]
    else:
        word = "rose" if change > 0 else "fell"
        said = [f"time per {basis} {word} from {amount(whole[0])} to {amount(whole[1])} ({relative * 100:+.0f} %)"]
        driving = sorted((row for row in rows if row.change_s * change > 0), key=lambda row: -abs(row.change_s))
        for row in driving[:4]:
            if row.explains is not None and row.explains > 0.05:
                said.append(
                    f"{row.name} explains {percent(row.explains)} of it: "
                    f"{amount(row.before_s)} to {amount(row.now_s)} per {basis}"
                )
    if before.graph_share > 0.5 > now.graph_share:
        said.append(_graphs("CUDA graphs are off now", before, now))
    elif now.graph_share > 0.5 > before.graph_share:
        said.append(_graphs("CUDA graphs are on now", before, now))
    said += sentence_of_kernels(kernels, rising=change > 0, floor_s=_MATTERS * whole[0])
    if names[0]:
        said.append(f"new among the 20 longest kernels: {', '.join(names[0])}")
    if names[1]:
        said.append(f"gone from the 20 longest kernels: {', '.join(names[1])}")
    late = now.collectives.straggler if now.collectives else None
    if late and late != (before.collectives.straggler if before.collectives else None):
        said.append(f"{late} now comes last to most collectives: the other ranks wait for it")
    return tuple(said)


def _graphs(what: str, before: Summary, now: Summary) -> str:
    old, new = percent(before.graph_share), percent(now.graph_share) if now.graph_share else "none"
    return f"{what}: {old} of kernels came out of a graph launch before, {new} now"


def _cautions(before: Summary, now: Summary) -> tuple[str, ...]:
    found = []
    if before.taxonomy != now.taxonomy:
        found.append(f"classified by different rules ({before.taxonomy}, {now.taxonomy}): shares are not comparable")
    if len(before.ranks) != len(now.ranks):
        found.append(f"{len(before.ranks)} ranks before, {len(now.ranks)} now")
    if before.batch and now.batch and abs(before.batch - now.batch) > 0.1 * before.batch:
        found.append(f"{before.batch:g} requests a step before, {now.batch:g} now: time per token moves with it")
    if before.device and now.device and before.device != now.device:
        found.append(f"another GPU: {before.device} before, {now.device} now")
    return tuple(found)
