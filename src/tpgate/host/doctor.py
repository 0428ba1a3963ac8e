"""Whether this machine is fit to measure on: findings, each with what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tpgate.errors import HostError
from tpgate.host import calibrate, lease, packages, processor, topology, validity
from tpgate.host.link import capacity
from tpgate.host.nvml import READINGS, Gpu, Library, Missing, open_library
from tpgate.units import BYTES, BYTES_PER_SECOND, HERTZ, WATTS, Unit, format_value

State = Literal["ok", "note", "unfit", "unknown"]
LEAST_DISK = 2 << 30
GOOD_DISK = 20 << 30
_LINK_BYTES = 4 << 30
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_ABSENT = ("NVML Shared Library Not Found", "nvidia-ml-py is not installed")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the page.

    Attributes:
        section: What it belongs to.
        name: What was looked at.
        value: What was seen.
        state: ``ok``, ``note`` (worth knowing), ``unfit`` (do not measure so), ``unknown`` (not measured).
        advice: What to do about it, or None.
    """

    section: str
    name: str
    value: str
    state: State = "ok"
    advice: str | None = None


def examine(
    *, python: str = sys.executable, folder: Path | None = None, load_link: bool = True, calibration: bool = False
) -> list[Finding]:
    """Look at everything and return what was found.

    Args:
        python: Interpreter that has SGLang.
        folder: Where results and traces will be written; None means the current folder.
        load_link: Copy on every idle GPU to read its link under load.
        calibration: Compare counters with copies, and keep the measured ceilings.
    """
    found = [*_machine(), *_disk(Path.cwd() if folder is None else folder), *_software(python), *_leases()]
    library = open_library()
    if isinstance(library, Missing):
        absent = library.reason.startswith(_ABSENT)
        value = f"not measured, because {library.reason}"
        return [*found, Finding("GPUs", "NVML", value, "unknown" if absent else "unfit")]
    with library:
        gpus = library.gpus()
        if isinstance(gpus, Missing):
            return [*found, Finding("GPUs", "NVML", f"not measured, because {gpus.reason}", "unfit")]
        if not gpus:
            return [*found, Finding("GPUs", "NVML", "NVML shows no GPU", "unknown")]
        found += _gpus(library, gpus)
    if load_link or calibration:
        found += [finding for gpu in gpus for finding in _links(gpu, judge=calibration)]
    return found


def is_fit(findings: Sequence[Finding]) -> bool:
    """Return whether nothing that was found makes this machine unfit."""
    return all(finding.state != "unfit" for finding in findings)


def _machine() -> Iterator[Finding]:
    section, cores = "machine", processor.cores()
    yield Finding(section, "CPU", f"{processor.model()}, {cores} cores usable")
    load = os.getloadavg()[0]
    busy = load > 0.5 * cores
    advice = "wait for other work to end: a busy host moves every figure" if busy else None
    yield Finding(section, "load", f"{load:.2f} over the last minute", "note" if busy else "ok", advice)
    yield Finding(section, "kernel", os.uname().release)
    try:
        governor = _GOVERNOR.read_text(encoding="utf-8").strip()
    except OSError:
        yield Finding(section, "CPU governor", "not measured, because the kernel does not say", "unknown")
        return
    fine = governor == "performance"
    advice = None if fine else "cpupower frequency-set -g performance"
    yield Finding(section, "CPU governor", governor, "ok" if fine else "note", advice)


def _disk(folder: Path) -> Iterator[Finding]:
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{format_value(float(free), BYTES)} free at {place}"
    if free < LEAST_DISK:
        yield Finding("disk", "results and traces", text, "unfit", "a trace a rank takes up to 1 GiB: make room")
    elif free < GOOD_DISK:
        yield Finding("disk", "results and traces", text, "note", "enough for a few runs with traces")
    else:
        yield Finding("disk", "results and traces", text)


def _software(python: str) -> Iterator[Finding]:
    installed = packages.read(python)
    if installed.reason is not None:
        yield Finding("software", "interpreter", f"not measured, because {installed.reason}", "unknown")
        return
    yield Finding("software", "interpreter", f"{python} (Python {installed.python})")
    version = installed.versions.get("sglang")
    if version is None:
        advice = f"{python} -m pip install sglang, or name another interpreter (--python)"
        yield Finding("software", "SGLang", "not installed there", "note", advice)
    else:
        yield Finding("software", "SGLang", version)
    for name in packages.WATCHED:
        if name != "sglang" and name in installed.versions:
            yield Finding("software", name, installed.versions[name])


def _leases() -> Iterator[Finding]:
    held = lease.holders()
    for holder in held:
        yield Finding("leases", holder.resource, f"held by {holder}", "note", "wait for it before measuring there")
    if not held:
        yield Finding("leases", "GPUs", "none is held")


def _gpus(library: Library, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    section = "GPUs"
    driver, cuda = library.driver(), library.cuda()
    yield Finding(section, "driver", f"{_shown(driver)}, CUDA up to {_shown(cuda)}")
    try:
        usable = topology.visible(gpus, os.environ)
        yield Finding(section, "usable", f"{len(usable)} of {len(gpus)}", "ok" if usable else "unfit")
    except HostError as error:
        yield Finding(section, "usable", error.what, "unfit", error.next_step)
    yield Finding(section, "topology", topology.describe(library, gpus))
    for row in topology.matrix(library, gpus):
        yield Finding(section, "pair", row)
    for gpu in gpus:
        yield from _one(library, gpu)
    uuids = [gpu.uuid for gpu in gpus]
    for check in validity.preflight(uuids):
        yield Finding("fitness", check.check, check.reason, "unfit" if check.fatal else "note", check.advice)


def _one(library: Library, gpu: Gpu) -> Iterator[Finding]:
    section, number = f"GPU {gpu.index}", library.number
    memory = format_value(None if gpu.memory_bytes is None else float(gpu.memory_bytes), BYTES)
    yield Finding(section, "model", f"{gpu.name}, {memory}, {gpu.uuid}, {gpu.bus_id}")
    clock, most = number(gpu, "sm_hz"), number(gpu, "sm_hz_max")
    yield Finding(section, "SM clock", f"{_value(clock, HERTZ)} now, {_value(most, HERTZ)} at most")
    power, limit = number(gpu, "power_w"), number(gpu, "power_limit_w")
    yield Finding(section, "power", f"{_value(power, WATTS)} now, {_value(limit, WATTS)} at most")
    yield Finding(section, "link at rest", _link(library, gpu, "link_generation", "link_width"))
    yield Finding(section, "link at most", _link(library, gpu, "link_generation_max", "link_width_max"))
    device, slot = number(gpu, "link_generation_device"), number(gpu, "link_generation_max")
    if isinstance(device, float) and isinstance(slot, float) and slot < device:
        text = f"Gen{slot:.0f}, the GPU alone could do Gen{device:.0f}"
        yield Finding(section, "slot", text, "note", "the slot or riser is slower than the card")
    missing = _missing(library, gpu)
    for name, reason in missing.items():
        yield Finding(section, f"without {name}", f"not measured, because {reason}", "unknown")
    if not missing:
        yield Finding(section, "NVML features", "every reading is there")


def _missing(library: Library, gpu: Gpu) -> dict[str, str]:
    """What this GPU or driver does not give, with the reason."""
    counters = library.counters(gpu)
    if not isinstance(counters, Missing) and counters.tx is None:
        counters = Missing("this GPU or driver gives none")
    readings: dict[str, object] = {name: library.number(gpu, name) for name in READINGS}
    readings |= {
        "PCIe byte counters": counters,
        "throttle reasons": library.throttle(gpu),
        "processes": library.processes(gpu),
        "NVLink byte counters": library.nvlink_bytes(gpu),
        "thermal violation time": library.thermal_violation_ns(gpu),
        "PCIe rate": library.throughput(gpu, sent=True),
    }
    return {name: value.reason for name, value in readings.items() if isinstance(value, Missing)}


def _links(gpu: Gpu, *, judge: bool) -> Iterator[Finding]:
    section = f"GPU {gpu.index}"
    library = open_library()
    if isinstance(library, Missing):
        return
    with library:
        library.gpus()
        busy = topology.is_busy(library, gpu)
        most = library.number(gpu, "link_generation_max"), library.number(gpu, "link_width_max")
    if busy:
        yield Finding(section, "link under load", "not measured, because other work is on this GPU", "unknown")
        return
    try:
        seen = calibrate.calibrate(gpu.uuid, total=2 * _LINK_BYTES if judge else _LINK_BYTES)
    except HostError as error:
        yield Finding(section, "link under load", f"not measured, because {error.what}", "unknown")
        return
    link = (seen.link_generation, seen.link_width)
    low = any(isinstance(m, float) and s is not None and s < m for s, m in zip(link, most, strict=True))
    advice = "reseat the card or its riser" if low else None
    text = f"Gen{link[0]} x{link[1]}, {format_value(seen.capacity, BYTES_PER_SECOND)} each way"
    yield Finding(section, "link under load", text, "unfit" if low else "ok", advice)
    for item in seen.directions:
        word = "to the GPU" if item.way == "rx" else "from the GPU"
        text = f"{format_value(item.bytes_per_second, BYTES_PER_SECOND)} by a copy {word}"
        yield Finding(section, f"measured ceiling, {item.way}", text)
        if not judge:
            continue
        if item.reason is None and item.ratio is not None:
            text = f"counted / copied = {item.ratio:.3f}, {item.wraps} wraps: unit and direction are proven"
            yield Finding(section, f"calibration, {item.way}", text)
        else:
            yield Finding(section, f"calibration, {item.way}", item.reason or "not proven", "unfit")
    if judge and seen.proven:
        yield Finding(section, "calibration", f"kept in {calibrate.store(seen)}")


def _link(library: Library, gpu: Gpu, generation: str, width: str) -> str:
    first, second = library.number(gpu, generation), library.number(gpu, width)
    if isinstance(first, Missing) or isinstance(second, Missing):
        reason = first.reason if isinstance(first, Missing) else second.reason if isinstance(second, Missing) else ""
        return f"not measured, because {reason}"
    return f"Gen{first:.0f} x{second:.0f}, {format_value(capacity(int(first), int(second)), BYTES_PER_SECOND)} each way"


def _value(value: float | Missing, unit: Unit) -> str:
    return format_value(value, unit) if isinstance(value, float) else "not measured"


def _shown(value: object) -> str:
    return f"not measured ({value.reason})" if isinstance(value, Missing) else str(value)
