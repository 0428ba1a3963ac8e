"""Checks of the GPUs before a server is started, while it runs and after it ended; each says what to do."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tpgate.errors import HostError
from tpgate.host.nvml import Gpu, Library, Missing, open_library
from tpgate.host.topology import BUSY_BYTES

_HOT = {0x08: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "thermal slowdown", 0x80: "power brake"}


@dataclass(frozen=True, slots=True)
class Check:
    """Something that makes a GPU unfit to measure on, or is worth knowing.

    Attributes:
        check: Short name.
        reason: What was seen, with figures and the GPU.
        advice: What to do about it.
        fatal: Whether nothing that is measured so can be trusted.
    """

    check: str
    reason: str
    advice: str
    fatal: bool = True


def preflight(uuids: Sequence[str]) -> list[Check]:
    """Return what is wrong with some GPUs before a server is started on them.

    Raises:
        HostError: They cannot be read.
    """
    library, gpus = _open(uuids)
    with library:
        checks = [check for gpu in gpus for check in _occupied(library, gpu) + _modes(library, gpu)]
        return checks + _unlike(library, gpus)


def released(uuids: Sequence[str]) -> list[Check]:
    """Return what a server that ended has left on its GPUs: processes and memory.

    Raises:
        HostError: They cannot be read.
    """
    library, gpus = _open(uuids)
    with library:
        return [check for gpu in gpus for check in _occupied(library, gpu)]


def holders(uuids: Sequence[str]) -> dict[int, int | None]:
    """Return the processes on some GPUs: pid to bytes held, None where the driver does not say.

    Raises:
        HostError: They cannot be read.
    """
    library, gpus = _open(uuids)
    with library:
        found = [library.processes(gpu) for gpu in gpus]
    return {one.pid: one.memory_bytes for row in found if not isinstance(row, Missing) for one in row}


def ownership(uuids: Sequence[str], server_pids: Collection[int]) -> list[Check]:
    """Return where the server's processes are not on the GPUs that are watched, by UUID and never by position.

    In a container the driver may name PIDs of the host, or none; then nothing can be told and a note says so.

    Args:
        uuids: GPUs that the server was given.
        server_pids: Its processes.

    Raises:
        HostError: The GPUs cannot be read.
    """
    library, _chosen = _open(uuids)
    with library:
        everything = library.gpus()
        if isinstance(everything, Missing):
            raise HostError(f"the GPUs cannot be read: {everything.reason}", next_step="tpgate doctor")
        seen: dict[str, set[int]] = {}
        for gpu in everything:
            found = library.processes(gpu)
            if isinstance(found, Missing):
                reason = f"the processes on {name_of(gpu)} cannot be read: {found.reason}"
                return [Check("gpu_ownership", reason, "nothing can be told about foreign processes", fatal=False)]
            seen[gpu.uuid] = {process.pid for process in found}
    used = {uuid for uuid, pids in seen.items() if pids & set(server_pids)}
    if not used:
        reason = "none of the server's processes is on any GPU as the driver sees it"
        advice = "in a container, share the host's PID namespace (--pid=host) to have this checked"
        return [Check("gpu_ownership", reason, advice, fatal=False)]
    checks = []
    for gpu in everything:
        if gpu.uuid in used and gpu.uuid not in uuids:
            reason = f"the server runs on {name_of(gpu)}, which is not among the GPUs that are watched"
            checks.append(Check("gpu_ownership", reason, "set CUDA_VISIBLE_DEVICES to UUIDs"))
        if gpu.uuid in uuids and gpu.uuid not in used:
            reason = f"no process of the server is on {name_of(gpu)}, which is watched"
            checks.append(Check("gpu_ownership", reason, "set CUDA_VISIBLE_DEVICES to UUIDs"))
        foreign = seen[gpu.uuid] - set(server_pids) if gpu.uuid in used else set()
        checks += [_foreign(gpu, pid, None) for pid in sorted(foreign)]
    return checks


def name_of(gpu: Gpu) -> str:
    """Return a GPU's name for people."""
    return f"GPU {gpu.index} ({gpu.name}, {gpu.uuid[:12]})"


def process_words(pid: int) -> str:
    """Return who a process is: command, user and start, as far as this namespace shows it."""
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            since = datetime.datetime.fromtimestamp(process.create_time(), datetime.UTC).isoformat(timespec="seconds")
            return f"process {pid} ({process.name()}, user {process.username()}, since {since})"
    except psutil.Error:
        return f"process {pid} (of another namespace or user)"


def _open(uuids: Sequence[str]) -> tuple[Library, list[Gpu]]:
    library = open_library()
    if isinstance(library, Missing):
        raise HostError(f"the GPUs cannot be checked: {library.reason}", next_step="tpgate doctor")
    gpus = library.gpus()
    if isinstance(gpus, Missing):
        library.close()
        raise HostError(f"the GPUs cannot be checked: {gpus.reason}", next_step="tpgate doctor")
    chosen = [gpu for gpu in gpus if gpu.uuid in uuids]
    absent = sorted(set(uuids) - {gpu.uuid for gpu in chosen})
    if absent:
        library.close()
        raise HostError(f"NVML shows no GPU {', '.join(absent)}", next_step="nvidia-smi -L")
    return library, chosen


def _foreign(gpu: Gpu, pid: int, memory_bytes: int | None) -> Check:
    holds = "" if memory_bytes is None else f", holds {memory_bytes / 2**30:.1f} GiB"
    reason = f"{name_of(gpu)}: {process_words(pid)} is on it{holds}"
    return Check("foreign_process", reason, f"end it (kill {pid}), or measure on a GPU that nobody else uses")


def _occupied(library: Library, gpu: Gpu) -> list[Check]:
    processes, used = library.processes(gpu), library.memory_used(gpu)
    checks = [] if isinstance(processes, Missing) else [_foreign(gpu, p.pid, p.memory_bytes) for p in processes]
    if not checks and not isinstance(used, Missing) and used > BUSY_BYTES:
        reason = f"{name_of(gpu)}: {used / 2**30:.1f} GiB are taken, by no process that can be seen"
        advice = "look for another container on this GPU, or for a dead process that still holds it (nvidia-smi)"
        checks.append(Check("memory_taken", reason, advice))
    return checks


def _modes(library: Library, gpu: Gpu) -> list[Check]:
    checks = []
    who = name_of(gpu)
    if library.mode(gpu, "Mig") is True:
        checks.append(Check("mig", f"{who}: MIG is on, so its parts share the link", "turn it off: nvidia-smi -mig 0"))
    if library.mode(gpu, "Persistence") is False:
        advice = "turn it on: nvidia-smi -pm 1; without it every start initialises the GPU anew"
        checks.append(Check("persistence", f"{who}: persistence mode is off", advice, fatal=False))
    limit, default = library.number(gpu, "power_limit_w"), library.number(gpu, "power_default_w")
    if isinstance(limit, float) and isinstance(default, float) and limit < 0.99 * default:
        reason = f"{who}: its power limit is {limit:.0f} W, the factory's {default:.0f} W"
        checks.append(Check("power_cap", reason, f"restore it: nvidia-smi -pl {default:.0f}", fatal=False))
    errors = library.number(gpu, "ecc_uncorrected")
    if isinstance(errors, float) and errors > 0:
        reason = f"{who}: {errors:.0f} uncorrected memory errors since the driver was loaded"
        checks.append(Check("ecc_uncorrected", reason, "reset or replace the GPU", fatal=False))
    bits = library.throttle(gpu)
    if isinstance(bits, int):
        hot = [word for bit, word in _HOT.items() if bits & bit]
        if hot:
            reason = f"{who}: {', '.join(hot)} before any load"
            checks.append(Check("gpu_throttled", reason, "cool the machine, or check its power supply"))
    return checks


def _unlike(library: Library, gpus: Sequence[Gpu]) -> list[Check]:
    """GPUs of one server should be alike; a rank on the odd one holds all others up."""
    checks = []
    for check, word, values in (
        ("gpu_models", "models", [gpu.name for gpu in gpus]),
        ("ecc", "ECC modes", [_plain(library.mode(gpu, "Ecc")) for gpu in gpus]),
        ("pcie_link_max", "PCIe links", [_link(library, gpu) for gpu in gpus]),
    ):
        if len(set(values)) > 1:
            each = ", ".join(f"{value} on GPU {gpu.index}" for gpu, value in zip(gpus, values, strict=True))
            advice = "choose like GPUs (CUDA_VISIBLE_DEVICES=UUID,...)"
            checks.append(Check(check, f"the GPUs have unlike {word}: {each}", advice))
    return checks


def _link(library: Library, gpu: Gpu) -> str:
    parts = (library.number(gpu, "link_generation_max"), library.number(gpu, "link_width_max"))
    return "unknown" if any(isinstance(part, Missing) for part in parts) else f"Gen{parts[0]:.0f} x{parts[1]:.0f}"


def _plain(value: bool | Missing) -> str:
    return "unknown" if isinstance(value, Missing) else "on" if value else "off"


def fatal(checks: Iterable[Check]) -> list[Check]:
    """Return those that keep a measurement from being trusted."""
    return [check for check in checks if check.fatal]
