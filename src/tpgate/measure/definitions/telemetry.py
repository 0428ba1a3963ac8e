"""Metrics that come from the telemetry sampler: PCIe, NVLink, power, clocks."""

from __future__ import annotations

from tpgate.measure.definitions.base import MetricDef

METRICS: tuple[MetricDef, ...] = ()
