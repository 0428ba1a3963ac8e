# ruff: noqa: N802, N815 - these are the names of the C library
"""A scripted NVML library behind pynvml's own loading hook, so that its ctypes structures are really filled.

The script is plain JSON, so that the same library can stand in a subprocess (``fake_site/sitecustomize.py``). PCIe
counters follow ``rate x time`` modulo ``2**bits``, or a list of readings that is used up one by one.
"""

from __future__ import annotations

import ctypes
import time
from ctypes import CFUNCTYPE, c_int, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

import pynvml
from nvml_script import gpu, script

__all__ = ["FakeNvml", "gpu", "install", "load", "script"]
MARKED = "marked"
"""Stands for the processes of a GPU: those that are marked with it in their environment."""
NOT_SUPPORTED, LIBRARY_NOT_FOUND, MISMATCH, GPU_LOST = 3, 12, 18, 15
ALL_ONES = (1 << 64) - 1


class FakeNvml:
    """Looks like the CDLL of libnvidia-ml.so.1."""

    def __init__(self, machine: dict[str, Any]) -> None:
        self.machine = machine
        self.born = machine.get("born", time.perf_counter())
        self.calls: dict[str, int] = {}
        self._kept: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        body = getattr(type(self), f"do_{name}", None)
        if body is None or name in self.machine.get("absent", ()):
            raise AttributeError(name)
        if name not in self._kept:
            types = SIGNATURES.get(name, (c_void_p, c_void_p))

            def answer(*arguments: Any) -> int:
                self.calls[name] = self.calls.get(name, 0) + 1
                return int(body(self, *arguments) or 0)

            self._kept[name] = CFUNCTYPE(c_int, *types)(answer)
        return self._kept[name]

    def of(self, handle: int) -> dict[str, Any]:
        return self.machine["gpus"][handle - 1]

    def do_nvmlInitWithFlags(self, flags: int) -> int:
        return self.machine["init"]

    def do_nvmlShutdown(self) -> int:
        return 0

    def do_nvmlSystemGetDriverVersion(self, text: int, size: int) -> None:
        _text(text, self.machine["driver"])

    def do_nvmlSystemGetCudaDriverVersion(self, out: int) -> None:
        c_int.from_address(out).value = self.machine["cuda"]

    def do_nvmlDeviceGetCount_v2(self, out: int) -> None:
        c_uint.from_address(out).value = len(self.machine["gpus"])

    def do_nvmlDeviceGetHandleByIndex_v2(self, index: int, out: int) -> int:
        if self.machine["gpus"][index].get("lost"):
            return GPU_LOST
        c_void_p.from_address(out).value = index + 1
        return 0

    def do_nvmlDeviceGetUUID(self, handle: int, text: int, size: int) -> None:
        _text(text, self.of(handle)["uuid"])

    def do_nvmlDeviceGetName(self, handle: int, text: int, size: int) -> None:
        _text(text, self.of(handle)["name"])

    def do_nvmlDeviceGetPciInfo_v3(self, handle: int, out: int) -> None:
        pynvml.nvmlPciInfo_t.from_address(out).busId = f"00000000:{handle:02X}:00.0".encode()

    def do_nvmlDeviceGetMemoryInfo(self, handle: int, out: int) -> None:
        memory, card = pynvml.c_nvmlMemory_t.from_address(out), self.of(handle)
        memory.total, memory.used = card["memory_total"], card["memory_used"]
        memory.free = memory.total - memory.used

    def do_nvmlDeviceGetFieldValues(self, handle: int, count: int, out: int) -> None:
        card, now = self.of(handle), time.perf_counter() - self.born
        for row in (pynvml.c_nvmlFieldValue_t * count).from_address(out):
            name = {197: "tx", 198: "rx", 83: "energy", 138: "nvlink_tx", 139: "nvlink_rx"}.get(row.fieldId)
            if (
                name is None
                or name in card["unsupported"]
                or (name.startswith("nvlink") and f"{name}_rate" not in card)
            ):
                row.nvmlReturn = NOT_SUPPORTED
                continue
            row.nvmlReturn = 0
            if name == "energy":
                number, kind = int(card["power_mw"] * now), 3
            elif name.startswith("nvlink"):
                number, kind = int(card[f"{name}_rate"] * now / 1024), 3
            else:
                number, kind = self.counter(card, name, now), card["value_type"]
            row.valueType = kind
            if kind == 1:
                row.value.uiVal = number
            else:
                row.value.ullVal = number

    def counter(self, card: dict[str, Any], name: str, now: float) -> int:
        series = card.get(f"{name}_series")
        if series:
            return series.pop(0) if len(series) > 1 else series[0]
        return (card["offset"] + int(card[f"{name}_rate"] * now)) % (1 << card["bits"])

    def do_nvmlDeviceGetPcieThroughput(self, handle: int, way: int, out: int) -> int:
        card = self.of(handle)
        if "throughput" in card["unsupported"]:
            return NOT_SUPPORTED
        time.sleep(card.get("throughput_blocks_s", 0.0))
        rate = card["rx_rate" if way else "tx_rate"] * card.get("throughput_factor", 1.0)
        c_uint.from_address(out).value = int(rate / 1000)
        return 0

    def do_nvmlDeviceGetComputeRunningProcesses_v3(self, handle: int, count: int, out: int | None) -> int:
        rows = self.of(handle)["processes"]
        if rows == MARKED:
            rows = [[pid, 1 << 30] for pid in marked(self.of(handle)["uuid"])]
        size = c_uint.from_address(count)
        if out is None or size.value < len(rows):
            size.value = len(rows)
            return 7 if rows else 0
        for slot, (pid, used) in zip((pynvml.c_nvmlProcessInfo_t * len(rows)).from_address(out), rows, strict=True):
            slot.pid, slot.usedGpuMemory = pid, ALL_ONES if used is None else used
        size.value = len(rows)
        return 0

    def do_nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: int, count: int, out: int | None) -> int:
        c_uint.from_address(count).value = 0
        return 0

    def do_nvmlDeviceGetMigMode(self, handle: int, now: int, then: int) -> int:
        if "mig" in self.of(handle)["unsupported"]:
            return NOT_SUPPORTED
        c_uint.from_address(now).value = self.of(handle)["mig"]
        return 0

    def do_nvmlDeviceGetEccMode(self, handle: int, now: int, then: int) -> None:
        c_uint.from_address(now).value = self.of(handle)["ecc"]

    def do_nvmlDeviceGetPersistenceMode(self, handle: int, out: int) -> None:
        c_uint.from_address(out).value = self.of(handle)["persistence"]

    def do_nvmlDeviceGetClockInfo(self, handle: int, kind: int, out: int) -> None:
        c_uint.from_address(out).value = self.of(handle)["sm_mhz" if kind == 1 else "memory_mhz"]

    def do_nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int, out: int) -> None:
        c_uint.from_address(out).value = self.of(handle)["sm_mhz_max"]

    def do_nvmlDeviceGetTemperature(self, handle: int, sensor: int, out: int) -> None:
        c_uint.from_address(out).value = self.of(handle)["temperature"]

    def do_nvmlDeviceGetCurrentClocksEventReasons(self, handle: int, out: int) -> int:
        if "throttle" in self.of(handle)["unsupported"]:
            return NOT_SUPPORTED
        c_ulonglong.from_address(out).value = self.of(handle)["throttle"]
        return 0

    do_nvmlDeviceGetCurrentClocksThrottleReasons = do_nvmlDeviceGetCurrentClocksEventReasons

    def do_nvmlDeviceGetViolationStatus(self, handle: int, policy: int, out: int) -> None:
        pynvml.c_nvmlViolationTime_t.from_address(out).violationTime = self.of(handle)["violation_ns"]

    def do_nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int, out: int) -> None:
        c_ulonglong.from_address(out).value = self.of(handle)["ecc_errors"]

    def do_nvmlDeviceGetP2PStatus(self, first: int, second: int, index: int, out: int) -> None:
        reach = {"nvlink": (0, 2), "pcie": (0,), "none": ()}[self.machine["p2p"]]
        c_uint.from_address(out).value = 0 if index in reach else 5

    def do_nvmlDeviceGetTopologyCommonAncestor(self, first: int, second: int, out: int) -> None:
        c_uint.from_address(out).value = 30

    def do_nvmlEventSetCreate(self, out: int) -> None:
        c_void_p.from_address(out).value = 99

    def do_nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: int) -> int:
        return NOT_SUPPORTED if "events" in self.of(handle)["unsupported"] else 0

    def do_nvmlEventSetWait_v2(self, events: int, out: int, timeout: int) -> int:
        xids = self.machine.get("xids", [])
        if not xids:
            return 10
        event = pynvml.c_nvmlEventData_t.from_address(out)
        event.eventType, event.eventData = 8, xids.pop(0)
        return 0


def _simple(key: str) -> Any:
    def body(self: FakeNvml, handle: int, out: int) -> int:
        card = self.of(handle)
        if key in card["unsupported"]:
            return NOT_SUPPORTED
        c_uint.from_address(out).value = card[key]
        return 0

    return body


for _name, _key in {
    "CurrPcieLinkGeneration": "link_generation",
    "CurrPcieLinkWidth": "link_width",
    "MaxPcieLinkGeneration": "link_generation_max",
    "MaxPcieLinkWidth": "link_width_max",
    "GpuMaxPcieLinkGeneration": "link_generation_device",
    "PowerUsage": "power_mw",
    "EnforcedPowerLimit": "power_limit_mw",
    "PowerManagementDefaultLimit": "power_default_mw",
    "PcieReplayCounter": "replays",
}.items():
    setattr(FakeNvml, f"do_nvmlDeviceGet{_name}", _simple(_key))

_THREE = (c_void_p, c_void_p, c_uint)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "nvmlInitWithFlags": (c_uint,),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (c_void_p, c_uint),
    "nvmlSystemGetCudaDriverVersion": (c_void_p,),
    "nvmlDeviceGetCount_v2": (c_void_p,),
    "nvmlDeviceGetHandleByIndex_v2": (c_uint, c_void_p),
    "nvmlDeviceGetUUID": _THREE,
    "nvmlDeviceGetName": _THREE,
    "nvmlDeviceGetFieldValues": (c_void_p, c_int, c_void_p),
    "nvmlDeviceGetPcieThroughput": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetComputeRunningProcesses_v3": (c_void_p, c_void_p, c_void_p),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": (c_void_p, c_void_p, c_void_p),
    "nvmlDeviceGetMigMode": (c_void_p, c_void_p, c_void_p),
    "nvmlDeviceGetEccMode": (c_void_p, c_void_p, c_void_p),
    "nvmlDeviceGetClockInfo": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetMaxClockInfo": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetTemperature": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetViolationStatus": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetTotalEccErrors": (c_void_p, c_uint, c_uint, c_void_p),
    "nvmlDeviceGetP2PStatus": (c_void_p, c_void_p, c_int, c_void_p),
    "nvmlDeviceGetTopologyCommonAncestor": (c_void_p, c_void_p, c_void_p),
    "nvmlEventSetCreate": (c_void_p,),
    "nvmlDeviceRegisterEvents": (c_void_p, c_ulonglong, c_void_p),
    "nvmlEventSetWait_v2": (c_void_p, c_void_p, c_uint),
}


def marked(uuid: str) -> list[int]:
    """Return the live processes that were started with ``TPGATE_TEST_GPU`` naming a GPU: they are on it."""
    mark, found = f"TPGATE_TEST_GPU={uuid}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # another user's, or gone meanwhile
            continue
    return sorted(found)


def _text(address: int, value: str) -> None:
    raw = value.encode() + b"\0"
    ctypes.memmove(address, raw, len(raw))


def load(machine: dict[str, Any] | None) -> Any:
    """Return what stands in place of ``CDLL``; a machine of None has no such library."""

    def cdll(name: str) -> FakeNvml:
        if machine is None:
            raise OSError(f"{name}: cannot open shared object file")
        return FakeNvml(machine)

    return cdll


def install(machine: dict[str, Any] | None) -> None:
    """Put the library in place for the rest of this process."""
    pynvml.CDLL = load(machine)
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
