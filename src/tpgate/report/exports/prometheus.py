"""The text format that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tpgate.report.folder import Stored, medians
from tpgate.stats.verdict import Verdict


def textfile(stored: Stored) -> str:
    """Return medians, verdicts and the time of the measurement as gauges.

    Values are in base units, with the unit as a label, since one family holds all metrics. A missing value has no
    sample: the absence can be alerted on (``absent``), a 0 could not.
    """
    scenario = _label(stored.result.scenario)
    lines = [
        "# HELP tpgate_value Median over launches, in the base unit that the label names.",
        "# TYPE tpgate_value gauge",
    ]
    lines += [
        f'tpgate_value{{scenario="{scenario}",cell="{_label(cell)}",metric="{_label(metric)}",unit="{_label(unit)}"}} '
        f"{middle!r}"
        for cell, metric, unit, middle, _ in medians(stored.result)
    ]
    lines += _verdicts(stored, scenario)
    lines += _times(stored, scenario)
    return "\n".join(lines) + "\n"


def _verdicts(stored: Stored, scenario: str) -> Iterator[str]:
    judgement = stored.judgement
    if judgement is None:
        return
    yield "# HELP tpgate_verdict 1 for the verdict of the whole scenario, 0 for the others."
    yield "# TYPE tpgate_verdict gauge"
    for verdict in Verdict:
        yield f'tpgate_verdict{{scenario="{scenario}",verdict="{verdict}"}} {int(verdict is judgement.verdict)}'
    yield "# HELP tpgate_effect Relative change, positive is worse."
    yield "# TYPE tpgate_effect gauge"
    for item in judgement.comparisons:
        if item.effect is not None:
            labels = f'scenario="{scenario}",cell="{_label(item.cell)}",metric="{_label(item.metric)}"'
            yield f"tpgate_effect{{{labels}}} {item.effect!r}"


def _times(stored: Stored, scenario: str) -> Iterator[str]:
    if not stored.result.launches:
        return
    moment = datetime.fromisoformat(stored.result.launches[-1].started_at)
    yield "# HELP tpgate_last_launch_timestamp_seconds Start of the last launch; its age is the gate's heartbeat."
    yield "# TYPE tpgate_last_launch_timestamp_seconds gauge"
    yield f'tpgate_last_launch_timestamp_seconds{{scenario="{scenario}"}} {moment.timestamp():.0f}'


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
