"""CSV: one row a cell, metric and launch, absent values included, in base units."""

from __future__ import annotations

import csv
import io

from tpgate.measure.definitions import METRICS
from tpgate.report.folder import Stored
from tpgate.stats.verdict import Comparison

COLUMNS = (
    "result_id", "scenario", "launch_id", "started_at", "commit", "cell", "metric", "unit", "better", "value",
    "reason", "samples", "validity", "verdict", "baseline", "effect", "tolerance", "mde",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(stored: Stored) -> str:
    """Return CSV (RFC 4180, but with plain line ends) with the columns :data:`COLUMNS`.

    An absent value is an empty field with its reason beside it. Text that a spreadsheet would run as a formula is
    prefixed by an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    judged = _judged(stored)
    for launch in stored.result.launches:
        for cell, run in launch.runs.items():
            for name, value in run.values.items():
                comparison = judged.get((cell, name))
                row = {
                    "result_id": stored.result.result_id,
                    "scenario": stored.result.scenario,
                    "launch_id": launch.launch_id,
                    "started_at": launch.started_at,
                    "commit": launch.commit,
                    "cell": cell,
                    "metric": name,
                    "unit": value.unit,
                    "better": METRICS[name].better if name in METRICS else None,
                    "value": None if value.value is None else repr(value.value),
                    "reason": value.reason,
                    "samples": value.samples,
                    "validity": run.validity,
                    **_verdict(comparison),
                }
                writer.writerow({column: _safe(column, field) for column, field in row.items()})
    return buffer.getvalue()


def _verdict(comparison: Comparison | None) -> dict[str, object]:
    if comparison is None:
        return {}
    return {
        "verdict": comparison.verdict,
        "baseline": None if comparison.baseline is None else repr(comparison.baseline),
        "effect": comparison.effect,
        "tolerance": comparison.tolerance,
        "mde": comparison.mde,
    }


def _judged(stored: Stored) -> dict[tuple[str, str], Comparison]:
    found = stored.judgement.comparisons + stored.judgement.observed if stored.judgement else ()
    return {(comparison.cell, comparison.metric): comparison for comparison in found}


def _safe(column: str, field: object) -> object:
    if column in ("value", "baseline", "effect", "tolerance", "mde", "samples") or not isinstance(field, str):
        return field
    return f"'{field}" if field.startswith(_FORMULA) else field
