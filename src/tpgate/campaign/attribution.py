"""Where the time went: what a comparison of times per token says about a regression."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tpgate.measure.definitions import metric
from tpgate.measure.definitions.trace import CATEGORIES
from tpgate.stats.verdict import Comparison, Judgement, Verdict
from tpgate.units import format_value


def attribution(rows: Sequence[Comparison]) -> tuple[str, ...]:
    """Return where time per token grew by more than a tenth of all that grew, largest first."""
    grown = {
        (row.cell, row.metric.removesuffix("_time_per_token")): (row.now - row.baseline, row)
        for row in rows
        if row.metric.endswith("_time_per_token")
        and row.metric.removesuffix("_time_per_token") in (*CATEGORIES, "idle")
        and row.now is not None
        and row.baseline is not None
        and row.now > row.baseline
    }
    total = sum(by for by, _ in grown.values())
    ordered = sorted(grown.items(), key=lambda item: -item[1][0])
    return tuple(
        f"{name} +{format_value(by, metric(row.metric).unit)} in {cell}, {by / total:.0%} of what grew"
        for (cell, name), (by, row) in ordered
        if by > 0.1 * total
    )


def attributed(judgement: Judgement) -> Judgement:
    """Return the judgement with, beside every regression, where the time per token of its cell grew.

    Traces are taken in some cells only; a regression of another cell takes what the profiled cells say.
    """
    rows = (*judgement.comparisons, *judgement.observed)
    everywhere = attribution(rows)
    by_cell = {cell: attribution([row for row in rows if row.cell == cell]) for cell in {row.cell for row in rows}}
    comparisons = tuple(
        msgspec.structs.replace(row, attribution=by_cell[row.cell] or everywhere)
        if row.verdict is Verdict.REGRESSED and not row.attribution
        else row
        for row in judgement.comparisons
    )
    return msgspec.structs.replace(judgement, comparisons=comparisons)
