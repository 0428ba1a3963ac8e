"""Time per output token by kind of kernel: the parts of the stacked bars, and their chart."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from tpgate.measure.definitions.trace import CATEGORIES
from tpgate.report.charts import PALETTE, WIDTH, Spec, quantitative, scale_for
from tpgate.report.folder import Bands

IDLE = "idle"
_PER_TOKEN = "_time_per_token"  # noqa: S105 - a metric's ending
Parts = dict[str, float]
"""Category to seconds per output token; ``idle`` is the time in which no kernel ran."""


def parts_of(trace: Mapping[str, Any]) -> Parts:
    """Return the parts that a run's trace details hold; idle time from its share of the profiled span."""
    found = {
        name: float(part["seconds_per_token"])
        for name, part in trace.get("categories", {}).items()
        if part.get("seconds_per_token") is not None
    }
    idle = trace.get("idle_share")
    if found and idle is not None and 0 <= idle < 1:
        found[IDLE] = sum(found.values()) * idle / (1 - idle)
    return found


def parts_of_metrics(metrics: Mapping[str, list[float]]) -> Parts:
    """Return the parts that a baseline's metrics of one cell hold, medians over its launches."""
    names = (*CATEGORIES, IDLE)
    return {name: median(metrics[name + _PER_TOKEN]) for name in names if metrics.get(name + _PER_TOKEN)}


def bars_of(traces: Mapping[str, Mapping[str, Any]], bands: Bands) -> dict[str, Parts]:
    """Return bar name to parts: each profiled cell now, and the baseline below it where that was profiled too."""
    bars: dict[str, Parts] = {}
    for cell, trace in traces.items():
        before = parts_of_metrics(bands.get(cell, {}))
        bars[f"{cell} now" if before else cell] = parts_of(trace)
        if before:
            bars[f"{cell} baseline"] = before
    return {name: parts for name, parts in bars.items() if parts}


def kernel_time(bars: Mapping[str, Parts]) -> Spec | None:
    """Return time per token and category, one stacked bar a cell, idle time last; None where nothing was profiled."""
    if not bars:
        return None
    totals: dict[str, float] = {}
    for parts in bars.values():
        for name, seconds in parts.items():
            totals[name] = totals.get(name, 0.0) + seconds
    ordered = sorted((name for name in totals if name != IDLE), key=lambda name: -totals[name])
    room = len(PALETTE)
    shown = ordered if len(ordered) <= room else ordered[: room - 1]
    domain = [*shown, *(["the rest"] if len(shown) < len(ordered) else []), *([IDLE] if IDLE in totals else [])]
    colours = [*PALETTE[: len(domain) - (IDLE in totals)], *(["var(--idle)"] if IDLE in totals else [])]
    factor, label = scale_for(max(sum(parts.values()) for parts in bars.values()), "s/token")
    rows = [
        {
            "bar": bar,
            "category": name if name in shown or name == IDLE else "the rest",
            "order": len(ordered) if name == IDLE else ordered.index(name),
            "value": seconds * factor,
            "text": f"{bar}, {name}: {seconds * factor:.3g} {label} ({seconds / sum(parts.values()):.1%} of the time)",
        }
        for bar, parts in bars.items()
        for name, seconds in parts.items()
    ]
    return {
        "width": WIDTH,
        "height": {"step": 34},
        "data": {"values": rows},
        "mark": {"type": "bar", "size": 22},
        "encoding": {
            "y": {"field": "bar", "type": "nominal", "sort": list(bars), "axis": {"title": None}},
            "x": {**quantitative("value", label), "stack": "zero"},
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "category",
                "type": "nominal",
                "scale": {"domain": domain, "range": colours},
                "legend": {"symbolType": "square"},
            },
            "description": {"field": "text"},
        },
    }
