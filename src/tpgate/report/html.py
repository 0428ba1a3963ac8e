"""The HTML report: one self-contained file a result, without scripts and without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpgate.errors import ConfigError
from tpgate.measure.definitions import METRICS
from tpgate.measure.result import Run
from tpgate.report import figures
from tpgate.report.charts import Spec, draw
from tpgate.report.details import profiles
from tpgate.report.files import links
from tpgate.report.folder import Bands, Stored, cell_names, concurrency_of, last_run
from tpgate.report.folder import figures as measured
from tpgate.report.kernel_bars import bars_of, kernel_time, rank_skew
from tpgate.report.rows import Row, basis, clean, format_share, rows_of, tally, unit_named
from tpgate.report.timeline import timeline
from tpgate.stats.verdict import Verdict
from tpgate.units import format_value

_OVER_CONCURRENCY = (
    ("output_tokens_per_second", "Output throughput"),
    ("tpot_p50", "Time per output token, median"),
    ("ttft_p50", "Time to first token, median"),
)
History = Mapping[str, Sequence[Mapping[str, Any]]]
"""``<cell> <metric>`` to points as :func:`tpgate.report.figures.history` takes them."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart with its caption; ``svg`` is trusted markup that :func:`tpgate.report.charts.draw` made."""

    caption: str
    svg: str
    note: str = ""


@dataclass
class _Drawer:
    """Draws charts with ids that are unique in the page."""

    count: int = 0

    def chart(self, spec: Spec | None, caption: str, description: str, note: str = "") -> list[Chart]:
        if spec is None:
            return []
        self.count += 1
        return [Chart(caption, draw(spec, title=caption, description=description, name=f"fig{self.count}"), note)]


@dataclass(frozen=True, slots=True)
class Extras:
    """What a report shows beside the result: the baseline's values, past results, the command to measure again."""

    bands: Bands = field(default_factory=dict)
    history: History = field(default_factory=dict)
    reproduce: str | None = None


def render(stored: Stored, extras: Extras | None = None) -> str:
    """Return the HTML page of a stored result.

    Raises:
        ConfigError: The report extra (jinja2, vl-convert) is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise ConfigError(
            "the HTML report needs jinja2, which is not installed",
            expected="the report extra",
            next_step="pip install 'tpgate[report]'",
        ) from None
    extras = extras or Extras()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tpgate.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
    )
    return environment.get_template("report.html.j2").render(_context(stored, extras))


def _context(stored: Stored, extras: Extras) -> dict[str, Any]:
    result, judgement = stored.result, stored.judgement
    drawer = _Drawer()
    last = result.launches[-1] if result.launches else None
    return {
        "result": result,
        "judgement": judgement,
        "verdict": judgement.verdict if judgement else None,
        "classes": {verdict: f"v-{verdict.name.lower().replace('_', '-')}" for verdict in Verdict},
        "rows": _said_once(rows_of(judgement.comparisons)) if judgement else [],
        "watched": _said_once(rows_of(judgement.observed)) if judgement else [],
        "tally": tally(judgement) if judgement else "not judged",
        "basis": basis(judgement) if judgement else "",
        "concurrency": _concurrency_charts(drawer, stored, extras.bands),
        "kernels": _kernel_charts(drawer, stored, extras.bands),
        "kernel_tables": _kernel_tables(stored),
        "timelines": _timelines(drawer, stored),
        "ranks": _rank_charts(drawer, stored),
        "history": _history_charts(drawer, stored, extras),
        "identity": last.identity if last else None,
        "last": last,
        "facts": _facts(stored),
        "traces": links(stored),
        "reproduce": extras.reproduce,
    }


def _said_once(rows: list[Row]) -> list[tuple[Row, bool]]:
    """Rows, each with whether its reason is the one of the row above."""
    above = [None, *(row.reason for row in rows)]
    return [(row, row.reason == reason) for row, reason in zip(rows, above, strict=False)]


def _facts(stored: Stored) -> list[tuple[str, str, str]]:
    """(cell, metric, value) of everything that was measured on the last run of each cell, absent ones with reason."""
    found = []
    for cell in cell_names(stored.result):
        run = last_run(stored.result, cell)
        for name, value in (run.values if run else {}).items():
            shown = format_value(value.value, unit_named(value.unit))
            found.append((cell, name, f"{shown} ({clean(value.reason)})" if value.reason else shown))
    return found


def _concurrency_charts(drawer: _Drawer, stored: Stored, bands: Bands) -> list[Chart]:
    now = measured(stored.result)
    charts: list[Chart] = []
    for name, caption in _OVER_CONCURRENCY:
        symbol = METRICS[name].unit.symbol
        spec = figures.over_concurrency(name, symbol, now, bands)
        words = "; ".join(
            f"{cell} {format_value(sum(values[name]) / len(values[name]), unit_named(symbol))}"
            for cell, values in now.items()
            if name in values and concurrency_of(cell)
        )
        charts += drawer.chart(spec, caption, f"Now: {words}.", f"{METRICS[name].better} is better")
    return charts


def _runs(stored: Stored) -> list[tuple[str, Run]]:
    found = ((cell, last_run(stored.result, cell)) for cell in cell_names(stored.result))
    return [(cell, run) for cell, run in found if run is not None]


def _kernel_charts(drawer: _Drawer, stored: Stored, bands: Bands) -> list[Chart]:
    found = profiles(stored.result)
    idle = "; ".join(f"{cell}: GPU idle {format_share(1 - one.busy_share)} of the span" for cell, one in found.items())
    description = (
        "Time per output token by kind of kernel, stacked, for each profiled cell; idle time is the last part."
    )
    return drawer.chart(kernel_time(bars_of(found, bands)), "Kernel time per output token", description, idle)


def _kernel_tables(stored: Stored) -> list[dict[str, Any]]:
    token, second = unit_named("s/token"), unit_named("s")
    tables = []
    for cell, one in profiles(stored.result).items():
        names = sorted({*one.parts, *one.shares}, key=lambda name: -one.parts.get(name, one.shares.get(name, 0.0)))
        categories = [
            (name, format_value(one.parts.get(name), token), format_share(one.shares.get(name))) for name in names
        ]
        top = [(name, category, format_value(seconds, second)) for name, category, seconds in one.top]
        tables.append({"cell": cell, "categories": categories, "top": top})
    return tables


def _series(run: Run) -> Mapping[str, Any]:
    series = run.details.get("timeline")
    return series if isinstance(series, dict) else {}


def _timelines(drawer: _Drawer, stored: Stored) -> list[Chart]:
    charts: list[Chart] = []
    for cell, run in _runs(stored):
        spec = timeline(_series(run), run.window)
        window = run.window
        note = f"steady from {window.start_s:.2f} to {window.end_s:.2f} s" if window else "no steady window was found"
        charts += drawer.chart(spec, f"{cell} over time", f"Throughput and requests in flight of {cell}; {note}.", note)
    return charts


def _rank_charts(drawer: _Drawer, stored: Stored) -> list[Chart]:
    charts: list[Chart] = []
    for cell, one in profiles(stored.result).items():
        words = "; ".join(f"{rank.name} waits {format_value(rank.wait_s, unit_named('s'))}" for rank in one.ranks)
        note = f"the others wait for {one.straggler}" if one.straggler else "no rank stands out as the straggler"
        charts += drawer.chart(rank_skew(one.ranks), f"Ranks of {cell}, over the capture", words, note)
    return charts


def _history_charts(drawer: _Drawer, stored: Stored, extras: Extras) -> list[Chart]:
    charts: list[Chart] = []
    for name, points in extras.history.items():
        cell, _, metric = name.partition(" ")
        symbol = METRICS[metric].unit.symbol if metric in METRICS else "count"
        spec = figures.history(points, symbol, extras.bands.get(cell, {}).get(metric, ()))
        marks = [str(point["mark"]) for point in points if point.get("mark")]
        charts += drawer.chart(spec, name, f"{len(points)} results of {name}.", "; ".join(marks))
    return charts
