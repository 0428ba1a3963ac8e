"""The terminal summary: one table a scenario."""

from __future__ import annotations

import pytest

from tpgate.plugin.session import Session
from tpgate.report.terminal import render


def write_summary(reporter: pytest.TerminalReporter, session: Session) -> None:
    """Write the table of every scenario that was measured, and the errors of those that were not."""
    if not session.outcomes and not session.errors:
        return
    reporter.section("tpgate", sep="=")
    color = bool(reporter.hasmarkup)
    for outcome in session.outcomes.values():
        lines = render(
            outcome.judgement,
            color=color,
            width=reporter._tw.fullwidth,
            verbosity=reporter.verbosity,
            reproduce=outcome.reproduce,
        )
        for line in lines:
            reporter.write_line(line)
        for note in outcome.notes:
            reporter.write_line(note)
        reporter.write_line(f"results: {outcome.folder}")
    for name, error in session.errors.items():
        reporter.write_line(f"{name}: not measured: {error}", red=True)
