"""The timeline of a run with the PCIe traffic of its busiest GPU beside throughput and requests in flight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def with_pcie(line: Mapping[str, Any], summary: Mapping[str, Any], window_start_s: float) -> dict[str, Any]:
    """Return a timeline with ``pcie_tx`` and ``pcie_rx`` in B/s, as long as ``t_s``; None outside the steady window.

    Args:
        line: ``t_s`` and the series beside it, in seconds since the load began.
        summary: What telemetry says of the window: per GPU ``seconds`` since its start and the PCIe series.
        window_start_s: Start of the window, in seconds since the load began.
    """
    made = dict(line)
    for way in ("pcie_tx", "pcie_rx"):
        series = [gpu for gpu in summary.get("gpus", ()) if gpu.get(way) and gpu.get("seconds")]
        if not series:
            continue
        busiest = max(series, key=lambda gpu: sum(value or 0.0 for value in gpu[way]))
        starts = np.asarray(busiest["seconds"], np.float64) + window_start_s
        width = float(starts[1] - starts[0]) if len(starts) > 1 else 0.0
        at = np.searchsorted(starts, line["t_s"], "right") - 1
        inside = [0 <= i < len(starts) and t <= starts[-1] + width for i, t in zip(at, line["t_s"], strict=True)]
        made[way] = [busiest[way][int(i)] if ok else None for i, ok in zip(at, inside, strict=True)]
    return made
