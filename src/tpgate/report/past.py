"""Past results of the same scenario that lie beside a result, as the points of its history charts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tpgate.baseline.reading import load_result
from tpgate.errors import BaselineError
from tpgate.measure.result import Result
from tpgate.report.folder import RESULT_FILE, cell_names, figures
from tpgate.stats.drift import change_points

LIMIT = 120
"""Results of a history chart; older ones are left out."""


def past_results(folder: Path, result: Result) -> list[Result]:
    """Return the complete results of the same cells and loads in ``folder``, oldest first, with ``result``.

    A file that cannot be read is no history: it is passed over here, since the report is about another result.
    """
    found = {result.result_id: result}
    for path in sorted(folder.glob(f"*/{RESULT_FILE}")):
        try:
            other = load_result(path)
        except BaselineError:
            continue
        if other.complete and other.scenario_digest == result.scenario_digest:
            found.setdefault(other.result_id, other)
    return sorted(found.values(), key=lambda item: item.launches[0].started_at)[-LIMIT:]


def history(results: list[Result]) -> dict[str, list[dict[str, Any]]]:
    """Return ``<cell> <metric>`` of every gate to its points, marked where identity keys or the level changed."""
    if len(results) < 2:
        return {}
    series: dict[str, list[dict[str, Any]]] = {}
    values = [figures(result) for result in results]
    marks = [None, *(_change(before, after) for before, after in pairwise(results))]
    for metric, _, cells, _ in results[-1].gates:
        for cell in cells or cell_names(results[-1]):
            rows = [
                (result.launches[0].started_at, median(found[cell][metric]), mark)
                for result, found, mark in zip(results, values, marks, strict=True)
                if found.get(cell, {}).get(metric)
            ]
            changed = set(change_points([value for _, value, _ in rows]))
            points: list[dict[str, Any]] = [
                {"when": when, "value": value, "mark": _mark(mark, index in changed)}
                for index, (when, value, mark) in enumerate(rows)
            ]
            if len(points) > 1:
                series[f"{cell} {metric}"] = points
    return series


def _change(before: Result, after: Result) -> str | None:
    """What became different between two results, or None."""
    rows = after.launches[0].identity.differences(before.launches[0].identity)
    return ", ".join(f"{name} {old} -> {new}" for name, new, old in rows) or None


def _mark(mark: str | None, changed: bool) -> str | None:
    words = ["level changed"] if changed else []
    return ": ".join([*words, *([mark] if mark else [])]) or None
