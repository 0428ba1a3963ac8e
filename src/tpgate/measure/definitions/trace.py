"""Metrics that come from profiler traces of every tensor-parallel rank."""

from __future__ import annotations

from tpgate.measure.definitions.base import MetricDef

METRICS: tuple[MetricDef, ...] = ()
