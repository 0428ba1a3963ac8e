"""What the kernels' measurements bring: plain values, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tpgate.kernels.collective_cases import CollectiveTiming
from tpgate.kernels.roofline import Peaks
from tpgate.kernels.shapes import MlaShape


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """One kernel on one shape: checked first, then timed.

    Attributes:
        kernel: ``naive``, ``shared``, ``hopper`` or the name of somebody else's kernel.
        shape: The shape.
        tile: Name of its tile, or None for somebody else's kernel.
        samples_s: Seconds a call of each sample; a sample is one pass over all rotated inputs.
        sets: Rotated input sets.
        method: ``graph``, ``events`` or ``host``.
        error: Relative error against the float64 reference on fresh inputs, over all elements.
        row_error: Largest relative error of any row and head.
        requested_bytes: Bytes that its loads and stores ask for, counted from grid and tile, or None where unknown.
        clock_hz: Multiprocessor clock right behind the samples, or None where it cannot be read.
    """

    kernel: str
    shape: MlaShape
    tile: str | None
    samples_s: tuple[float, ...]
    sets: int
    method: str
    error: float
    row_error: float
    requested_bytes: int | None
    clock_hz: float | None

    @property
    def median_s(self) -> float:
        """Median seconds a call."""
        return median(self.samples_s)

    @property
    def reread_factor(self) -> float | None:
        """Bytes asked for over the fewest bytes that do, or None where the former are unknown."""
        return None if self.requested_bytes is None else self.requested_bytes / self.shape.least_bytes


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """All kernels of one shape, measured in turn in one process.

    Attributes:
        shape: The shape.
        fast: The head-shared kernel that this package would choose.
        naive: The naive one, or None where it was not measured.
        others: Other people's kernels.
        absent: Kernels that were asked for and are not there: name to reason.
    """

    shape: MlaShape
    fast: KernelTiming
    naive: KernelTiming | None = None
    others: tuple[KernelTiming, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSession:
    """What one process measured.

    Attributes:
        device_name: Name that the driver gives the device.
        device_uuid: Its UUID, or None on the CPU.
        capability: Compute capability, or None on the CPU.
        peaks: Ceilings measured in this process.
        shapes: Results by shape.
        collectives: Results of collectives.
        versions: Versions of what moves the numbers: torch, triton, cuda.
    """

    device_name: str
    device_uuid: str | None
    capability: str | None
    peaks: Peaks
    shapes: tuple[ShapeResult, ...]
    collectives: tuple[CollectiveTiming, ...]
    versions: tuple[tuple[str, str], ...]
