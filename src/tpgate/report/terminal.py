"""The table that a terminal shows: one a scenario, worst first, then why, and how to see it again."""

from __future__ import annotations

import textwrap

from tpgate.report.rows import MISSING, Row, basis, clean, rows_of, tally
from tpgate.stats.verdict import Judgement, Verdict

_STYLE = {
    Verdict.OK: "32",
    Verdict.IMPROVED: "36",
    Verdict.REGRESSED: "1;31",
    Verdict.VOID: "1;35",
    Verdict.NO_BASELINE: "1;33",
    Verdict.INCONCLUSIVE: "33",
}
_BOLD, _DIM = "1", "2"
_HEADS = {
    "cell": "cell",
    "metric": "metric",
    "baseline": "baseline",
    "now": "now",
    "change": "change",
    "tolerance": "tol.",
    "mde": "MDE",
    "verdict": "verdict",
}
_RIGHT = ("baseline", "now", "change", "tolerance", "mde")
_DROPPED_FIRST = ("mde", "tolerance", "baseline")
_GAP = 2
_LEAST_WIDTH = 32


def render(
    judgement: Judgement,
    *,
    color: bool = False,
    width: int = 100,
    verbosity: int = 0,
    reproduce: str | None = None,
) -> list[str]:
    """Return the lines of one judgement for a terminal.

    Args:
        judgement: What was decided.
        color: Whether ANSI colours may be used: only where a terminal reads the lines.
        width: Columns; columns of the table are left out, then rows are folded, where it is narrow. Only a word or
            command that is longer than a line passes it.
        verbosity: -1 or less shows only what does not pass; 1 adds the watched metrics, every reason and note.
        reproduce: Command that measures the worst cell again.

    Returns:
        Lines without line ends.
    """
    width = max(width, _LEAST_WIDTH)
    rows = rows_of(judgement.comparisons)
    shown = [row for row in rows if not row.verdict.passes] if verbosity < 0 else rows
    lines = _heading(judgement, color=color, width=width)
    if shown:
        lines += ["", *_table(shown, color=color, width=width)]
    if verbosity > 0 and judgement.observed:
        watched = _table(rows_of(judgement.observed), color=color, width=width)
        lines += ["", _paint("watched, not gated", _BOLD, color), *watched]
    lines += _section("why", _reasons(shown, verbosity), color=color, width=width)
    lines += _section("where the time went", _attributions(shown), color=color, width=width)
    lines += _section(_differences_title(judgement), _differences(judgement), color=color, width=width)
    if verbosity >= 0 or not judgement.verdict.passes:
        lines += _section("validity", _doubts(judgement), color=color, width=width)
        lines += _section("warnings", _warnings(judgement, shown), color=color, width=width)
    if reproduce and not judgement.verdict.passes:
        lines += ["", _paint("measure the worst cell again", _BOLD, color), f"  {clean(reproduce)}"]
    return lines


def _paint(text: str, style: str, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color and text else text


def _wrap(text: str, width: int, first: str = "  ", rest: str = "    ") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _heading(judgement: Judgement, *, color: bool, width: int) -> list[str]:
    verdict = judgement.verdict
    name = clean(judgement.scenario)
    title = (
        f"{_paint(name, _BOLD, color)}  {_paint(str(verdict), _STYLE[verdict], color)}  (exit code {verdict.exit_code})"
    )
    facts = [f"{tally(judgement)}; {basis(judgement)}"]
    if judgement.baseline_path:
        facts.append(f"baseline {clean(judgement.baseline_path)}")
    facts.append(f"result {clean(judgement.result_id)}")
    return [title, *(_paint(line, _DIM, color) for fact in facts for line in _wrap(fact, width))]


def _cells(row: Row) -> dict[str, str]:
    return {name: str(getattr(row, name)) for name in _HEADS}


def _table(rows: list[Row], *, color: bool, width: int) -> list[str]:
    """A table of as many columns as fit; two lines a row where even the fewest do not."""
    texts = [_cells(row) for row in rows]
    sizes = {name: max(len(head), *(len(text[name]) for text in texts)) for name, head in _HEADS.items()}
    columns = [name for name in _HEADS if name != "mde" or any(text["mde"] != MISSING for text in texts)]
    for name in _DROPPED_FIRST:
        if _width(columns, sizes) <= width:
            break
        if name in columns:
            columns.remove(name)
    if _width(columns, sizes) > width:
        return _folded(rows, color=color, width=width)
    lines = [_paint(_line(_HEADS, columns, sizes), _DIM, color)]
    for row, text in zip(rows, texts, strict=True):
        style = _STYLE[row.verdict]
        lines.append(_line(text, columns, sizes, verdict=_paint(text["verdict"], style, color)))
    return lines


def _width(columns: list[str], sizes: dict[str, int]) -> int:
    return 2 + sum(sizes[name] for name in columns) + _GAP * (len(columns) - 1)


def _line(text: dict[str, str], columns: list[str], sizes: dict[str, int], verdict: str | None = None) -> str:
    parts = []
    for name in columns:
        if name == "verdict":
            parts.append(verdict or text[name])
        else:
            parts.append(text[name].rjust(sizes[name]) if name in _RIGHT else text[name].ljust(sizes[name]))
    return ("  " + (" " * _GAP).join(parts)).rstrip()


def _folded(rows: list[Row], *, color: bool, width: int) -> list[str]:
    lines = []
    for row in rows:
        verdict = _paint(str(row.verdict), _STYLE[row.verdict], color)
        lines += [f"  {row.cell} {verdict}", *_wrap(row.metric, width, "    ", "    ")]
        lines += _wrap(f"{row.baseline} -> {row.now} ({row.change})", width, "    ", "    ")
    return lines


def _section(title: str, entries: list[str], *, color: bool, width: int) -> list[str]:
    if not entries:
        return []
    return ["", _paint(title, _BOLD, color), *(line for entry in entries for line in _wrap(entry, width))]


def _reasons(rows: list[Row], verbosity: int) -> list[str]:
    """Reason of each row that needs one; the same text in several cells is said once."""
    wanted = [row for row in rows if verbosity > 0 or row.verdict is not Verdict.OK]
    return _said_once([(row.reason, f"{row.cell} {row.metric}") for row in wanted])


def _attributions(rows: list[Row]) -> list[str]:
    return _said_once([(clean(note), row.cell) for row in rows for note in row.comparison.attribution])


def _said_once(pairs: list[tuple[str, str]]) -> list[str]:
    said: dict[str, list[str]] = {}
    for text, name in pairs:
        names = said.setdefault(text, [])
        if name not in names:
            names.append(name)
    return [f"{', '.join(names)}: {text}" for text, names in said.items()]


def _differences_title(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.NO_BASELINE:
        return "kept apart from the baseline by"
    return "differs from the baseline in"


def _differences(judgement: Judgement) -> list[str]:
    return [f"{clean(field)}: {clean(old)} -> {clean(new)}" for field, old, new in judgement.differences]


def _doubts(judgement: Judgement) -> list[str]:
    return [
        f"{clean(cell)} {clean(check)}: {clean(reason)}" + (f" ({clean(advice)})" if advice else "")
        for cell, check, reason, advice in judgement.doubts
    ]


def _warnings(judgement: Judgement, rows: list[Row]) -> list[str]:
    said: dict[str, list[str]] = {clean(warning): [] for warning in judgement.warnings}
    for row in rows:
        for warning in row.comparison.warnings:
            said.setdefault(clean(warning), []).append(f"{row.cell} {row.metric}")
    return [f"{', '.join(names)}: {text}" if names else text for text, names in said.items()]
