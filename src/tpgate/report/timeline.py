"""The chart of one cell over time: throughput, requests in flight and PCIe, with ramp and steady window marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from tpgate.measure.result import Window
from tpgate.report.charts import BAND, MARK, NOW, PALETTE, WIDTH, Spec, quantitative, scale_for

REACH = 4
"""Samples either way in the moving mean that is drawn over the raw throughput."""
_TRACKS = (
    ("tokens_per_second", "tok/s", 96, "linear"),
    ("running", "requests in flight", 56, "step"),
)


def timeline(series: Mapping[str, Sequence[float | None]], window: Window | None) -> Spec | None:
    """Return one cell's timeline; None where no series was kept.

    Args:
        series: ``t_s`` in seconds since the load began and, as long as it, ``tokens_per_second``, ``running`` and,
            where measured, ``pcie_tx`` and ``pcie_rx`` in B/s; None where a sample is missing.
        window: The steady window, or None where there was none.
    """
    times = series.get("t_s")
    if not times:
        return None
    end = max([float(time) for time in times if time is not None] + ([window.load_s] if window else []))
    scale = {"domain": [0, end], "nice": False}
    panels = [
        _panel(
            [_row(time, value) for time, value in zip(times, series[name], strict=False) if value is not None],
            label,
            height,
            scale,
            window,
            interpolate,
        )
        for name, label, height, interpolate in _TRACKS
        if series.get(name)
    ]
    panels += _pcie_panel(times, series, scale, window)
    if not panels:
        return None
    panels[-1]["layer"][-1]["encoding"]["x"]["axis"] = {"title": "seconds since the load began", "tickCount": 5}
    if window is not None:
        panels[0]["layer"].append(_names(window, end, scale))
    return {"vconcat": panels, "spacing": 22}


def _row(time: float | None, value: float) -> dict[str, Any]:
    return {"t": time, "v": value}


def _x(scale: Spec) -> Spec:
    return {"field": "t", "type": "quantitative", "scale": scale, "axis": {"title": None, "labels": False}}


def _shade(window: Window, scale: Spec) -> Spec:
    x = {"field": "start", "type": "quantitative", "scale": scale}
    return {
        "data": {"values": [{"start": window.start_s, "end": window.end_s}]},
        "mark": {"type": "rect", "color": BAND, "aria": False},
        "encoding": {"x": x, "x2": {"field": "end"}},
    }


def _panel(
    rows: list[dict[str, Any]], label: str, height: int, scale: Spec, window: Window | None, interpolate: str
) -> Spec:
    line: Spec = {
        "data": {"values": rows},
        "mark": {"type": "line", "strokeWidth": 1.5, "color": NOW, "interpolate": interpolate, "aria": False},
        "encoding": {"x": _x(scale), "y": quantitative("v", label, ticks=3)},
    }
    shade = [_shade(window, scale)] if window is not None else []
    smooth = [{**line, "data": {"values": _moving_mean(rows)}}] if interpolate == "linear" and len(rows) > 40 else []
    if smooth:
        line = {**line, "mark": {**line["mark"], "strokeWidth": 0.75, "opacity": 0.45}}
    return {"width": WIDTH, "height": height, "layer": [*shade, line, *smooth]}


def _moving_mean(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over nine samples: one that is as short as a decode step holds one or two of them and says little alone."""
    return [
        {**row, "v": fmean(near["v"] for near in rows[max(0, index - REACH) : index + REACH + 1])}
        for index, row in enumerate(rows)
    ]


def _names(window: Window, end: float, scale: Spec) -> Spec:
    """The words ramp, steady window and drain over their spans, where the span is wide enough for the word."""
    spans = (("ramp", 0.0, window.start_s), ("steady", window.start_s, window.end_s), ("drain", window.end_s, end))
    rows = [
        {"at": (start + stop) / 2, "name": name} for name, start, stop in spans if stop - start > 0.02 * len(name) * end
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "text", "y": -6, "fontSize": 10, "color": "var(--muted)", "aria": False},
        "encoding": {
            "x": {"field": "at", "type": "quantitative", "scale": scale},
            "text": {"field": "name", "type": "nominal"},
        },
    }


def _pcie_panel(
    times: Sequence[float | None], series: Mapping[str, Sequence[float | None]], scale: Spec, window: Window | None
) -> list[Spec]:
    rows = [
        {**_row(time, value), "way": way}
        for name, way in (("pcie_tx", "PCIe from the GPU"), ("pcie_rx", "PCIe to the GPU"))
        for time, value in zip(times, series.get(name) or (), strict=False)
        if value is not None
    ]
    if not rows:
        return []
    factor, label = scale_for(max(row["v"] for row in rows), "B/s")
    rows = [{**row, "v": row["v"] * factor} for row in rows]
    panel = _panel(rows, label, 70, scale, window, "monotone")
    panel["layer"][-1]["encoding"]["color"] = {
        "field": "way",
        "type": "nominal",
        "scale": {"range": [PALETTE[0], MARK]},
        "legend": {"symbolType": "stroke", "symbolStrokeWidth": 3, "columns": 2},
    }
    return [panel]
