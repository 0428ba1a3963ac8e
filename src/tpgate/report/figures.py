"""The specifications of the report's charts: what is drawn, from which figures. No drawing happens here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tpgate.report.charts import BAND, BASELINE, MARK, NOW, WIDTH, Spec, quantitative, scale_for
from tpgate.report.folder import Bands, concurrency_of
from tpgate.report.rows import unit_named
from tpgate.units import format_value

HEIGHT = 190


def over_concurrency(metric: str, symbol: str, now: Bands, baseline: Bands) -> Spec | None:
    """Return median and range of a metric over concurrency, now against the baseline's band; None without figures."""
    rows = [*_points("now", metric, symbol, now), *_points("baseline", metric, symbol, baseline)]
    if not any(row["series"] == "now" for row in rows):
        return None
    factor, label = scale_for(max(row["high"] for row in rows), symbol)
    for row in rows:
        for name in ("low", "mid", "high"):
            row[name] *= factor
    ticks = sorted({row["x"] for row in rows})
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "nice": False, "padding": 12},
        "axis": {"title": "concurrency", "values": ticks, "grid": False, "format": "d"},
    }
    color = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": ["now", "baseline"], "range": [NOW, BASELINE]},
        "legend": {"symbolType": "stroke", "symbolStrokeWidth": 3}
        if len({row["series"] for row in rows}) > 1
        else None,
    }
    y = quantitative("mid", label, scale={"zero": True})
    line = {"x": x, "y": y, "color": color, "detail": {"field": "label"}}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": "datum.series == 'baseline'"}],
                "mark": {"type": "area", "color": BAND, "aria": False},
                "encoding": {"x": x, "y": quantitative("low", label), "y2": {"field": "high"}},
            },
            {
                "transform": [{"filter": "datum.series == 'now' && datum.low != datum.high"}],
                "mark": {"type": "rule", "color": NOW, "strokeWidth": 2, "aria": False},
                "encoding": {"x": x, "y": quantitative("low", label), "y2": {"field": "high"}},
            },
            *_lines("baseline", line),
            *_lines("now", line),
        ],
    }


def _lines(series: str, encoding: Spec) -> list[Spec]:
    """Line and points of one series, drawn over what came before."""
    only = [{"filter": f"datum.series == '{series}'"}]
    return [
        {"transform": only, "mark": {"type": "line", "strokeWidth": 2, "aria": False}, "encoding": encoding},
        {
            "transform": only,
            "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
            "encoding": {**encoding, "description": {"field": "text"}},
        },
    ]


def _points(series: str, metric: str, symbol: str, values: Bands) -> list[dict[str, Any]]:
    rows = []
    for cell, metrics in values.items():
        place = concurrency_of(cell)
        found = metrics.get(metric)
        if place is None or not found:
            continue
        middle = median(found)
        text = f"{series}, {cell}: {format_value(middle, unit_named(symbol))} (median of {len(found)})"
        low, high = min(found), max(found)
        rows.append(
            {"series": series, "x": place[0], "label": place[1], "low": low, "mid": middle, "high": high, "text": text}
        )
    return rows


def history(points: Sequence[Mapping[str, Any]], symbol: str, band: Sequence[float] = ()) -> Spec | None:
    """Return a metric over past results with the baseline's band and change marks; None for fewer than two points.

    Args:
        points: ``{"when": ISO 8601, "value": base units, "mark": text or None}``, oldest first.
        symbol: The metric's unit.
        band: Values of the baseline's launches.
    """
    if len(points) < 2:
        return None
    factor, label = scale_for(max(abs(point["value"]) for point in points), symbol)
    rows = [
        {
            "n": index,
            "when": str(point["when"])[:16].replace("T", " "),
            "value": point["value"] * factor,
            "mark": point.get("mark"),
            "text": f"{str(point['when'])[:16]}: {format_value(point['value'], unit_named(symbol))}",
        }
        for index, point in enumerate(points)
    ]
    same_day = rows[0]["when"][:10] == rows[-1]["when"][:10]
    names = {row["n"]: row["when"] if same_day else row["when"][:10] for row in rows}
    x = {
        "field": "n",
        "type": "quantitative",
        "axis": {
            "title": f"{names[0]} to {names[len(rows) - 1]}, one point a result",
            "labels": False,
            "grid": False,
            "ticks": False,
        },
        "scale": {"nice": False, "padding": 8},
    }
    y = quantitative("value", label, scale={"zero": False})
    layers: list[Spec] = []
    if band:
        edges = {"low": min(band) * factor, "high": max(band) * factor}
        layers.append(
            {
                "data": {"values": [edges]},
                "mark": {"type": "rect", "color": BAND, "aria": False},
                "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
            }
        )
    layers += [
        {"mark": {"type": "line", "color": NOW, "strokeWidth": 1.5, "aria": False}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "color": NOW, "size": 26, "opacity": 1},
            "encoding": {"x": x, "y": y, "description": {"field": "text"}},
        },
        {
            "transform": [{"filter": "datum.mark != null"}],
            "mark": {"type": "rule", "color": MARK, "strokeDash": [4, 3], "strokeWidth": 1.5},
            "encoding": {"x": x, "description": {"field": "mark"}},
        },
    ]
    return {"width": WIDTH, "height": 130, "data": {"values": rows}, "layer": layers}
