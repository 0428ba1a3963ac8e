"""Ceilings of a device, and the roofline bound of a shape; :mod:`tpgate.kernels.ceilings` measures the former."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tpgate.kernels.shapes import MlaShape


@dataclass(frozen=True, slots=True)
class Peaks:
    """Two ceilings of a device.

    Attributes:
        bytes_per_s: Device memory traffic, bytes read plus bytes written.
        flops_per_s: Dense bfloat16 matrix products accumulated in float32.
        source: Where the figures come from.
    """

    bytes_per_s: float
    flops_per_s: float
    source: str


DATASHEET = {
    "NVIDIA H100 80GB HBM3": Peaks(3.35e12, 989e12, "NVIDIA H100 datasheet, SXM column, read 2026-12-01"),
    "NVIDIA H200": Peaks(4.8e12, 989e12, "NVIDIA H200 datasheet, SXM column, read 2026-12-01"),
    "NVIDIA B200": Peaks(8.0e12, 2250e12, "NVIDIA HGX B200 datasheet, one GPU of eight, read 2026-12-01"),
}
"""Datasheet ceilings by the name that the driver gives; dense rates, without structured sparsity."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time that a shape can take on a device.

    Attributes:
        seconds: The larger of arithmetic and traffic time.
        limit: Which of the two it is.
        flops_s: Arithmetic time.
        bytes_s: Traffic time.
    """

    seconds: float
    limit: Literal["arithmetic", "memory"]
    flops_s: float
    bytes_s: float


def bound_of(shape: MlaShape, peaks: Peaks) -> Bound:
    """Return the roofline bound: ``max(flops / peak rate, least bytes / peak bandwidth)`` (Williams et al., 2009)."""
    flops_s = shape.flops / peaks.flops_per_s
    bytes_s = shape.least_bytes / peaks.bytes_per_s
    return Bound(max(flops_s, bytes_s), "arithmetic" if flops_s > bytes_s else "memory", flops_s, bytes_s)


def datasheet_of(device_name: str) -> Peaks | None:
    """Return the datasheet ceilings of the device that the driver calls ``device_name``, or None where unlisted."""
    return DATASHEET.get(device_name)
