"""Telemetry made by hand: one healthy GPU or more, with a fault where a test wants one."""

from __future__ import annotations

import numpy as np

from tpgate.host.nvml import Gpu
from tpgate.host.sampler import RARE, STATE
from tpgate.host.telemetry import GpuTelemetry, Telemetry

SECOND = 1_000_000_000
HEALTHY = {
    "link_generation": 5, "link_width": 16, "sm_hz": 1.98e9, "memory_hz": 3.2e9, "power_w": 400.0,
    "temperature_c": 50, "throttle": 0, "memory_used": 100 << 30, "replays": 0, "ecc_uncorrected": 0,
    "thermal_violation_ns": 0, "nvlink_tx": np.nan, "nvlink_rx": np.nan,
}  # fmt: skip
ONCE = {
    "link_generation_max": 5.0, "link_width_max": 16.0, "link_generation_device": 5.0, "sm_hz_max": 1.98e9,
    "power_limit_w": 700.0, "power_default_w": 700.0,
}  # fmt: skip


def columns(names, seconds, hz, changes):
    count = round(seconds * hz) + 1
    times = np.arange(count) * SECOND / hz
    group = {"begin_ns": times, "end_ns": times}
    for name in names:
        value = changes.get(name, HEALTHY[name])
        group[name] = value(times / SECOND) if callable(value) else np.full(count, float(value))
    return group


def gpu(index=0, *, seconds=10.0, tx=16e6, rx=38e6, hz=50.0, processes=((4242,),), once=None, check=None, **changes):
    """One GPU; ``tx`` and ``rx`` are B/s or a function of seconds that gives cumulative bytes."""
    times = np.arange(round(seconds * hz) + 1, dtype=np.int64) * round(SECOND / hz)

    def counter(rate):
        total = rate(times / SECOND) if callable(rate) else rate * times / SECOND
        return np.asarray(total, np.float64).astype(np.int64) % 2**32

    power = changes.get("power_w", 400.0)
    counters = {"begin_ns": times, "end_ns": times, "tx": counter(tx), "rx": counter(rx)}
    energy = changes.pop("energy", True)
    counters["energy_mj"] = (power * times / 1e6).astype(np.int64) if energy else np.full(len(times), -1, np.int64)
    rows = [processes[min(at, len(processes) - 1)] for at in range(int(seconds) + 1)]
    return GpuTelemetry(
        gpu=Gpu(f"GPU-{index}", "NVIDIA H200", index),
        counters=counters,
        state=columns(STATE, seconds, 10, changes),
        rare=columns(RARE, seconds, 1, changes),
        check=check or {},
        processes=tuple((at * SECOND, tuple((pid, None) for pid in pids)) for at, pids in enumerate(rows)),
        once=ONCE | (once or {}),
    )


def telemetry(*gpus, topology="pcie p2p", **more):
    values = {"ended_ns": 10 * SECOND, "rate_hz": 50.0, "achieved_hz": 50.0, "cpu_share": 0.01} | more
    return Telemetry(gpus=tuple(gpus), topology=topology if len(gpus) > 1 else "single", **values)


def late(value, normal, since):
    """A column that is ``normal`` and becomes ``value`` from ``since`` seconds on."""
    return lambda seconds: np.where(seconds >= since, float(value), float(normal))
