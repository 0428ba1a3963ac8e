"""Properties of a JUnit test case."""

from __future__ import annotations

from tpgate.report.folder import Stored, last_run


def junit_properties(stored: Stored, cell: str) -> list[tuple[str, str]]:
    """Return small (name, value) pairs of one cell for a JUnit test case; basic types, so that they pass xdist.

    Verdict, value, baseline and change of every judged metric, and the result that holds the rest.
    """
    found = [("tpgate.result_id", stored.result.result_id), ("tpgate.cell", cell)]
    judged = stored.judgement.comparisons if stored.judgement else ()
    for comparison in judged:
        if comparison.cell != cell:
            continue
        stem = f"tpgate.{comparison.metric}"
        found.append((f"{stem}.verdict", str(comparison.verdict)))
        for name in ("now", "baseline", "effect", "mde"):
            value = getattr(comparison, name)
            if value is not None:
                found.append((f"{stem}.{name}", repr(value)))
        found.append((f"{stem}.unit", comparison.unit))
    run = last_run(stored.result, cell)
    return [*found, ("tpgate.validity", str(run.validity) if run else "no run")]
