"""Time per output token by kind of kernel: the parts of the stacked bars, and their chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tpgate.measure.definitions.trace import CATEGORIES
from tpgate.report.charts import MARK, PALETTE, WIDTH, Spec, quantitative, scale_for
from tpgate.report.details import IDLE, Parts, Profiled, Rank
from tpgate.report.folder import Bands

_PER_TOKEN = "_time_per_token"  # noqa: S105 - a metric's ending


def parts_of_metrics(metrics: Mapping[str, list[float]]) -> Parts:
    """Return the parts that a baseline's metrics of one cell hold, medians over its launches."""
    names = (*CATEGORIES, IDLE)
    found = {name: median(metrics[name + _PER_TOKEN]) for name in names if metrics.get(name + _PER_TOKEN)}
    return {name: seconds for name, seconds in found.items() if seconds > 0}


def bars_of(found: Mapping[str, Profiled], bands: Bands) -> dict[str, Parts]:
    """Return bar name to parts: each profiled cell now, and the baseline below it where that was profiled too."""
    bars: dict[str, Parts] = {}
    for cell, profile in found.items():
        before = parts_of_metrics(bands.get(cell, {}))
        bars[f"{cell} now" if before else cell] = profile.parts
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


def rank_skew(ranks: Sequence[Rank]) -> Spec | None:
    """Return what every rank did while it was busy: computing, moving data, waiting; None for fewer than two ranks."""
    if len(ranks) < 2:
        return None
    factor, label = scale_for(max(rank.busy_s or rank.communication_s for rank in ranks), "s")
    computing = all(rank.busy_s is not None for rank in ranks)
    domain = [*(["computing"] if computing else []), "moving data", "waiting for others"]
    parts = [
        (rank.name, part, max(0.0, seconds) * factor)
        for rank in ranks
        for part, seconds in (
            ("computing", (rank.busy_s or 0.0) - rank.communication_s),
            ("moving data", rank.communication_s - rank.wait_s),
            ("waiting for others", rank.wait_s),
        )
        if part in domain
    ]
    rows = [
        {
            "rank": rank,
            "part": part,
            "order": domain.index(part),
            "value": value,
            "text": f"{rank}: {part} {value:.3g} {label}",
        }
        for rank, part, value in parts
    ]
    return {
        "width": WIDTH,
        "height": {"step": 24},
        "data": {"values": rows},
        "mark": {"type": "bar", "size": 15},
        "encoding": {
            "y": {"field": "rank", "type": "nominal", "sort": [rank.name for rank in ranks], "axis": {"title": None}},
            "x": {**quantitative("value", label), "stack": "zero"},
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": domain, "range": [PALETTE[0], PALETTE[6], MARK][-len(domain) :]},
            },
            "description": {"field": "text"},
        },
    }
