"""Whether the GPUs were fit to be measured on during a window: throttling, link, likeness, neighbours, errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from tpgate.errors import HostError
from tpgate.host.telemetry import GpuTelemetry, Telemetry
from tpgate.host.validity import Check, ownership, preflight
from tpgate.measure.result import Doubt
from tpgate.units import HERTZ, WATTS, format_value

THROTTLES = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons that make a run void."""
POWER_CAP = 0x04
LOCKED_CLOCKS = 0x02
SHARE = 0.01
"""Share of a window that may be throttled, or off its link, before it is void; below, it is noted."""
CAP_SHARE = 0.05
LINK_SHARE = 0.05
CLOCK_SPREAD = 0.05
MEMORY_GROWTH = 1 << 30
ROUND_NS = 1_100_000_000
"""Processes are read once a second: the reading before a window and the one after it belong to it."""


def label(gpu: GpuTelemetry) -> str:
    """Return a GPU's name for people: position, model and the start of its UUID."""
    return f"GPU {gpu.gpu.index} ({gpu.gpu.name}, {gpu.gpu.uuid[:12]})"


def check_doubts(checks: Iterable[Check]) -> list[Doubt]:
    """Return what :mod:`tpgate.host.validity` found as doubts of a run."""
    return [Doubt(check=c.check, reason=c.reason, advice=c.advice, fatal=c.fatal) for c in checks]


def host_doubts(uuids: Sequence[str], server_pids: Collection[int] | None = None) -> list[Doubt]:
    """Return what is wrong with a run's GPUs, as doubts; nothing where it uses none.

    Args:
        uuids: The GPUs.
        server_pids: Processes of the running server, which must be alone on these GPUs; None before a server is
            started, when nobody may be on them.
    """
    if not uuids:
        return []
    try:
        return check_doubts(preflight(uuids) if server_pids is None else ownership(uuids, server_pids))
    except HostError as error:
        advice = error.next_step or "tpgate doctor"
        return [Doubt(check="gpu_unreadable", reason=error.what, advice=advice, fatal=False)]


def neighbour_doubts(uuids: Sequence[str], server_pids: Collection[int]) -> list[Doubt]:
    """Return who else is on a running server's GPUs now, and whether the server is on them, by UUID.

    It is asked right before and right after a cell; what happens between is in the telemetry.

    Args:
        uuids: GPUs that the server was given; empty asks nothing.
        server_pids: Its processes of now; empty where they are not known, because it was attached to.
    """
    if uuids and not server_pids:
        reason = (
            "this run did not start the server and does not know its processes: on the GPUs that are watched "
            f"({', '.join(uuids)}), only a process that comes or goes counts as foreign"
        )
        advice = "let tpgate start the server, or set CUDA_VISIBLE_DEVICES to the UUIDs of its GPUs and use no other"
        return [Doubt(check="gpu_ownership", reason=reason, advice=advice, fatal=False)]
    return host_doubts(uuids, server_pids)


def condition_doubts(
    telemetry: Telemetry, start_ns: int, end_ns: int, *, server_pids: Collection[int] | None = None
) -> list[Doubt]:
    """Return what made, or could have made, the GPUs unfit between two moments, each naming its GPU.

    Args:
        telemetry: What was sampled.
        start_ns: Monotonic start of the window.
        end_ns: Its end.
        server_pids: Processes of the server; None where they are not known (attached to).
    """
    doubts: list[Doubt] = []
    for gpu in telemetry.gpus:
        doubts += _throttle_doubts(gpu, start_ns, end_ns)
        doubts += _link_doubts(gpu, start_ns, end_ns)
        doubts += _process_doubts(gpu, start_ns, end_ns, server_pids)
        doubts += _error_doubts(gpu, start_ns, end_ns)
    doubts += _asymmetry_doubts(telemetry.gpus, start_ns, end_ns)
    inside = [xid for at, xid in telemetry.xids if start_ns <= at <= end_ns + 2_000_000_000]
    if inside:
        reason = f"the driver reported XID {', '.join(map(str, sorted(set(inside))))} during the window"
        doubts.append(Doubt(check="xid", reason=reason, advice="look XIDs up in the driver's log (dmesg)"))
    return doubts


def _throttle_doubts(gpu: GpuTelemetry, start_ns: int, end_ns: int) -> list[Doubt]:
    bits = gpu.between("throttle", start_ns, end_ns).astype(np.int64)
    if not len(bits):
        reason = f"{label(gpu)}: throttle reasons were not read ({gpu.missing.get('throttle', 'window too short')})"
        return [Doubt(check="gpu_throttled", reason=reason, advice="see tpgate doctor", fatal=False)]
    clock = gpu.between("sm_hz", start_ns, end_ns)
    at = f", mean SM clock {format_value(float(np.mean(clock)), HERTZ)}" if len(clock) else ""
    doubts = []
    for bit, name in THROTTLES.items():
        share = float(np.mean((bits & bit) != 0))
        if share > 0:
            reason = f"{label(gpu)}: {name} in {share:.1%} of the window{at}"
            advice = "cool the machine, or let it rest between cells; power brake: check the power supply"
            doubts.append(Doubt(check="gpu_throttled", reason=reason, advice=advice, fatal=share > SHARE))
    hot = gpu.between("thermal_violation_ns", start_ns, end_ns)
    if len(hot) > 1 and not doubts:
        share = float(hot[-1] - hot[0]) / (end_ns - start_ns)
        if share > SHARE:
            reason = f"{label(gpu)}: heat held the clocks down for {share:.1%} of the window{at}"
            doubts.append(Doubt(check="gpu_throttled", reason=reason, advice="cool the machine, then measure again"))
    return doubts + _cap_doubts(gpu, float(np.mean((bits & POWER_CAP) != 0)), at)


def _cap_doubts(gpu: GpuTelemetry, share: float, at: str) -> list[Doubt]:
    """A GPU at its factory limit under full load is normal and noted; a limit that someone lowered is not."""
    if share <= CAP_SHARE:
        return []
    limit, default = gpu.once.get("power_limit_w"), gpu.once.get("power_default_w")
    lowered = limit is not None and default is not None and limit < 0.99 * default
    reason = f"{label(gpu)}: at its power limit in {share:.1%} of the window{at}"
    if not lowered:
        return [Doubt(check="power_cap", reason=reason, advice="normal under full load; shown", fatal=False)]
    reason += f"; the limit is {format_value(limit, WATTS)}, the factory's {format_value(default, WATTS)}"
    return [Doubt(check="power_cap", reason=reason, advice="restore it: nvidia-smi -pl WATTS")]


def _link_doubts(gpu: GpuTelemetry, start_ns: int, end_ns: int) -> list[Doubt]:
    doubts = []
    for name, word in (("link_generation", "Gen"), ("link_width", "x")):
        values, most = gpu.between(name, start_ns, end_ns), gpu.once.get(f"{name}_max")
        if most is None or not len(values):
            why = gpu.missing.get(name) or gpu.missing.get(f"{name}_max") or "window too short"
            reason = f"{label(gpu)}: PCIe {name.replace('_', ' ')} was not read under load ({why})"
            doubts.append(Doubt(check="pcie_link", reason=reason, advice="see tpgate doctor", fatal=False))
            continue
        low = values < most
        if low.any():
            share = float(np.mean(low))
            reason = (
                f"{label(gpu)}: PCIe link at {word}{values.min():.0f} in {share:.1%} of the window, "
                f"{word}{most:.0f} is its most"
            )
            advice = "reseat the card or its riser; see tpgate doctor for the link under load"
            doubts.append(Doubt(check="pcie_link", reason=reason, advice=advice, fatal=share > LINK_SHARE))
    return doubts


def _process_doubts(gpu: GpuTelemetry, start_ns: int, end_ns: int, server_pids: Collection[int] | None) -> list[Doubt]:
    near = [found for at, found in gpu.processes if start_ns - ROUND_NS <= at <= end_ns + ROUND_NS]
    rows = [{pid for pid, _ in found} for found in near]
    advice = "end it, or measure on GPUs that nobody else uses"
    if not rows:
        return []
    seen: set[int] = set().union(*rows)
    own = seen & set(server_pids or ())
    # Where none is the server's (another namespace, or PIDs that are not known), only what comes or goes is foreign.
    foreign = seen - own if own else seen - rows[0].intersection(*rows)
    doubts = []
    if foreign:
        names = ", ".join(map(str, sorted(foreign)))
        word = "not the server's" if own else "came or went during the window"
        reason = f"{label(gpu)}: process {names} was on the GPU, {word}"
        doubts.append(Doubt(check="foreign_process", reason=reason, advice=advice))
    elif not own and len(seen) > 1:
        reason = f"{label(gpu)}: {len(seen)} processes on the GPU, and their PIDs are not of this namespace"
        doubts.append(Doubt(check="foreign_process", reason=reason, advice=advice, fatal=False))
    return doubts


def _error_doubts(gpu: GpuTelemetry, start_ns: int, end_ns: int) -> list[Doubt]:
    doubts = []
    for name, word, fatal in (("replays", "PCIe replays", False), ("ecc_uncorrected", "uncorrected ECC errors", True)):
        values = gpu.between(name, start_ns, end_ns)
        if len(values) > 1 and values[-1] > values[0]:
            reason = f"{label(gpu)}: {values[-1] - values[0]:.0f} {word} during the window"
            advice = "a link or memory that makes errors is slow now and then: check riser, slot and card"
            doubts.append(Doubt(check=name, reason=reason, advice=advice, fatal=fatal))
    used = gpu.between("memory_used", start_ns, end_ns)
    if len(used) > 1 and float(np.max(used) - used[0]) > MEMORY_GROWTH:
        grown = float(np.max(used) - used[0]) / (1 << 30)
        reason = f"{label(gpu)}: used memory grew by {grown:.1f} GiB during the window"
        advice = "SGLang takes its memory at the start: look for another process"
        doubts.append(Doubt(check="gpu_memory", reason=reason, advice=advice, fatal=False))
    return doubts


def _asymmetry_doubts(gpus: Sequence[GpuTelemetry], start_ns: int, end_ns: int) -> list[Doubt]:
    """GPUs of one server that run on unlike links or clocks wait for the worst of them."""
    doubts = []
    for name, word, spread, fatal in (
        ("link_generation", "PCIe generation", 0.0, True),
        ("link_width", "PCIe width", 0.0, True),
        ("sm_hz", "SM clock", CLOCK_SPREAD, False),
    ):
        means = {
            label(gpu): float(np.median(values)) for gpu in gpus if len(values := gpu.between(name, start_ns, end_ns))
        }
        if len(means) < 2:
            continue
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        if means[low] < means[high] * (1 - spread) and means[low] != means[high]:
            reason = f"{word} differs over the GPUs: {means[low]:.4g} on {low}, {means[high]:.4g} on {high}"
            advice = "a rank on the slower one holds all others up"
            doubts.append(Doubt(check="gpu_asymmetry", reason=reason, advice=advice, fatal=fatal))
    return doubts
