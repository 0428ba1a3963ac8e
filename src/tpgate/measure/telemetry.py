"""Telemetry metrics of one cell: PCIe, NVLink, power, clocks, over the steady window."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from tpgate.host import calibrate
from tpgate.host.link import capacity
from tpgate.host.telemetry import GpuTelemetry, Telemetry
from tpgate.measure.conditions import condition_doubts, label
from tpgate.measure.definitions import METRICS, metric
from tpgate.measure.floor import Floor, all_reduce_floor
from tpgate.measure.result import Doubt, Value
from tpgate.measure.traffic import Traffic, busiest, traffic

WAYS = ("tx", "rx")
_BINS = 120
_CPU_LIMIT = 0.05


def telemetry_values(
    telemetry: Telemetry,
    *,
    window_start_ns: int,
    window_end_ns: int,
    tokens: int,
    model_config: Mapping[str, Any] | None,
    tensor_parallel: int,
    batch: float,
    server_pids: Collection[int] | None = None,
    prompt_tokens: int | None = None,
) -> tuple[dict[str, Value], list[Doubt], dict[str, Any]]:
    """Return every telemetry metric of a window, what was wrong with the GPUs, and what reports draw.

    Args:
        telemetry: What the sampler saw.
        window_start_ns: Monotonic start of the steady window.
        window_end_ns: Its end.
        tokens: Output tokens that arrived in it.
        model_config: Content of config.json, or None.
        tensor_parallel: Ranks.
        batch: Sequences in flight, on average.
        server_pids: Processes of the server, where they are known; others on its GPUs are foreign.
        prompt_tokens: Prompt tokens that were prefilled in the window. They cross the ranks too: with them the floor
            that amplification is taken over counts both; without them it counts output tokens alone.
    """
    names = [name for name, definition in METRICS.items() if definition.source == "telemetry"]
    if telemetry.reason is not None or not telemetry.gpus:
        reason = f"not measured, because {telemetry.reason or 'no GPU was read'}"
        return {name: Value.missing(name, reason) for name in names}, [], {"reason": reason}
    span = (window_start_ns, window_end_ns)
    values: dict[str, Value] = {}
    details: dict[str, Any] = {"gpus": [_summary(gpu, *span) for gpu in telemetry.gpus]}
    doubts = condition_doubts(telemetry, *span, server_pids=server_pids)
    floor = _floor(telemetry, model_config, tensor_parallel, batch)
    prefill = (prompt_tokens or 0) / tokens if tokens else 0.0
    for way in WAYS:
        found = {label(gpu): traffic(gpu, way, *span, tokens=tokens) for gpu in telemetry.gpus}
        values |= _pcie(way, found, telemetry, span, tokens, floor, prefill, details)
        doubts += _traffic_notes(way, found)
        values |= _nvlink(way, telemetry, span, tokens)
    values |= _power(telemetry, span, tokens)
    details |= _account(telemetry, floor, prompt_tokens)
    doubts += _sampler_notes(telemetry)
    absent = "not measured in this window"
    return {name: values.get(name, Value.missing(name, absent)) for name in names}, doubts, details


def _floor(telemetry: Telemetry, config: Mapping[str, Any] | None, ranks: int, batch: float) -> Floor | str:
    if ranks < 2:
        return "one rank has no all-reduce"
    if "nvlink" in telemetry.topology:
        return f"the ranks' collectives do not go over PCIe (topology: {telemetry.topology})"
    if "unknown" in telemetry.topology:
        return "it is not known whether the ranks' collectives go over PCIe"
    return "the model's config.json is not known" if config is None else all_reduce_floor(config, ranks, batch)


def _pcie(
    way: str,
    found: Mapping[str, Traffic | str],
    telemetry: Telemetry,
    span: tuple[int, int],
    tokens: int,
    floor: Floor | str,
    prefill: float,
    details: dict[str, Any],
) -> dict[str, Value]:
    stem = f"pcie_{way}"
    most = busiest(dict(found))
    if isinstance(most, str):
        return {name: Value.missing(name, most) for name in METRICS if name.startswith(f"{stem}_")}
    name, load = most
    rates = load.rates
    details[f"{stem}_busiest"] = name
    figures: dict[str, float] = {"": float(np.median(rates)), "_peak": float(np.max(rates))}
    values: dict[str, Value] = {}
    least = metric(f"{stem}_bytes_per_second_p95").minimum_samples
    if len(rates) >= least:
        figures["_p95"] = float(np.percentile(rates, 95))
    for suffix in ("", "_p95", "_peak"):
        key = f"{stem}_bytes_per_second{suffix}"
        if suffix in figures:
            values[key] = Value.of(key, figures[suffix], len(rates))
        else:
            values[key] = Value.missing(key, f"{len(rates)} readings, p95 needs {least}")
    ceiling = _ceiling(next(gpu for gpu in telemetry.gpus if label(gpu) == name), span)
    for suffix in ("", "_p95"):
        key = f"{stem}_utilisation{suffix}"
        if isinstance(ceiling, str):
            values[key] = Value.missing(key, ceiling)
        elif suffix in figures:
            values[key] = Value.of(key, figures[suffix] / ceiling, len(rates))
        else:
            values[key] = Value.missing(key, f"{len(rates)} readings, p95 needs {least}")
    return values | _per_token(stem, load.total, tokens, floor, prefill)


def _per_token(stem: str, total: float, tokens: int, floor: Floor | str, prefill: float) -> dict[str, Value]:
    each, times = f"{stem}_bytes_per_token", f"{stem}_amplification"
    if tokens <= 0:
        return {name: Value.missing(name, "no token arrived inside the steady window") for name in (each, times)}
    value = Value.of(each, total / tokens)
    if isinstance(floor, str):
        return {each: value, times: Value.missing(times, floor)}
    least = floor.total + floor.ring * prefill
    return {each: value, times: Value.of(times, total / tokens / least)}


def _ceiling(gpu: GpuTelemetry, span: tuple[int, int]) -> float | str:
    generation, width = gpu.between("link_generation", *span), gpu.between("link_width", *span)
    if not len(generation) or not len(width):
        return "the link was not read under load: " + gpu.missing.get("link_generation", "window too short")
    found = capacity(round(float(np.median(generation))), round(float(np.median(width))))
    return found or f"unknown link: Gen{np.median(generation):.0f} x{np.median(width):.0f}"


def _nvlink(way: str, telemetry: Telemetry, span: tuple[int, int], tokens: int) -> dict[str, Value]:
    key = f"nvlink_{way}_bytes_per_token"
    if "nvlink" not in telemetry.topology:
        return {key: Value.missing(key, f"no NVLink between the GPUs (topology: {telemetry.topology})")}
    most = 0.0
    for gpu in telemetry.gpus:
        rare = gpu.rare
        column = rare.get(f"nvlink_{way}", np.empty(0))
        good = np.isfinite(column)
        if good.sum() < 2:
            return {key: Value.missing(key, f"{label(gpu)}: {gpu.missing.get(f'nvlink_{way}', 'too few readings')}")}
        ends = np.interp(span, (rare["begin_ns"][good] + rare["end_ns"][good]) / 2, column[good])
        most = max(most, float(ends[1] - ends[0]))
    if tokens <= 0 or most <= 0:
        reason = "no token arrived" if tokens <= 0 else "sensor fault: NVLink counters stood still under load"
        return {key: Value.missing(key, reason)}
    return {key: Value.of(key, most / tokens)}


def _power(telemetry: Telemetry, span: tuple[int, int], tokens: int) -> dict[str, Value]:
    values: dict[str, Value] = {}
    means = [gpu.between("power_w", *span) for gpu in telemetry.gpus]
    if all(len(mean) for mean in means):
        watts = sum(float(np.mean(mean)) for mean in means)
        values["gpu_power"] = Value.of("gpu_power", watts, len(means[0]))
    else:
        why = telemetry.gpus[0].missing.get("power_w", "window too short")
        values["gpu_power"] = Value.missing("gpu_power", f"power was not read: {why}")
    joules = [_energy(gpu, span) for gpu in telemetry.gpus]
    known = [item for item in joules if item is not None]
    if tokens > 0 and len(known) == len(joules):
        values["energy_per_token"] = Value.of("energy_per_token", sum(known) / tokens, tokens)
    else:
        why = "no token arrived" if tokens <= 0 else "neither energy nor power can be read"
        values["energy_per_token"] = Value.missing("energy_per_token", why)
    clocks = [float(np.mean(c)) for gpu in telemetry.gpus if len(c := gpu.between("sm_hz", *span))]
    if clocks:
        values["gpu_sm_clock"] = Value.of("gpu_sm_clock", min(clocks))
    else:
        why = telemetry.gpus[0].missing.get("sm_hz", "window too short")
        values["gpu_sm_clock"] = Value.missing("gpu_sm_clock", f"the SM clock was not read: {why}")
    return values


def _energy(gpu: GpuTelemetry, span: tuple[int, int]) -> float | None:
    """Joules over the window: the energy counter between its ends, else mean power x time, else None."""
    counters = gpu.counters
    column = counters.get("energy_mj", np.empty(0, np.int64))
    good = column >= 0
    if good.sum() > 1:
        times = (counters["begin_ns"][good] + counters["end_ns"][good]) / 2
        ends = np.interp(span, times, column[good])
        if ends[1] > ends[0] and bool(np.all(np.diff(column[good]) >= 0)):
            return float(ends[1] - ends[0]) / 1e3
    power = gpu.between("power_w", *span)
    return float(np.mean(power)) * (span[1] - span[0]) / 1e9 if len(power) else None


def _summary(gpu: GpuTelemetry, start_ns: int, end_ns: int) -> dict[str, Any]:
    """What a report shows of one GPU: means, extremes and the PCIe series in bins (seconds, B/s)."""
    row: dict[str, Any] = {"gpu": label(gpu), "uuid": gpu.gpu.uuid, "missing": dict(gpu.missing), **dict(gpu.once)}
    for name in ("link_generation", "link_width", "sm_hz", "memory_hz", "power_w", "temperature_c", "memory_used"):
        values = gpu.between(name, start_ns, end_ns)
        if len(values):
            row[name] = {"min": float(values.min()), "mean": float(values.mean()), "max": float(values.max())}
    for name in ("link_generation", "link_width"):
        if len(gpu.state.get(name, ())):
            first = float(gpu.state[name][0])
            row[f"{name}_at_start"] = first if np.isfinite(first) else None
    edges = np.linspace(start_ns, end_ns, _BINS + 1)
    row["seconds"] = [round(float(at - start_ns) / 1e9, 3) for at in edges[:-1]]
    for way in WAYS:
        if way in gpu.counters:
            counter = gpu.bytes_of(way)
            cells = [counter.between(int(a), int(b)) for a, b in pairwise(edges)]
            width = max(float(edges[1] - edges[0]) / 1e9, 1e-9)
            row[f"pcie_{way}"] = [None if unknown > 0.5 else moved / (1 - unknown) / width for moved, unknown in cells]
            row[f"pcie_{way}_wraps"] = counter.wraps
    return row


def _account(telemetry: Telemetry, floor: Floor | str, prompt_tokens: int | None) -> dict[str, Any]:
    account: dict[str, Any] = {
        "rate_hz": telemetry.rate_hz,
        "achieved_hz": telemetry.achieved_hz,
        "cpu_share": telemetry.cpu_share,
        "faults": list(telemetry.faults),
        "xids": [list(row) for row in telemetry.xids],
        "topology": telemetry.topology,
        "prompt_tokens": prompt_tokens,
        "measured_ceilings": _measured(telemetry),
    }
    if isinstance(floor, str):
        return account | {"floor": floor}
    paths = {"message_bytes": floor.message_bytes, "collectives": floor.collectives, **floor.paths()}
    return account | {"floor": paths}


def _measured(telemetry: Telemetry) -> dict[str, dict[str, float]]:
    """B/s that a calibrating copy reached on these GPUs, by UUID and way, where `tpgate doctor --calibrate` was run."""
    known = calibrate.stored()
    return {
        gpu.gpu.uuid: {row["way"]: row["bytes_per_second"] for row in known[gpu.gpu.uuid]["directions"]}
        for gpu in telemetry.gpus
        if gpu.gpu.uuid in known
    }


def _traffic_notes(way: str, found: Mapping[str, Traffic | str]) -> list[Doubt]:
    notes = []
    for name, item in found.items():
        if isinstance(item, str):
            reason = f"{name}, {way}: {item}"
            notes.append(Doubt(check="pcie_sensor", reason=reason, advice="see tpgate doctor", fatal=False))
        elif item.check_ratio is not None and not 0.5 <= item.check_ratio <= 2:
            reason = f"{name}, {way}: the byte counter says {item.check_ratio:.2f} times what NVML's own rate says"
            notes.append(Doubt(check="pcie_sensor", reason=reason, advice="tpgate doctor --calibrate", fatal=False))
    return notes


def _sampler_notes(telemetry: Telemetry) -> list[Doubt]:
    notes = []
    if telemetry.achieved_hz < 0.8 * telemetry.rate_hz:
        reason = f"the sampler read {telemetry.achieved_hz:.1f} times a second, {telemetry.rate_hz:.0f} were asked"
        advice = "give the machine a free core, or lower the rate"
        notes.append(Doubt(check="sampler_rate", reason=reason, advice=advice, fatal=False))
    if telemetry.cpu_share > _CPU_LIMIT:
        reason = f"the sampler took {telemetry.cpu_share:.1%} of a core"
        notes.append(Doubt(check="sampler_cost", reason=reason, advice="lower its rate", fatal=False))
    return notes
