"""The Go benchmark format, which benchstat reads, and the Bencher Metric Format."""

from __future__ import annotations

import json
import re

from tpgate.measure.definitions import METRICS
from tpgate.report.folder import Stored, figures, medians
from tpgate.units import Better


def go_benchmark(stored: Stored) -> str:
    """Return the Go benchmark format: one line a cell and launch, with unit metadata and configuration keys.

    Two such files are compared with ``benchstat old.txt new.txt``; direction comes from the ``Unit`` lines.
    """
    result = stored.result
    last = result.launches[-1] if result.launches else None
    lines = [f"scenario: {_line(result.scenario)}", f"result-id: {_line(result.result_id)}"]
    if last is not None:
        keys = sorted(last.identity.keys.items())
        lines += [f"{'scenario-digest' if name == 'scenario' else _key(name)}: {_line(value)}" for name, value in keys]
        lines += [f"commit: {_line(last.commit)}"] if last.commit else []
    cells = figures(result)
    names = list(dict.fromkeys(name for metrics in cells.values() for name in metrics))
    for name in names:
        better = METRICS[name].better if name in METRICS else Better.NEITHER
        if better is not Better.NEITHER:
            lines.append(f"Unit {name} better={better}")
    for cell, metrics in cells.items():
        launches = max(len(values) for values in metrics.values())
        for index in range(launches):
            measured = [f"{values[index]!r} {name}" for name, values in metrics.items() if index < len(values)]
            lines.append(f"BenchmarkServing/cell={_word(cell)} 1 {' '.join(measured)}")
    return "\n".join(lines) + "\n"


def bencher_metric_format(stored: Stored) -> str:
    """Return the Bencher Metric Format: each median with the least and greatest launch as bounds."""
    document: dict[str, dict[str, dict[str, float]]] = {}
    for cell, metric, _, middle, values in medians(stored.result):
        measures = document.setdefault(f"{stored.result.scenario}/{cell}", {})
        measures[metric] = {"value": middle, "lower_value": min(values), "upper_value": max(values)}
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _key(text: object) -> str:
    """A configuration key: begins with a lower-case letter and holds neither space nor upper case."""
    key = _word(text).lower()
    return key if key[:1].isalpha() else f"key-{key}"


def _word(text: object) -> str:
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", str(text))


def _line(text: object) -> str:
    return re.sub(r"[\r\n\x00-\x1f]+", " ", str(text))
