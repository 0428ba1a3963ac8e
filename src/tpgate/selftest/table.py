"""The detection table and what is said below it. Pure: returns lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tpgate.selftest.assess import Row
from tpgate.selftest.sweep import Probe
from tpgate.units import format_change

_HEAD = ("fault", "size", "expected", "seen", "effect", "caught by", "attributed to", "launches", "")


def _line(row: Row) -> tuple[str, ...]:
    seen = row.seen
    caught = ", ".join(seen.caught_by[:2]) + (f" +{len(seen.caught_by) - 2}" if len(seen.caught_by) > 2 else "")
    wanted = row.case.category
    place = (seen.category or "—") if wanted else "—"
    mark = "ok" if row.ok else "WRONG: " + "; ".join(row.complaints)
    effect = format_change(seen.effect) if seen.effect is not None else "—"
    return (
        row.case.fault,
        row.case.size,
        row.case.expected,
        seen.verdict,
        effect,
        caught or "—",
        place,
        str(seen.launches or "—"),
        mark,
    )


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def detection_table(rows: Iterable[Row]) -> list[str]:
    """Return the measured detection table; an effect is signed so that positive is worse."""
    return _columns([_HEAD, *(_line(row) for row in rows)])


def silence_lines(verdicts: Sequence[str]) -> list[str]:
    """Return what the launches without any fault said: each must be silent."""
    loud = [verdict for verdict in verdicts if verdict != "OK"]
    said = "all OK" if not loud else f"{len(loud)} of them not OK: {', '.join(loud)}"
    return [f"without a fault: {len(verdicts)} launch(es) judged, {said}"]


def sweep_lines(probes: Sequence[Probe]) -> list[str]:
    """Return a summary of the sweep, and every probe that went wrong."""
    wrong = [probe for probe in probes if not probe.ok]
    checks = len({(probe.cell, probe.metric) for probe in probes})
    lines = [
        f"on paper: {len(probes)} changes of {checks} checks, both directions: {len(probes) - len(wrong)} as expected"
    ]
    return lines + [
        f"  WRONG {probe.cell}:{probe.metric} {format_change(probe.size)} worse: {probe.verdict}, not {probe.expected}"
        for probe in wrong
    ]


def gate_lines(silent: Sequence[str] | None) -> list[str]:
    """Return a line about gates that no fault turned red; None where that was not asked."""
    if silent is None:
        return ["only some faults were injected: whether each gate can turn red was not asked"]
    if not silent:
        return ["every gate was turned red by at least one fault"]
    return [f"WRONG: no fault turned these gates red: {', '.join(silent)}"]
