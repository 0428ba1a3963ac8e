"""PCIe on a real GPU, unattended: calibration each way, a run through counter wraps, what each NVML call costs.

    python benchmarks/h200/pcie.py --output pcie.json

Needs an idle NVIDIA GPU and its driver; nothing else. Prints one JSON document and exits 1 where something is not as it
should be: a direction or a wrapped run off by more than 5 %, the sampler over 2 % of a core at 50 Hz.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tpgate.errors import HostError
from tpgate.host import calibrate, doctor
from tpgate.host.nvml import READINGS, Gpu, Library, Missing, open_library
from tpgate.host.telemetry import Sampler

SAMPLER_GOAL = 0.02


def call_costs(library: Library, gpu: Gpu, calls: int = 300) -> dict[str, Any]:
    """Return the wall time of every reading in microseconds: median, p99 and what it answered last."""
    readings: dict[str, Callable[[], Any]] = {name: lambda name=name: library.number(gpu, name) for name in READINGS}
    readings |= {
        "counters": lambda: library.counters(gpu),
        "throttle": lambda: library.throttle(gpu),
        "processes": lambda: library.processes(gpu),
        "memory_used": lambda: library.memory_used(gpu),
        "nvlink_bytes": lambda: library.nvlink_bytes(gpu),
        "thermal_violation_ns": lambda: library.thermal_violation_ns(gpu),
        "throughput_tx": lambda: library.throughput(gpu, sent=True),
        "throughput_rx": lambda: library.throughput(gpu, sent=False),
    }
    table = {}
    for name, read in readings.items():
        count = 20 if name.startswith("throughput") else calls
        spent, answer = [], None
        cpu = time.process_time()
        for _ in range(count):
            begin = time.perf_counter_ns()
            answer = read()
            spent.append((time.perf_counter_ns() - begin) / 1e3)
        cpu = (time.process_time() - cpu) / count * 1e6
        row = {"median_us": median(spent), "p99_us": quantiles(spent, n=100)[98], "cpu_us": cpu}
        table[name] = row | {"missing": answer.reason} if isinstance(answer, Missing) else row | {"last": str(answer)}
    return table


def through_wraps(gpu: Gpu, total: int) -> dict[str, Any]:
    """Copy far more than 4 GiB each way at 50 Hz; return what was copied, counted, and what a plain difference says."""
    sampler = Sampler([gpu.uuid], 50.0)
    sampler.start()
    copies = calibrate._copy(gpu.uuid, total, sys.executable)
    telemetry = sampler.stop()
    if telemetry.reason is not None:
        return {"reason": telemetry.reason}
    only, rows = telemetry.gpus[0], {}
    for way, copy in (("rx", copies["to_gpu"]), ("tx", copies["from_gpu"])):
        begin, end = int(copy["begin_ns"]) - 60_000_000, int(copy["end_ns"]) + 60_000_000
        counter = only.bytes_of(way)
        counted, unknown = counter.between(begin, end)
        inside = (only.counters["begin_ns"] >= begin) & (only.counters["end_ns"] <= end)
        raw = only.counters[way][inside]
        rates = counter.rates(begin, end)
        rows[way] = {
            "copied": total,
            "counted": counted,
            "ratio": counted / total,
            "unknown_share": unknown,
            "wraps": int((raw[1:] < raw[:-1]).sum()),
            "plain_difference_of_the_raw_counter": int(raw[-1] - raw[0]),
            "copy_bytes_per_second": copy["bytes_per_second"],
            "peak_bytes_per_second": float(rates.max()) if len(rates) else None,
        }
    return {
        "declared_bits": only.bits,
        "achieved_hz": telemetry.achieved_hz,
        "cpu_share": telemetry.cpu_share,
        **rows,
    }


def at_rest(uuids: list[str], seconds: float) -> dict[str, Any]:
    """Sample at 50 Hz for a while; return rate, CPU cost and the longest gap between two readings."""
    sampler = Sampler(uuids, 50.0)
    sampler.start()
    time.sleep(seconds)
    telemetry = sampler.stop()
    if telemetry.reason is not None:
        return {"reason": telemetry.reason}
    gaps = [float((g.counters["begin_ns"][1:] - g.counters["begin_ns"][:-1]).max()) / 1e6 for g in telemetry.gpus]
    return {
        "seconds": seconds,
        "gpus": len(telemetry.gpus),
        "achieved_hz": telemetry.achieved_hz,
        "cpu_share": telemetry.cpu_share,
        "longest_gap_ms": max(gaps),
        "faults": list(telemetry.faults),
        "missing": {g.gpu.uuid: dict(g.missing) for g in telemetry.gpus},
    }


def problems(document: dict[str, Any]) -> list[str]:
    """Return what is not as it should be."""
    found = list(document["errors"])
    for uuid, row in document["calibration"].items():
        found += [f"{uuid} {d['way']}: {d['reason']}" for d in row["directions"] if d["reason"]]
    for uuid, row in document["through_wraps"].items():
        for way in ("rx", "tx"):
            part = row.get(way)
            if part is None or abs(part["ratio"] - 1) > calibrate.TOLERANCE:
                found.append(f"{uuid} {way}: through wraps: {part}")
            elif part["wraps"] < 1:
                found.append(f"{uuid} {way}: the counter did not wrap, so nothing was shown")
    cost = document["at_rest"].get("cpu_share")
    if cost is None or cost > SAMPLER_GOAL:
        found.append(f"sampler at 50 Hz took {cost} of a core, the goal is {SAMPLER_GOAL}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="write the document there as well")
    parser.add_argument("--gib", type=int, default=32, help="GiB each way for the run through wraps")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the sampling at rest")
    arguments = parser.parse_args()
    library = open_library()
    if isinstance(library, Missing):
        print(json.dumps({"reason": library.reason}))
        return 1
    with library:
        gpus = library.gpus()
        if isinstance(gpus, Missing) or not gpus:
            print(json.dumps({"reason": gpus.reason if isinstance(gpus, Missing) else "no GPU"}))
            return 1
        document: dict[str, Any] = {
            "driver": str(library.driver()),
            "gpus": [asdict(gpu) for gpu in gpus],
            "call_costs": {gpu.uuid: call_costs(library, gpu) for gpu in gpus[:1]},
        }
    document["at_rest"] = at_rest([gpu.uuid for gpu in gpus], arguments.seconds)
    document |= {"calibration": {}, "through_wraps": {}, "errors": []}
    for gpu in gpus:
        try:
            seen = calibrate.calibrate(gpu.uuid)
            document["calibration"][gpu.uuid] = asdict(seen) | {"proven": seen.proven}
            document["through_wraps"][gpu.uuid] = through_wraps(gpu, arguments.gib << 30)
        except HostError as error:
            document["errors"].append(f"{gpu.uuid}: {error}")
    document["doctor"] = [asdict(finding) for finding in doctor.examine(load_link=True)]
    document["problems"] = problems(document)
    text = json.dumps(document, indent=1)
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    return 1 if document["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
