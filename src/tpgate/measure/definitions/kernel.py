"""Metrics of kernels and collectives measured on their own."""

from __future__ import annotations

from tpgate.measure.definitions.base import MetricDef

METRICS: tuple[MetricDef, ...] = ()
