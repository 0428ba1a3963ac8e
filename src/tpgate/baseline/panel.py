"""What the checks of one judgement say about each other: families, shifts of mix, waivers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

import msgspec

from tpgate.baseline.contract import Demand, Gathered
from tpgate.baseline.schema import Baseline
from tpgate.measure.definitions import METRICS, metric
from tpgate.stats.compare import Check
from tpgate.stats.family import FAMILY_UNITS, agrees
from tpgate.stats.verdict import Comparison, Verdict

Row = tuple[Demand, Gathered, Check | None, Comparison]

SHARE = "_share"
TIME_PER_TOKEN = "_time_per_token"  # noqa: S105 - the ending of a metric's name


def time_per_token_of(name: str) -> str | None:
    """Return the absolute metric that stands beside a share (``x_share``: ``x_time_per_token``), or None."""
    if not name.endswith(SHARE):
        return None
    sibling = name.removesuffix(SHARE) + TIME_PER_TOKEN
    return sibling if sibling in METRICS else None


def _replace(comparison: Comparison, verdict: Verdict, reason: str, warning: str | None = None) -> Comparison:
    warnings = comparison.warnings if warning is None else (*comparison.warnings, warning)
    return msgspec.structs.replace(comparison, verdict=verdict, reason=reason, warnings=warnings)


def _families(rows: Sequence[Row]) -> dict[str, dict[str, Check]]:
    """Return, for every metric that is judged as a family, its checks by cell."""
    found: dict[str, dict[str, Check]] = defaultdict(dict)
    for demand, _, check, _ in rows:
        if check is not None and metric(demand.metric).unit.symbol in FAMILY_UNITS:
            found[demand.metric][demand.cell] = check
    return found


def _worse(check: Check) -> bool:
    return check.effect is not None and check.effect > check.bars.bar and check.over == len(check.effects)


def _by_family(row: Row, families: dict[str, dict[str, Check]]) -> Comparison:
    """Apply the family rule to one throughput check; any other is judged alone."""
    demand, _, check, comparison = row
    family = families.get(demand.metric, {})
    if check is None or len(family) < 2 or check.broken_ceiling:
        return comparison
    worse = {cell: _worse(one) or one.confirmed for cell, one in family.items()}
    supported = agrees(worse, demand.cell)
    if comparison.verdict is Verdict.INCONCLUSIVE and worse[demand.cell] and supported:
        others = ", ".join(cell for cell, is_worse in worse.items() if is_worse and cell != demand.cell)
        return _replace(comparison, Verdict.REGRESSED, f"{check.reason}; {others} agree(s)")
    alone = comparison.verdict is Verdict.REGRESSED and not supported
    if alone and (check.effect or 0.0) <= check.bars.single:
        rest = [one.effect or 0.0 for cell, one in family.items() if cell != demand.cell]
        contrary = ", the others are better: contradictory" if all(effect < 0 for effect in rest) else ""
        reason = f"{check.reason}; worse in this cell alone and within {check.bars.single:.1%}{contrary}"
        return _replace(comparison, Verdict.INCONCLUSIVE, reason)
    return comparison


def _by_mix(row: Row, checks: dict[tuple[str, str], Check]) -> Comparison:
    """Call a share that rose though its own time per token did not what it is: a shift of mix."""
    demand, _, check, comparison = row
    sibling = time_per_token_of(demand.metric)
    if sibling is None or check is None or comparison.verdict not in (Verdict.REGRESSED, Verdict.INCONCLUSIVE):
        return comparison
    absolute = checks.get((demand.cell, sibling))
    if absolute is None or absolute.verdict not in (Verdict.OK, Verdict.IMPROVED) or check.effect is None:
        return comparison
    if check.effect <= check.bars.bar and not check.broken_ceiling:
        return comparison
    reason = f"shift of mix: the share moved ({check.reason}), {sibling} did not get worse ({absolute.reason})"
    return _replace(comparison, Verdict.OK, reason, "shift of mix, no regression: something else became faster")


def _by_waiver(comparison: Comparison, baseline: Baseline, today: date) -> Comparison:
    """Apply a waiver: within its limit and time the check passes, labelled; outside it says which of the two ended."""
    waiver = baseline.waiver_of(comparison.cell, comparison.metric)
    if waiver is None or comparison.effect is None:
        return comparison
    if comparison.verdict not in (Verdict.REGRESSED, Verdict.INCONCLUSIVE):
        return comparison
    label = f"waived by {waiver.who} until {waiver.expires} up to {waiver.limit:.1%} worse: {waiver.reason}"
    if today.isoformat() > waiver.expires:
        return _replace(comparison, comparison.verdict, f"{comparison.reason}; its waiver ended on {waiver.expires}")
    if comparison.effect > waiver.limit:
        return _replace(comparison, comparison.verdict, f"{comparison.reason}; beyond the waived {waiver.limit:.1%}")
    return _replace(comparison, Verdict.OK, f"WAIVED, not well: {comparison.reason}", label)


def settle(rows: Sequence[Row], observed: Sequence[Row], baseline: Baseline, today: date) -> list[Comparison]:
    """Return the final comparison of every declared check, in order.

    Args:
        rows: The declared checks, each judged alone.
        observed: The same for metrics that nobody gates; they can explain a share.
        baseline: Where the waivers stand.
        today: Day on which they are looked at.
    """
    families = _families(rows)
    checks = {(demand.cell, demand.metric): check for demand, _, check, _ in (*rows, *observed) if check is not None}
    settled = []
    for row in rows:
        comparison = _by_family(row, families)
        comparison = _by_mix((row[0], row[1], row[2], comparison), checks)
        settled.append(_by_waiver(comparison, baseline, today))
    return settled
