"""GitHub annotations: workflow commands, at most ten, worst first, with nothing that could start another command."""

from __future__ import annotations

from collections.abc import Sequence

from tpgate.report.rows import Row, clean, rows_of
from tpgate.stats.verdict import Judgement, Verdict, severity

LIMIT = 10
"""Annotations of one kind that GitHub keeps of a step; further ones are dropped without a word."""


def escape_message(text: str) -> str:
    """Return text escaped for the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return text escaped for a property of a workflow command, such as its title."""
    return escape_message(text).replace(":", "%3A").replace(",", "%2C")


def annotate(judgements: Sequence[Judgement], *, limit: int = LIMIT) -> list[str]:
    """Return workflow commands for whatever does not pass, worst first, at most ``limit`` in all.

    Where there are more, the last one says how many are not shown.
    """
    ordered = sorted(judgements, key=lambda judgement: severity(judgement.verdict))
    found = [
        (row, judgement.scenario)
        for judgement in ordered
        for row in rows_of(judgement.comparisons)
        if not row.verdict.passes
    ]
    found.sort(key=lambda pair: severity(pair[0].verdict))
    lines = [_command(row, scenario) for row, scenario in found]
    empty = [judgement for judgement in ordered if not judgement.verdict.passes and not judgement.comparisons]
    lines += [
        _write("error", f"{judgement.scenario} {judgement.verdict}", "nothing was compared") for judgement in empty
    ]
    if len(lines) <= limit:
        return lines
    rest = len(lines) - limit + 1
    return [*lines[: limit - 1], _write("error", f"{rest} more", "they stand in the step summary and the report")]


def _command(row: Row, scenario: str) -> str:
    kind = "warning" if row.verdict is Verdict.INCONCLUSIVE else "error"
    title = f"{scenario} {row.cell} {row.metric} {row.verdict}"
    notes = "; ".join(clean(note) for note in row.comparison.attribution)
    message = f"{row.baseline} -> {row.now} ({row.change}, tolerance {row.tolerance}): {row.reason}"
    return _write(kind, title, f"{message}; {notes}" if notes else message)


def _write(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={escape_property(clean(title))}::{escape_message(message)}"
