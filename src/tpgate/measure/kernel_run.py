"""From kernel measurements to runs, launches and results: the same baselines and verdicts as for servers."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tpgate.errors import HostError
from tpgate.host import environment
from tpgate.kernels.collective_cases import CollectiveTiming
from tpgate.kernels.results import KernelSession, KernelTiming, ShapeResult
from tpgate.kernels.roofline import Peaks, bound_of, datasheet_of
from tpgate.measure.kernel_suite import DEVICE_CELL, KernelSuite
from tpgate.measure.result import SCHEMA_VERSION, Doubt, Identity, Launch, Result, Run, Value
from tpgate.specs import ModelSpec, ServerSpec, digest_of

SPREAD_LIMIT = 0.10
"""Median absolute deviation over the median from which a timing is no measurement."""
FASTER_THAN_POSSIBLE = 1.05
"""Fraction of the roofline above which a timing or its inputs are wrong (a ceiling is measured to a few percent)."""
TIMEOUT_S = 900.0
_SERVER_FIELDS = ("engine", "sglang", "model_config", "weights")


def measure_kernels(suite: KernelSuite, *, folder: Path, device: str = "cuda:0", samples: int = 25) -> Launch:
    """Measure a suite once, in a process of its own, and return it as a launch.

    Args:
        suite: What to measure.
        folder: Gets the session as the process wrote it.
        device: Torch device.
        samples: Samples of each timing.

    Raises:
        HostError: The process failed (its own words are in the message) or ran for more than :data:`TIMEOUT_S`.
    """
    started = _now()
    file = folder / f"kernels-{started.replace(':', '')}.json"
    command = [sys.executable, "-m", "tpgate.kernels", "--out", str(file), "--device", device]
    command += ["--samples", str(samples), *suite.cases]
    command += ["--no-naive"] * (not suite.naive) + ["--no-others"] * (not suite.others)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise HostError(f"kernel measurement: no end after {TIMEOUT_S:.0f} s", next_step=" ".join(command)) from error
    if done.returncode != 0:
        raise HostError(f"kernel measurement failed: {done.stderr.strip()[-1500:]}", next_step=" ".join(command))
    session = msgspec.json.decode(file.read_bytes(), type=KernelSession)
    return kernel_launch(suite, session, started_at=started)


def kernel_values(result: ShapeResult, peaks: Peaks) -> dict[str, Value]:
    """Return the metrics of one shape; what was not measured is missing with its reason."""
    shape, fast = result.shape, result.fast
    seconds, count = fast.median_s, len(fast.samples_s)
    present = {
        "kernel_time": seconds,
        "kernel_roofline_fraction": bound_of(shape, peaks).seconds / seconds,
        "kernel_flops_per_second": shape.flops / seconds,
        "kernel_bytes_per_second": shape.least_bytes / seconds,
    }
    values = {name: Value.of(name, value, count) for name, value in present.items()}
    values["kernel_reread_factor"] = _value("kernel_reread_factor", fast.reread_factor, "its traffic is not counted")
    slow = None if result.naive is None else result.naive.median_s / seconds
    values["kernel_speedup_over_naive"] = _value("kernel_speedup_over_naive", slow, "the naive kernel was not measured")
    flash = next((other for other in result.others if other.kernel == "flash-mla"), None)
    reason = dict(result.absent).get("flash-mla", "FlashMLA was not measured")
    over = None if flash is None else seconds / flash.median_s
    values["kernel_time_over_flash_mla"] = _value("kernel_time_over_flash_mla", over, reason)
    return values


def collective_values(timing: CollectiveTiming) -> dict[str, Value]:
    """Return the metrics of one collective."""
    present = {"collective_latency": timing.latency_s, "collective_bus_bytes_per_second": timing.bus_bytes_per_s}
    return {name: Value.of(name, value, len(timing.samples_s)) for name, value in present.items()}


def kernel_doubts(timing: KernelTiming, peaks: Peaks) -> tuple[Doubt, ...]:
    """Return why a timing is no measurement: it scatters too much, or is faster than the device can be."""
    found = []
    middle = timing.median_s
    spread = median(abs(sample - middle) for sample in timing.samples_s) / middle
    if spread > SPREAD_LIMIT:
        found.append(
            Doubt(
                check="kernel_spread",
                reason=f"{timing.kernel}: samples scatter by {spread:.1%} of their median (limit {SPREAD_LIMIT:.0%})",
                advice="look for another process on the GPU, and for a changing clock",
            )
        )
    fraction = bound_of(timing.shape, peaks).seconds / middle
    if fraction > FASTER_THAN_POSSIBLE:
        found.append(
            Doubt(
                check="faster_than_possible",
                reason=f"{timing.kernel}: {fraction:.0%} of the roofline that was measured in the same process",
                advice="inputs served by a cache, or work left out: do not believe it",
            )
        )
    return tuple(found)


def kernel_runs(session: KernelSession, *, started_at: str) -> dict[str, Run]:
    """Return a run for every shape, every collective, and the device."""
    peaks = session.peaks
    device = {
        "device_copy_bytes_per_second": peaks.bytes_per_s,
        "device_matmul_flops_per_second": peaks.flops_per_s,
    }
    runs = [
        Run(
            cell=result.shape.name,
            load_digest=digest_of(asdict(result.shape)),
            started_at=started_at,
            values=kernel_values(result, peaks),
            doubts=tuple(doubt for timing in _timings(result) for doubt in kernel_doubts(timing, peaks)),
            details=_details(result, peaks),
        )
        for result in session.shapes
    ]
    runs += [
        Run(
            cell=timing.case.name,
            load_digest=digest_of(asdict(timing.case)),
            started_at=started_at,
            values=collective_values(timing),
            details={"samples_s": list(timing.samples_s), "method": timing.method},
        )
        for timing in session.collectives
    ]
    runs.append(
        Run(
            cell=DEVICE_CELL,
            load_digest=digest_of("copy 4 GiB, matmul 8192"),
            started_at=started_at,
            values={name: Value.of(name, value) for name, value in device.items()},
            details={"datasheet": _sheet(session.device_name), "source": peaks.source},
        )
    )
    return {run.cell: run for run in runs}


def kernel_launch(suite: KernelSuite, session: KernelSession, *, started_at: str) -> Launch:
    """Return a session as a launch with the identity of machine and packages."""
    on_gpu = session.device_uuid is not None
    spec = ServerSpec(ModelSpec.dummy(suite.name, {}), tensor_parallel=suite.gpus, device="cuda" if on_gpu else "cpu")
    found = environment.identity(
        spec=spec,
        scenario_digest=suite.digest(),
        server_info={},
        python=sys.executable,
        gpus=(session.device_uuid,) if session.device_uuid else (),
    )
    keys = {name: value for name, value in found.keys.items() if name not in _SERVER_FIELDS} | {"engine": "kernels"}
    for name, version in session.versions:
        keys[f"package.{name}"] = version
    return Launch(
        launch_id=started_at.replace(":", "").replace("-", ""),
        started_at=started_at,
        identity=Identity(keys=keys, notes=dict(found.notes)),
        runs=kernel_runs(session, started_at=started_at),
    )


def kernel_result(suite: KernelSuite, launches: Sequence[Launch], result_id: str, *, complete: bool = True) -> Result:
    """Return launches of a suite as a result, with its promises."""
    return Result(
        schema_version=SCHEMA_VERSION,
        result_id=result_id,
        scenario=suite.name,
        scenario_digest=suite.digest(),
        cells=suite.cells,
        gates=suite.promises(),
        launches=tuple(launches),
        complete=complete,
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _value(name: str, value: float | None, reason: str) -> Value:
    return Value.missing(name, reason) if value is None else Value.of(name, value)


def _timings(result: ShapeResult) -> tuple[KernelTiming, ...]:
    return (result.fast,) if result.naive is None else (result.fast, result.naive)


def _sheet(device_name: str) -> dict[str, Any] | None:
    sheet = datasheet_of(device_name)
    return None if sheet is None else asdict(sheet)


def _details(result: ShapeResult, peaks: Peaks) -> dict[str, Any]:
    bound = bound_of(result.shape, peaks)
    timings = [*_timings(result), *result.others]
    found: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode({"bound": bound, "timings": timings, "absent": dict(result.absent)})
    )
    return found
