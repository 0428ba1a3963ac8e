"""Markdown: the step summary of a nightly (1 MiB at most) and the body of a refresh pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tpgate.report.rows import Row, basis, clean, rows_of, tally
from tpgate.stats.verdict import Judgement, Verdict, severity

BUDGET = 1024 * 1024
"""Bytes of a step summary: GitHub drops the whole summary where it is longer."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&$@])")
_SIGN = {
    Verdict.OK: "🟢",
    Verdict.IMPROVED: "🔵",
    Verdict.REGRESSED: "🔴",
    Verdict.VOID: "🟣",
    Verdict.NO_BASELINE: "🟡",
    Verdict.INCONCLUSIVE: "🟡",
}
_HEAD = (
    "| cell | metric | baseline | now | change | tolerance | MDE | verdict | why |",
    "|:--|:--|--:|--:|--:|--:|--:|:--|:--|",
)


def escape(text: object) -> str:
    """Return text that Markdown shows as it stands: no markup, link, mention or HTML of it takes effect."""
    return _SPECIAL.sub(r"\\\1", clean(text)).replace("://", ":\u200b//")


def code(text: object) -> str:
    """Return text as inline code, fenced by more backticks than it holds."""
    plain = clean(text).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall(r"`+", plain)), default=0) + 1)
    pad = " " if "`" in plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def render(judgement: Judgement, *, reproduce: str | None = None, budget: int = BUDGET) -> str:
    """Return the Markdown of one judgement, worst first.

    Args:
        judgement: What was decided.
        reproduce: Command that measures the worst cell again.
        budget: Bytes of UTF-8 that must not be passed; the last rows are left out, and their number is said.
    """
    verdict = judgement.verdict
    head = [
        f"## {_SIGN[verdict]} {escape(judgement.scenario)}: {verdict}",
        "",
        f"{escape(tally(judgement))}; {escape(basis(judgement))}. Exit code {verdict.exit_code}.",
        f"Result {code(judgement.result_id)}"
        + (f", baseline {code(judgement.baseline_path)}." if judgement.baseline_path else "."),
        "",
    ]
    tail = _tail(judgement, reproduce)
    rows = [_line(row) for row in rows_of(judgement.comparisons)]
    return _fit(head, [*_HEAD], rows, tail, budget)


def render_all(judgements: Sequence[Judgement], *, budget: int = BUDGET) -> str:
    """Return one summary of several scenarios, the worst first, each within its share of the budget."""
    ordered = sorted(judgements, key=lambda judgement: severity(judgement.verdict))
    share = budget // max(len(ordered), 1) - 2
    return "\n\n".join(render(judgement, budget=share) for judgement in ordered)


def _line(row: Row) -> str:
    notes = "; ".join([row.reason, *(clean(note) for note in row.comparison.attribution)])
    numbers = " | ".join((row.baseline, row.now, row.change, row.tolerance, row.mde))
    verdict = f"{_SIGN[row.verdict]} {row.verdict}"
    return f"| {escape(row.cell)} | {code(row.metric)} | {numbers} | {verdict} | {escape(notes)} |"


def _tail(judgement: Judgement, reproduce: str | None) -> list[str]:
    lines: list[str] = []
    if judgement.differences:
        kept = "Kept apart from the baseline by" if judgement.verdict is Verdict.NO_BASELINE else "Differs in"
        lines += ["", f"**{kept}**", ""]
        lines += [f"- {code(name)}: {code(old)} → {code(new)}" for name, old, new in judgement.differences]
    if judgement.doubts:
        lines += ["", "**Validity**", ""]
        lines += [
            f"- {escape(cell)} {code(check)}: {escape(why)} {escape(advice)}".rstrip()
            for cell, check, why, advice in judgement.doubts
        ]
    if judgement.warnings:
        lines += ["", "**Warnings**", "", *(f"- {escape(warning)}" for warning in judgement.warnings)]
    if reproduce and not judgement.verdict.passes:
        lines += ["", "Measure the worst cell again:", "", "```sh", clean(reproduce).replace("```", ""), "```"]
    return lines


def _fit(head: list[str], table: list[str], rows: list[str], tail: list[str], budget: int) -> str:
    """Join the parts, leaving out the tail and then the last rows where the budget would be passed."""
    whole = "\n".join([*head, *table, *rows, *tail]) + "\n"
    if len(whole.encode()) <= budget:
        return whole
    used = len("\n".join([*head, *table]).encode()) + 200
    kept: list[str] = []
    for row in rows:
        used += len(row.encode()) + 1
        if used > budget:
            break
        kept.append(row)
    left = len(rows) - len(kept)
    note = f"\n{left} more rows and the notes were left out: they stand in the result folder and the HTML report."
    text = "\n".join([*head, *table, *kept, note]) + "\n"
    return text.encode()[:budget].decode(errors="ignore")
