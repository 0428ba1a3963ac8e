"""Draw a Vega-Lite specification as inline SVG: crisp, in the page's own colours, readable by a screen reader.

Vega-Lite draws through vl-convert, without a browser, a network or a script in the page. Colours are the page's CSS
variables, so that one drawing serves a light and a dark page.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from tpgate.errors import ConfigError

Spec = dict[str, Any]

PALETTE = tuple(f"var(--s{index})" for index in range(1, 9))
"""Colours of series, in order."""
NOW, BASELINE, BAND, MUTED, MARK = "var(--now)", "var(--base)", "var(--band)", "var(--muted)", "var(--mark)"
WIDTH = 330
"""Width of the plotted area in px; small enough that a phone shows the text at its full size."""
_VERSION = "5.20"
_AXIS = {
    "labelColor": "var(--muted)",
    "titleColor": "var(--muted)",
    "gridColor": "var(--grid)",
    "domainColor": "var(--axis)",
    "tickColor": "var(--axis)",
    "labelFontSize": 11,
    "titleFontSize": 11,
    "titleFontWeight": "normal",
    "tickSize": 4,
    "gridWidth": 1,
    "labelFlush": False,
}
_CONFIG: Spec = {
    "background": "transparent",
    "font": "inherit",
    "view": {"stroke": None},
    "axis": _AXIS,
    "axisY": {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "start", "titleX": -34, "titleY": -10},
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 11,
        "title": None,
        "orient": "bottom",
        "columns": 3,
        "symbolSize": 70,
        "symbolStrokeWidth": 0,
        "columnPadding": 12,
        "labelLimit": 130,
        "offset": 8,
    },
    "concat": {"spacing": 14},
}
_LABELLED = re.compile(r'<(path|rect) aria-label="([^"]*)"([^>]*)/>')
_ID = re.compile(r'(id="|url\(#|href="#)((?:clip|gradient)[^")]*)')


def draw(spec: Spec, *, title: str, description: str, name: str) -> str:
    """Return inline SVG of a Vega-Lite specification.

    Args:
        spec: The specification, with its data inline.
        title: Accessible name of the drawing.
        description: What it shows in words and figures, for those who do not see it.
        name: Unique in the page; prefix of the ids inside.

    Raises:
        ConfigError: vl-convert is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise ConfigError(
            "charts need vl-convert-python, which is not installed",
            expected="the report extra",
            next_step="pip install 'tpgate[report]'",
        ) from None
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _CONFIG, **spec}
    svg = str(vl_convert.vegalite_to_svg(whole, vl_version=_VERSION, allowed_base_urls=[]))
    svg = _ID.sub(rf"\g<1>{name}-\g<2>", svg)
    svg = _LABELLED.sub(r'<\1 aria-label="\2"\3><title>\2</title></\1>', svg)
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{name}-t {name}-d" class="chart" '
        f'viewBox="0 0 {size[1]} {size[2]}" style="max-width:{size[1]}px">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
        if size
        else "<svg>"
    )
    return head + svg[svg.index(">") + 1 :]


def quantitative(field: str, title: str, *, scale: Spec | None = None, ticks: int = 4) -> Spec:
    """Return the encoding of a number on an axis with few, readable ticks."""
    more: Spec = {} if scale is None else {"scale": scale}
    return {"field": field, "type": "quantitative", "axis": {"title": title, "tickCount": ticks}, **more}


def scale_for(largest: float, symbol: str) -> tuple[float, str]:
    """Return (factor, label) by which values of a base unit become readable numbers on an axis.

    Seconds become ms or µs and bytes become kB, MB or GB, chosen by the largest value.
    """
    base, slash, rest = symbol.partition("/")
    if base not in ("s", "B", "FLOP"):
        return (100.0, "%") if symbol == "1" else (1.0, symbol.replace("token", "tok"))
    steps = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
    size, prefix = next((step for step in steps if abs(largest) >= step[0]), steps[-1])
    if base == "s" and size > 1:
        size, prefix = 1.0, ""
    if base == "B" and size < 1:
        size, prefix = 1.0, ""
    return 1 / size, f"{prefix}{base}{slash}{rest}".replace("token", "tok")
