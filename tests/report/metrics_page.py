# ruff: noqa: E501
"""docs/metrics.md: written words around tables that come from the definitions.

Make it again with ``python tests/report/metrics_page.py``; a test keeps it equal to the code.
"""

from __future__ import annotations

from pathlib import Path

from tpgate.measure.definitions import METRICS, MetricDef

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TITLES = {
    "client": "Measured by the load client",
    "scenario": "Across the cells of a scenario",
    "trace": "From profiler traces",
    "telemetry": "From GPU counters",
    "kernel": "Kernels and collectives on their own",
}
HEAD = """# Metrics

<!-- Made by tests/report/metrics_page.py from src/tpgate/measure/definitions; a test keeps the two equal. -->

Values are stored in base units (s, B, token, W, J; a share is a fraction from 0 to 1) and scaled only when they are
shown. A value that could not be measured is absent, with the reason; it is never 0.

| term | meaning |
|:--|:--|
| request start | the moment the request's first byte is written on a connection that is open already |
| TTFT | first chunk with at least one output token, minus request start: queueing, prefill and transport are in it |
| TPOT | of a request, (t_last - t_first) / (n_last - n_first), n the cumulative token counts of its token-bearing chunks |
| inter-chunk latency | gap between token-bearing chunks, raw; it is an inter-token latency only where a chunk holds one token |
| E2E latency | last token-bearing chunk minus request start |
| steady window | the span in which achieved concurrency stays at the target; the ramp before it and the drain after it are cut |
| run, launch | a run is one measured pass of a cell; a launch is one server life. Statistics compare launches, never requests |
| GPU busy time | union of all kernel and memory-copy intervals of a rank over every stream |
| share | union of a category's intervals / GPU busy time. It can rise because something else got faster: see the time per token |
| time per token | union of a category's intervals / tokens decoded in the profiled steps: the absolute figure beside a share |
| effect | relative change, signed so that positive is worse |
| tolerance | largest worsening that the scenario's owner accepts |
| bar | worsening at which a comparison says REGRESSED: the tolerance, widened where measured noise demands it |
| MDE | smallest true worsening that the launches at hand detect; above the tolerance a check is INCONCLUSIVE, not green |

In the tables, *noise floor* is the smallest relative spread that is believed, whatever few launches say; *needs* is the
number of samples below which the metric is absent; *floor* is the change in base units below which a worsening is no
regression. Two metrics with different *estimator* numbers are never compared.
"""


def row(metric: MetricDef) -> str:
    """One line of a table."""
    floor = f"{metric.absolute_floor:g}" if metric.absolute_floor else ""
    formula = metric.formula.replace("|", "\\|")
    cells = (
        f'<a id="{metric.name}"></a>`{metric.name}`',
        metric.unit.symbol,
        str(metric.better),
        formula,
        f"{metric.noise_floor:.1%}",
        str(metric.minimum_samples),
        floor,
        str(metric.estimator),
    )
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The text of docs/metrics.md."""
    parts = [HEAD]
    for source, title in TITLES.items():
        rows = [row(metric) for metric in METRICS.values() if metric.source == source]
        if rows:
            head = "| metric | unit | better | formula | noise floor | needs | floor | estimator |"
            parts.append("\n".join([f"## {title}", "", head, "|:--|:--|:--|:--|--:|--:|--:|--:|", *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
