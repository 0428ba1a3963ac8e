"""PCIe bytes of one GPU and direction over a window: a number, or the sensor's fault as a reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpgate.host.counters import Unwrapped
from tpgate.host.telemetry import GpuTelemetry
from tpgate.units import BYTES_PER_SECOND, format_value

LEAST_INTERVALS = 5
UNKNOWN_SHARE = 0.02
"""Share of a window in which bytes may be unknown before there is no figure."""
STILL_S = 2.0
"""Seconds without a single byte, under load, after which a counter is called stuck."""
_CHECKS = 8
_CHECK_RATE = 10e6
_CHECK_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one GPU sent or received over a window.

    Attributes:
        total: Bytes; where up to 2 % of the window is unknown, scaled from the known part.
        rates: B/s of every interval between two readings.
        unknown: Share of the window that was scaled.
        wraps: Times that the counter passed its end.
        check_ratio: Counter over NVML's own rate, in the same spans; None where too little was read.
    """

    total: float
    rates: npt.NDArray[np.float64]
    unknown: float
    wraps: int
    check_ratio: float | None


def traffic(gpu: GpuTelemetry, way: str, start_ns: int, end_ns: int, *, tokens: int) -> Traffic | str:
    """Return the bytes that ``gpu`` moved between two moments, or why there is no figure.

    A GPU that serves tokens moves bytes both ways all the time: the host launches its kernels and reads its results. A
    counter that does not move is a fault of the sensor, not an idle link.

    Args:
        gpu: What was read of it.
        way: ``tx`` or ``rx``.
        start_ns: Monotonic start of the window.
        end_ns: Its end.
        tokens: Output tokens in the window; with none, a counter may stand still.
    """
    column = gpu.counters.get(way)
    if column is None or not len(column) or bool(np.all(column < 0)):
        return gpu.missing.get("counters", "this GPU or driver gives no PCIe byte counter")
    bytes_of = gpu.bytes_of(way)
    rates = bytes_of.rates(start_ns, end_ns)
    total, unknown = bytes_of.between(start_ns, end_ns)
    if unknown > UNKNOWN_SHARE:
        return (
            f"PCIe bytes are unknown in {unknown:.1%} of the window ({bytes_of.ambiguous} intervals too long for a "
            f"{gpu.bits}-bit counter, {bytes_of.implausible} over the link's capacity)"
        )
    if len(rates) < LEAST_INTERVALS:
        return f"{len(rates)} readings of the PCIe counter in the window, {LEAST_INTERVALS} are needed"
    if tokens > 0 and total == 0:
        return f"sensor fault: the PCIe counter stood still while {tokens} tokens were served"
    still = bytes_of.longest_still_s(start_ns, end_ns)
    if tokens > 0 and still >= STILL_S:
        return f"sensor fault: the PCIe counter stood still for {still:.1f} s under load"
    ratio = cross_check(gpu, way, bytes_of)
    if ratio is not None and not 1 / _CHECK_FACTOR <= ratio <= _CHECK_FACTOR:
        return f"sensor fault: the PCIe counter says {ratio:.2g} times what nvmlDeviceGetPcieThroughput says"
    return Traffic(total / (1 - unknown), rates, unknown, bytes_of.wraps, ratio)


def cross_check(gpu: GpuTelemetry, way: str, counter: Unwrapped) -> float | None:
    """Return the counter's bytes over NVML's own rate, summed over the same spans; None with too few busy samples."""
    check = gpu.check
    if not len(check.get("rate", ())):
        return None
    mine = theirs = 0.0
    used = 0
    for begin, end, sent, rate in zip(check["begin_ns"], check["end_ns"], check["sent"], check["rate"], strict=True):
        moved, unknown = counter.between(int(begin), int(end))
        if bool(sent) != (way == "tx") or not np.isfinite(rate) or unknown > 0.01:
            continue
        seconds = (end - begin) / 1e9
        mine, theirs, used = mine + moved, theirs + rate * seconds, used + 1
    seconds = float(np.sum(check["end_ns"] - check["begin_ns"])) / 1e9
    if used < _CHECKS or max(mine, theirs) < _CHECK_RATE * seconds / 2:
        return None
    return mine / theirs if theirs > 0 else float("inf")


def busiest(found: dict[str, Traffic | str]) -> tuple[str, Traffic] | str:
    """Return the GPU with the most bytes, or the first reason where any of them has no figure."""
    known: dict[str, Traffic] = {}
    for name, item in found.items():
        if isinstance(item, str):
            return f"{name}: {item}"
        known[name] = item
    if not known:
        return "no GPU was read"
    name = max(known, key=lambda key: known[key].total)
    return name, known[name]


def shown(rate: float) -> str:
    """Return B/s for people."""
    return format_value(rate, BYTES_PER_SECOND)
