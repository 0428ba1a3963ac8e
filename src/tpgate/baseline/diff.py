"""What a refresh would change, worst first, and the table of it for a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpgate.baseline.schema import Baseline
from tpgate.measure.definitions import metric
from tpgate.stats.bars import CONFIDENCE
from tpgate.stats.compare import worsening
from tpgate.stats.power import standard_error
from tpgate.stats.robust import relative_scale
from tpgate.units import format_change, format_value

LEAST_CHANGE = 0.01
"""Relative change below which a refreshed median is unchanged, however quiet its launches are."""

_Z = 2.576


@dataclass(frozen=True, slots=True)
class Change:
    """What a refresh does to one metric of one cell.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        before: Median of the old launches, or None where the check is new.
        after: Median of the new launches.
        effect: Worsening, a fraction, positive is worse; infinite where it was 0, None where the check is new.
        noise: Change that noise explains, a fraction.
        gated: Whether the check is promised.
        launches: New launches behind ``after``.
    """

    cell: str
    metric: str
    before: float | None
    after: float
    effect: float | None
    noise: float
    gated: bool
    launches: int

    @property
    def name(self) -> str:
        """``cell:metric``, the form in which a command line names a check."""
        return f"{self.cell}:{self.metric}"

    @property
    def worse(self) -> bool:
        """Whether it became worse by more than noise explains."""
        return self.effect is not None and self.effect > self.noise

    @property
    def moved(self) -> bool:
        """Whether the level changed at all, either way."""
        return self.effect is not None and abs(self.effect) > self.noise


def _noise(old: Sequence[float], new: Sequence[float], floor: float) -> float:
    """Return the relative change of two medians that chance explains; far below a gate's tolerance on a quiet host.

    A refresh is stricter than the gate: or a baseline would creep by almost a tolerance at every refresh.
    """
    scales = [relative_scale(values, floor, CONFIDENCE) for values in (old, new)]
    measured = [sigma for sigma, is_measured in scales if is_measured]
    sigma = max(measured or [sigma for sigma, _ in scales])
    return max(LEAST_CHANGE, _Z * standard_error(sigma, len(old), len(new)))


def changes(old: Baseline | None, new: Baseline) -> list[Change]:
    """Return every change, gated ones first, each sorted from the worst to the best; new checks last."""
    gated = {(promise.cell, promise.metric) for promise in new.promises}
    found: list[Change] = []
    for cell, name in sorted({(c, n) for one in new.launches for c, values in one.values.items() for n in values}):
        definition = metric(name)
        fresh = new.values(cell, name)
        after = new.middle(cell, name)
        before = None if old is None else old.middle(cell, name)
        if after is None:
            continue
        stored = [] if old is None else old.values(cell, name)
        effect = None if before is None else worsening(after, before, definition.better)
        if before is not None and abs(after - before) <= definition.absolute_floor:
            effect = 0.0
        noise = _noise(stored, fresh, definition.noise_floor) if stored else 0.0
        found.append(Change(cell, name, before, after, effect, noise, (cell, name) in gated, len(fresh)))
    order = {cell: index for index, cell in enumerate(new.cells)}

    def place(one: Change) -> tuple[bool, bool, float, int, str]:
        return not one.gated, one.effect is None, -(one.effect or 0.0), order.get(one.cell, len(order)), one.metric

    return sorted(found, key=place)


def _word(change: Change, accepted: frozenset[str]) -> str:
    if change.effect is None:
        return "new"
    if not change.moved:
        return "unchanged"
    if not change.worse:
        return "better"
    return "worse, accepted" if change.name in accepted else "**worse**"


def table(found: Sequence[Change], accepted: frozenset[str] = frozenset(), *, observed: bool = False) -> list[str]:
    """Return the changes as a Markdown table, worst first.

    Args:
        found: The changes, in the order of :func:`changes`.
        accepted: Names of the worse checks that carry a reason.
        observed: Whether metrics that nobody gates are listed too.
    """
    lines = [
        "| check | before | after | change | noise | | launches |",
        "|---|---:|---:|---:|---:|---|---:|",
    ]
    for one in found:
        if not (one.gated or observed):
            continue
        unit = metric(one.metric).unit
        noise = f"±{one.noise:.1%}" if one.effect is not None else "—"
        raw = None if not one.before else (one.after - one.before) / abs(one.before)
        lines.append(
            f"| {one.name} | {format_value(one.before, unit)} | {format_value(one.after, unit)} | {format_change(raw)} "
            f"| {noise} | {_word(one, accepted)} | {one.launches} |"
        )
    return lines
