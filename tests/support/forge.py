"""Results and baselines forged from plain numbers, so that every verdict can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from tpgate.baseline.assemble import assemble
from tpgate.baseline.schema import Baseline
from tpgate.measure.definitions import metric
from tpgate.measure.result import SCHEMA_VERSION, Doubt, Identity, Launch, Result, Run, Value

TODAY = date(2026, 3, 20)
KEYS = {"hardware": "nvidia-h200-x1", "gpu_count": 1, "engine_version": "0.5.15", "arguments_digest": "abc"}
THROUGHPUT = "output_tokens_per_second"
QUIET = (1000.0, 1004.0, 997.0, 1002.0, 995.0, 1001.0, 999.0, 1003.0, 998.0, 1000.5, 1002.5, 996.5)

Cells = Mapping[str, Mapping[str, float | None]]


def run(cell: str, values: Mapping[str, float | None], *, doubt: str | None = None, samples: int = 1000) -> Run:
    doubts = () if doubt is None else (Doubt(check=doubt, reason="seen", advice="look"),)
    stored = {
        name: Value.missing(name, "trace empty") if value is None else Value.of(name, value, samples)
        for name, value in values.items()
    }
    return Run(cell=cell, load_digest=f"load-{cell}", started_at="2026-03-01T00:00:00Z", values=stored, doubts=doubts)


def launch(number: int, cells: Cells, *, day: int | None = None, keys: Mapping | None = None, **more) -> Launch:
    stamp = f"2026-03-{(day or 1 + number % 4):02d}T{number % 24:02d}:00:00Z"
    runs = more.pop("runs", None) or {cell: run(cell, values) for cell, values in cells.items()}
    return Launch(
        launch_id=more.pop("launch_id", f"launch-{number}"),
        started_at=stamp,
        identity=Identity(keys=dict(KEYS | (keys or {})), notes=more.pop("notes", {"host": "a"})),
        runs=runs,
        commit="c0ffee",
        **more,
    )


def result(
    launches: Sequence[Launch],
    gates: Mapping[str, float] | Sequence[tuple] = {THROUGHPUT: 0.05},
    *,
    cells: Sequence[str] | None = None,
    **more,
) -> Result:
    declared = tuple((name, tol, (), None) for name, tol in gates.items()) if isinstance(gates, Mapping) else gates
    names = tuple(cells or (name for name in launches[0].runs if name != "scenario"))
    fields = {
        "schema_version": SCHEMA_VERSION,
        "result_id": "result-now",
        "scenario": "llama-8b-tp1",
        "scenario_digest": "d1",
        "cells": names,
        "gates": tuple(declared),
        "launches": tuple(launches),
    }
    return Result(**(fields | more))


def series(name: str, cells: Mapping[str, Sequence[float]], gates=None, *, first: int = 0, **more) -> Result:
    """A result whose launch i holds the i-th value of every cell."""
    count = len(next(iter(cells.values())))
    launches = [launch(first + i, {cell: {name: v[i]} for cell, v in cells.items()}) for i in range(count)]
    return result(launches, gates or {name: 0.05}, **more)


def baseline(name: str = THROUGHPUT, cells: Mapping[str, Sequence[float]] | None = None, gates=None) -> Baseline:
    return assemble([series(name, cells or {"c1": QUIET, "c4": QUIET}, gates, result_id="result-base")])


def scaled(values: Sequence[float], factor: float) -> tuple[float, ...]:
    return tuple(value * factor for value in values)


def now(factor: float | Mapping[str, float], *, count: int = 1, name: str = THROUGHPUT, gates=None, **more) -> Result:
    """Fresh launches of c1 and c4, ``factor`` times as large as the quiet baseline's middle."""
    factors = factor if isinstance(factor, Mapping) else {"c1": factor, "c4": factor}
    return series(name, {cell: [1000.0 * one] * count for cell, one in factors.items()}, gates, first=100, **more)


def level(name: str) -> float:
    """A plausible size of a metric, in its base unit."""
    definition = metric(name)
    size = {"s": 0.02, "s/token": 0.01, "s/request": 1e-4, "1": 0.2, "token/s": 1000.0, "B/s": 1e9}.get(
        definition.unit.symbol, 50.0
    )
    return max(size, 40 * definition.absolute_floor)
