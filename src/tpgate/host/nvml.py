"""NVML through a thin typed wrapper: the only module that imports pynvml, and only when a function is called.

A reading is a value or :class:`Missing` with the reason; an absent library, a driver mismatch or an unsupported
reading never raises and is never 0. GPUs are named by UUID: NVML's order, CUDA's order and CUDA_VISIBLE_DEVICES differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

ALL_ONES = (1 << 64) - 1
"""What some stacks return for a reading they do not have; never a value."""

_FIELD_ENERGY, _FIELD_TX, _FIELD_RX = 83, 197, 198
_FIELD_NVLINK_TX, _FIELD_NVLINK_RX = 138, 139
_ALL_LINKS = 0xFFFFFFFF
_UNSIGNED_INT = 1
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_P2P_READ, _P2P_NVLINK = 0, 2
_XID = 0x8
_DRIVER_ADVICE = {
    12: "is the NVIDIA driver installed, and does this container see it (--gpus all)?",
    9: "load the NVIDIA driver (modprobe nvidia)",
    18: "the driver was updated under a running kernel module: reboot, or reload the module",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """A reading that is not there.

    Attributes:
        reason: Why.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML names it.

    Attributes:
        uuid: The name that stays, whatever the order.
        name: Model, such as ``NVIDIA H200``.
        index: Position in NVML's order; for people, never for mapping.
        bus_id: PCI bus id.
        memory_bytes: Installed memory in B; None where it could not be read.
    """

    uuid: str
    name: str
    index: int
    bus_id: str = ""
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """Cumulative counters of one reading.

    Attributes:
        tx: Bytes that the GPU sent over PCIe since some moment, modulo ``2**bits``; None where unsupported.
        rx: Bytes that it received.
        energy_mj: Energy in mJ since the driver was loaded; None where unsupported.
        bits: Width of the byte counters as NVML declares it, 32 or 64.
    """

    tx: int | None
    rx: int | None
    energy_mj: int | None
    bits: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a GPU, its memory None where the driver does not say. Containers may see the host's PIDs."""

    pid: int
    memory_bytes: int | None


@dataclass(slots=True)
class Library:
    """NVML, initialised. Close it, or use it as a context manager."""

    nvml: Any
    handles: dict[str, Any] = field(default_factory=dict)
    events: Any = None

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the library back."""
        self._call("nvmlShutdown")

    def _call(self, function: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML answers
        call: Callable[..., Any] | None = getattr(self.nvml, function, None)
        if call is None:
            return Missing(f"{function}: this nvidia-ml-py does not know it")
        try:
            value = call(*arguments)
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError) as error:
            return Missing(f"{function}: {error}")
        if value == ALL_ONES:
            return Missing(f"{function}: answered all ones, which is no value")
        return value.decode() if isinstance(value, bytes) else value

    def _read(self, function: str, gpu: Gpu, *arguments: object) -> Any:  # noqa: ANN401
        return self._call(function, self.handles[gpu.uuid], *arguments)

    def driver(self) -> str | Missing:
        """Return the driver's version."""
        return self._call("nvmlSystemGetDriverVersion")  # type: ignore[no-any-return]

    def cuda(self) -> str | Missing:
        """Return the newest CUDA version that the driver supports, such as ``13.0``."""
        value = self._call("nvmlSystemGetCudaDriverVersion")
        return value if isinstance(value, Missing) else f"{value // 1000}.{value % 1000 // 10}"

    def gpus(self) -> list[Gpu] | Missing:
        """Return the GPUs that can be read, in NVML's order; one that is lost makes the whole answer missing."""
        count = self._call("nvmlDeviceGetCount")
        if isinstance(count, Missing):
            return count
        found = []
        for index in range(count):
            handle = self._call("nvmlDeviceGetHandleByIndex", index)
            uuid = handle if isinstance(handle, Missing) else self._call("nvmlDeviceGetUUID", handle)
            if isinstance(uuid, Missing):
                return Missing(f"GPU {index} cannot be read ({uuid.reason})")
            self.handles[uuid] = handle
            name, pci = self._call("nvmlDeviceGetName", handle), self._call("nvmlDeviceGetPciInfo", handle)
            memory = self._call("nvmlDeviceGetMemoryInfo", handle)
            found.append(
                Gpu(
                    uuid,
                    "unknown GPU" if isinstance(name, Missing) else name,
                    index,
                    "" if isinstance(pci, Missing) else str(pci.busId),
                    None if isinstance(memory, Missing) else int(memory.total),
                )
            )
        return found

    def counters(self, gpu: Gpu) -> Fields | Missing:
        """Return PCIe bytes each way and energy in one call; the hot reading."""
        values = self._read("nvmlDeviceGetFieldValues", gpu, [_FIELD_TX, _FIELD_RX, _FIELD_ENERGY])
        if isinstance(values, Missing):
            return values
        tx, rx, energy = (_field(value) for value in values)
        return Fields(tx, rx, energy, 32 if values[0].valueType == _UNSIGNED_INT else 64)

    def nvlink_bytes(self, gpu: Gpu) -> tuple[int, int] | Missing:
        """Return payload bytes (sent, received) over all NVLinks since some moment."""
        ids = [(_FIELD_NVLINK_TX, _ALL_LINKS), (_FIELD_NVLINK_RX, _ALL_LINKS)]
        values = self._read("nvmlDeviceGetFieldValues", gpu, ids)
        if isinstance(values, Missing):
            return values
        tx, rx = _field(values[0]), _field(values[1])
        if tx is None or rx is None:
            return Missing("NVLink byte counters are not supported here")
        return tx * 1024, rx * 1024

    def throughput(self, gpu: Gpu, *, sent: bool) -> float | Missing:
        """Return NVML's own PCIe rate in B/s over a window of 20 ms; the call blocks for about that long."""
        value = self._read("nvmlDeviceGetPcieThroughput", gpu, 0 if sent else 1)
        return value if isinstance(value, Missing) else value * 1000.0

    def number(self, gpu: Gpu, name: str) -> float | Missing:
        """Return one of :data:`READINGS` in its base unit."""
        function, arguments, scale = READINGS[name]
        value = self._read(function, gpu, *arguments)
        return value if isinstance(value, Missing) else float(value) * scale

    def throttle(self, gpu: Gpu) -> int | Missing:
        """Return the bit mask of reasons why the clocks are lower than they could be."""
        value = self._read("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        if isinstance(value, Missing):
            value = self._read("nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
        return value  # type: ignore[no-any-return]

    def thermal_violation_ns(self, gpu: Gpu) -> int | Missing:
        """Return the time for which heat has held the clocks down, in ns since the driver was loaded."""
        value = self._read("nvmlDeviceGetViolationStatus", gpu, 1)
        return value if isinstance(value, Missing) else int(value.violationTime)

    def memory_used(self, gpu: Gpu) -> int | Missing:
        """Return used memory in B, the driver's own part included."""
        value = self._read("nvmlDeviceGetMemoryInfo", gpu)
        return value if isinstance(value, Missing) else int(value.used)

    def processes(self, gpu: Gpu) -> list[Process] | Missing:
        """Return the compute and graphics processes on the GPU."""
        found: dict[int, Process] = {}
        for kind in ("Compute", "Graphics"):
            rows = self._read(f"nvmlDeviceGet{kind}RunningProcesses", gpu)
            if isinstance(rows, Missing):
                if kind == "Compute":
                    return rows
                continue
            for row in rows:
                used = row.usedGpuMemory
                found[row.pid] = Process(row.pid, None if used in (None, ALL_ONES) else int(used))
        return list(found.values())

    def mode(self, gpu: Gpu, name: str) -> bool | Missing:
        """Return whether ``Mig`` or ``Ecc`` mode is on now, or ``Persistence`` mode."""
        value = self._read(f"nvmlDeviceGet{name}Mode", gpu)
        if isinstance(value, Missing):
            return value
        return bool(value[0] if isinstance(value, list) else value)

    def p2p(self, first: Gpu, second: Gpu, *, nvlink: bool = False) -> bool | Missing:
        """Return whether two GPUs read each other's memory directly, or do so over NVLink."""
        other = self.handles[second.uuid]
        value = self._read("nvmlDeviceGetP2PStatus", first, other, _P2P_NVLINK if nvlink else _P2P_READ)
        return value if isinstance(value, Missing) else value == 0

    def ancestor(self, first: Gpu, second: Gpu) -> int | Missing:
        """Return the level at which two GPUs meet: 0, 10 one switch, 20 switches, 30 bridge, 40 node, 50 system."""
        return self._read("nvmlDeviceGetTopologyCommonAncestor", first, self.handles[second.uuid])  # type: ignore[no-any-return]

    def watch_xids(self, gpus: Sequence[Gpu]) -> Missing | None:
        """Begin to collect XID errors of some GPUs; None where it works."""
        events = self._call("nvmlEventSetCreate")
        if isinstance(events, Missing):
            return events
        for gpu in gpus:
            failed = self._call("nvmlDeviceRegisterEvents", self.handles[gpu.uuid], _XID, events)
            if isinstance(failed, Missing):
                return failed
        self.events = events
        return None

    def xid(self) -> int | None:
        """Return the next XID error that came since the last call, without waiting; None where there is none."""
        if self.events is None:
            return None
        event = self._call("nvmlEventSetWait", self.events, 0)
        return None if isinstance(event, Missing) or event.eventType != _XID else int(event.eventData)


READINGS: dict[str, tuple[str, tuple[int, ...], float]] = {
    "link_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", (), 1.0),
    "link_width": ("nvmlDeviceGetCurrPcieLinkWidth", (), 1.0),
    "link_generation_max": ("nvmlDeviceGetMaxPcieLinkGeneration", (), 1.0),
    "link_width_max": ("nvmlDeviceGetMaxPcieLinkWidth", (), 1.0),
    "link_generation_device": ("nvmlDeviceGetGpuMaxPcieLinkGeneration", (), 1.0),
    "sm_hz": ("nvmlDeviceGetClockInfo", (1,), 1e6),
    "memory_hz": ("nvmlDeviceGetClockInfo", (2,), 1e6),
    "sm_hz_max": ("nvmlDeviceGetMaxClockInfo", (1,), 1e6),
    "power_w": ("nvmlDeviceGetPowerUsage", (), 1e-3),
    "power_limit_w": ("nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    "power_default_w": ("nvmlDeviceGetPowerManagementDefaultLimit", (), 1e-3),
    "temperature_c": ("nvmlDeviceGetTemperature", (0,), 1.0),
    "replays": ("nvmlDeviceGetPcieReplayCounter", (), 1.0),
    "ecc_uncorrected": ("nvmlDeviceGetTotalEccErrors", (1, 0), 1.0),
}
"""Name to NVML function, its arguments after the handle, and the factor to the base unit."""


def _field(value: Any) -> int | None:  # noqa: ANN401 - a ctypes structure
    """The number in one field value by its declared type, or None where NVML answers an error or all ones."""
    if value.nvmlReturn != 0:
        return None
    number = int(getattr(value.value, _VALUE_FIELDS[value.valueType]))
    return None if number == ALL_ONES or number < 0 else number


def open_library() -> Library | Missing:
    """Return NVML, initialised, or the reason why there is none."""
    try:
        import pynvml
    except ImportError as error:
        return Missing(f"nvidia-ml-py is not installed ({error}); pip install nvidia-ml-py")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        advice = _DRIVER_ADVICE.get(getattr(error, "value", 0))
        words = str(error) if str(error).startswith("NVML") else f"NVML: {error}"
        return Missing(words + (f"; {advice}" if advice else ""))
    return Library(pynvml)


def devices() -> list[Gpu] | Missing:
    """Return the GPUs of this machine, or the reason why none can be read."""
    library = open_library()
    if isinstance(library, Missing):
        return library
    with library:
        return library.gpus()
