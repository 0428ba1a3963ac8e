"""What every report shows of a comparison, as text: one row, worst first, in one unit prefix."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tpgate.errors import ConfigError
from tpgate.stats.verdict import Comparison, Judgement, Verdict, severity
from tpgate.units import Unit, format_change, format_value, unit_of

MISSING = "—"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison as text.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        baseline: Baseline with unit, or ``—``.
        now: Measured value with unit, or ``—``.
        change: Signed change of the value itself (not of its goodness), with as many digits as it needs to be told
            apart from the bar.
        tolerance: Accepted worsening.
        mde: Smallest worsening that would have been seen.
        verdict: The judgement.
        reason: Why.
        worse: True where the change is a worsening, False where it is a gain, None where neither.
        comparison: What it was made from.
    """

    cell: str
    metric: str
    baseline: str
    now: str
    change: str
    tolerance: str
    mde: str
    verdict: Verdict
    reason: str
    worse: bool | None
    comparison: Comparison


def clean(text: object) -> str:
    """Return text on one line without control, zero-width and direction-changing characters.

    Kernel, model and host names come from outside: an escape sequence in one of them must not reach a terminal.
    """
    return _CONTROL.sub(" ", str(text))


def unit_named(symbol: str) -> Unit:
    """Return the unit of ``symbol``; a symbol of a newer version is shown as it stands."""
    try:
        return unit_of(symbol)
    except ConfigError:
        return Unit(symbol, "plain", "", f" {symbol}")


def format_share(fraction: float | None) -> str:
    """Return a tolerance or MDE (a fraction) as a percentage; a missing one is ``—``."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    percent = fraction * 100
    return f"{percent:.0f} %" if percent >= 100 else f"{percent:.1f} %"


def raw_change(comparison: Comparison) -> float | None:
    """Return now / baseline - 1, or None where it cannot be formed."""
    if comparison.baseline is None or comparison.now is None or comparison.baseline == 0:
        return None
    return comparison.now / comparison.baseline - 1


def _change_text(comparison: Comparison) -> str:
    """The change; more digits where one digit would make it look like the bar that it passed or missed."""
    change = raw_change(comparison)
    text = format_change(change)
    if change is None or comparison.effect is None:
        return text
    for limit in (comparison.bar, comparison.tolerance):
        if limit is not None and limit != comparison.effect and f"{limit:.3f}" == f"{abs(comparison.effect):.3f}":
            return f"{change * 100:+.3f} %"
    return text


def _worse(comparison: Comparison) -> bool | None:
    if comparison.effect is None or comparison.effect == 0:
        return None
    return comparison.effect > 0


def row_of(comparison: Comparison) -> Row:
    """Return the comparison as a row of text."""
    unit = unit_named(comparison.unit)
    return Row(
        cell=clean(comparison.cell),
        metric=clean(comparison.metric),
        baseline=format_value(comparison.baseline, unit),
        now=format_value(comparison.now, unit),
        change=_change_text(comparison),
        tolerance=format_share(comparison.tolerance),
        mde=format_share(comparison.mde),
        verdict=comparison.verdict,
        reason=clean(comparison.reason),
        worse=_worse(comparison),
        comparison=comparison,
    )


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return comparisons sorted by verdict, then by the size of the worsening, then in the given order."""

    def key(comparison: Comparison) -> tuple[int, float]:
        effect = comparison.effect
        return severity(comparison.verdict), -effect if effect is not None and math.isfinite(effect) else -math.inf

    return sorted(comparisons, key=key)


def rows_of(comparisons: Iterable[Comparison]) -> list[Row]:
    """Return rows, worst first."""
    return [row_of(comparison) for comparison in worst_first(comparisons)]


def _plural(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def tally(judgement: Judgement) -> str:
    """Return the counts of verdicts, worst first: ``2 REGRESSED, 4 OK of 6 checks``."""
    found = [comparison.verdict for comparison in judgement.comparisons]
    counts = [f"{found.count(verdict)} {verdict}" for verdict in sorted(set(found), key=severity)]
    return f"{', '.join(counts) or 'nothing'} of {_plural(len(found), 'check')}"


def basis(judgement: Judgement) -> str:
    """Return what was compared with what: launches, days, and whether the baseline is provisional."""
    now = f"{_plural(judgement.launches, 'launch')} now"
    if not judgement.baseline_launches:
        return f"{now}, no baseline"
    days = f" over {_plural(judgement.baseline_days, 'day')}" if judgement.baseline_days else ""
    kind = "provisional baseline" if judgement.provisional else "baseline"
    return f"{now} against a {kind} of {_plural(judgement.baseline_launches, 'launch')}{days}"
