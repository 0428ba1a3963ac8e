"""JSON documents: this package's own (docs/result.schema.json) and pytest-benchmark's."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

import msgspec

from tpgate import __version__
from tpgate.report.folder import Stored, medians

SCHEMA_ID = "tpgate/result.schema.json"


def _dump(document: object) -> str:
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def result_json(stored: Stored) -> str:
    """Return result and judgement as one JSON document that docs/result.schema.json describes."""
    return _dump(
        {
            "$schema": SCHEMA_ID,
            "tool": {"name": "tpgate", "version": __version__},
            "result": msgspec.to_builtins(stored.result),
            "judgement": None if stored.judgement is None else msgspec.to_builtins(stored.judgement),
        }
    )


def pytest_benchmark_json(stored: Stored) -> str:
    """Return what pytest-benchmark's compare command reads: only times, since it knows no other quantity.

    One value a launch; ``rounds`` is the number of launches. A time of 0 (a category without kernels) is left out: its
    reader forms the inverse of every time.
    """
    result = stored.result
    last = result.launches[-1] if result.launches else None
    benchmarks = [
        {
            "group": f"{result.scenario} {metric}",
            "name": f"{metric}[{cell}]",
            "fullname": f"{result.scenario}::{metric}[{cell}]",
            "params": {"cell": cell},
            "param": cell,
            "extra_info": {"unit": unit, "result_id": result.result_id},
            "options": {"disable_gc": False, "timer": "monotonic", "min_rounds": 1, "max_time": 0, "warmup": False},
            "stats": _stats(values),
        }
        for cell, metric, unit, _, values in medians(result)
        if unit in ("s", "s/token", "s/request") and min(values) > 0
    ]
    identity = last.identity if last else None
    return _dump(
        {
            "machine_info": {} if identity is None else {**identity.notes, **identity.keys},
            "commit_info": {"id": last.commit if last else None, "dirty": None, "branch": None},
            "benchmarks": benchmarks,
            "datetime": last.started_at if last else None,
            "version": "5.3.1",
        }
    )


def _stats(values: list[float]) -> dict[str, Any]:
    ordered = sorted(values)
    count = len(ordered)
    quarters = statistics.quantiles(ordered, n=4) if count > 1 else [ordered[0]] * 3
    middle = statistics.median(ordered)
    mean = math.fsum(ordered) / count
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": statistics.stdev(ordered) if count > 1 else 0,
        "rounds": count,
        "median": middle,
        "iqr": quarters[2] - quarters[0],
        "q1": quarters[0],
        "q3": quarters[2],
        "iqr_outliers": 0,
        "stddev_outliers": 0,
        "outliers": "0;0",
        "ld15iqr": ordered[0],
        "hd15iqr": ordered[-1],
        "ops": 1 / mean,
        "total": math.fsum(ordered),
        "data": values,
        "iterations": 1,
    }
