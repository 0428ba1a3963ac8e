"""Machine formats of a stored result: one module a family, one function a format."""

from __future__ import annotations

from collections.abc import Callable

from tpgate.report.exports import benchmarks, documents, prometheus, tables
from tpgate.report.folder import Stored

EXPORTS: dict[str, Callable[[Stored], str]] = {
    "json": documents.result_json,
    "csv": tables.csv_text,
    "pytest-benchmark": documents.pytest_benchmark_json,
    "gobench": benchmarks.go_benchmark,
    "bmf": benchmarks.bencher_metric_format,
    "prometheus": prometheus.textfile,
}
"""Format name to the function that writes it; every text ends with a line end."""

__all__ = ["EXPORTS"]
