"""Calibration of a GPU's PCIe counters: copies of known size each way prove unit and direction, and give a ceiling."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpgate.errors import HostError
from tpgate.host.link import capacity
from tpgate.host.telemetry import GpuTelemetry, Sampler, Telemetry

TOLERANCE = 0.05
"""How far the counter may be from what the copy moved."""
PACKETS = (256 + 24) / 256
"""Bytes on the link over bytes of payload, at most: the counters count whole packets, and one of 256 bytes payload has
up to 24 more of header, sequence number and checksum (PCI Express Base Specification, transaction layer). Seen on an
H200 at Gen5 x16: 1.078 towards the GPU, 1.094 away from it, the same with and without counter wraps."""
_RATE_HZ = 100.0
_MARGIN_NS = 60_000_000
_TIMEOUT_S = 120.0
_FILE = "pcie-ceilings.json"


@dataclass(frozen=True, slots=True)
class Direction:
    """What one direction showed.

    Attributes:
        way: ``rx`` (a copy to the GPU) or ``tx`` (from it): the GPU's point of view.
        copied: Bytes that the copy moved.
        counted: Increase of the counter in that span, without what it counts at rest; None where it is not known.
        ratio: counted / copied.
        other: Bytes that the other direction's counter rose by.
        bytes_per_second: Speed of the copy: the measured ceiling.
        wraps: Times that the counter wrapped in that span.
        sampled_ratio: NVML's own rate during the copy over the copy's; None where it was not read.
        reason: Why it is not proven, or None.
    """

    way: str
    copied: int
    counted: float | None
    ratio: float | None
    other: float | None
    bytes_per_second: float
    wraps: int
    sampled_ratio: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Both directions of one GPU, and its link while the copies ran.

    Attributes:
        uuid: The GPU.
        name: Its model.
        at: UTC, ISO 8601.
        link_generation: As read while copying; None where it was not read.
        link_width: The same.
        capacity: What that link carries each way, B/s.
        directions: One each way.
    """

    uuid: str
    name: str
    at: str
    link_generation: int | None
    link_width: int | None
    capacity: float | None
    directions: tuple[Direction, ...]

    @property
    def proven(self) -> bool:
        """Whether unit and direction are proven both ways."""
        return all(direction.reason is None for direction in self.directions)


def calibrate(uuid: str, *, total: int = 8 << 30, python: str = sys.executable) -> Calibration:
    """Copy ``total`` bytes each way on one GPU and compare with what its counters say.

    Args:
        uuid: The GPU; nothing else should use it meanwhile.
        total: Bytes each way.
        python: Interpreter for the copying process.

    Raises:
        HostError: There is nothing to compare: no sampler or no copy.
    """
    sampler = Sampler([uuid], _RATE_HZ)
    sampler.start()
    try:
        copies = _copy(uuid, total, python)
    finally:
        telemetry = sampler.stop()
    if telemetry.reason is not None:
        raise HostError(f"GPU {uuid} cannot be calibrated: {telemetry.reason}", next_step="tpgate doctor")
    return judge(telemetry, copies)


def _copy(uuid: str, total: int, python: str) -> dict[str, dict[str, float]]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": uuid}
    words = [python, "-P", "-m", "tpgate.host.copier", "--bytes", str(total)]
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise HostError(f"the copying process failed: {error}", next_step="tpgate doctor") from error
    if "to_gpu" not in answer:
        words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1:]
        reason = answer.get("error") or words[0]
        raise HostError(f"nothing could be copied on GPU {uuid}: {reason}", next_step="nvidia-smi")
    return answer


def judge(telemetry: Telemetry, copies: Mapping[str, Mapping[str, float]]) -> Calibration:
    """Compare counters with copies.

    Args:
        telemetry: One GPU, sampled from before the first copy to after the last.
        copies: ``to_gpu`` and ``from_gpu``, each with bytes, begin_ns, end_ns and bytes_per_second.
    """
    gpu = telemetry.gpus[0]
    begin, end = int(copies["to_gpu"]["begin_ns"]), int(copies["from_gpu"]["end_ns"])
    generation, width = gpu.between("link_generation", begin, end), gpu.between("link_width", begin, end)
    link = (round(float(generation.max())), round(float(width.max()))) if len(generation) and len(width) else None
    return Calibration(
        uuid=gpu.gpu.uuid,
        name=gpu.gpu.name,
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        link_generation=link[0] if link else None,
        link_width=link[1] if link else None,
        capacity=capacity(*link) if link else None,
        directions=(
            _direction(gpu, "rx", copies["to_gpu"], telemetry.started_ns),
            _direction(gpu, "tx", copies["from_gpu"], telemetry.started_ns),
        ),
    )


def _direction(gpu: GpuTelemetry, way: str, copy: Mapping[str, float], started_ns: int) -> Direction:
    begin, end, size = int(copy["begin_ns"]), int(copy["end_ns"]), int(copy["bytes"])
    first, last = begin - _MARGIN_NS, end + _MARGIN_NS
    counter = gpu.bytes_of(way)
    counted, unknown = counter.between(first, last)
    other, _ = gpu.bytes_of("tx" if way == "rx" else "rx").between(first, last)
    rest_ns = begin - 250_000_000
    rest, _ = counter.between(rest_ns, rest_ns + 150_000_000)  # the copier pauses before each direction
    counted -= rest / 0.15 * (last - first - (end - begin)) / 1e9
    ratio = counted / size
    reason = None
    if not len(counter.increase):
        reason = gpu.missing.get("counters", "there is no PCIe byte counter")
    elif unknown > 0.001:
        reason = f"bytes are unknown in {unknown:.1%} of the copy: the sampler was held up"
    elif other > counted:
        reason = "the other direction's counter rose more: the directions are swapped, or another process copies"
    elif not 1 - TOLERANCE <= ratio <= PACKETS * (1 + TOLERANCE):
        reason = f"the counter says {ratio:.3f} times what was copied"
    inside = (counter.start_ns >= first) & (counter.end_ns <= last)
    raw = gpu.counters[way][1:] < gpu.counters[way][:-1]
    wraps = int(np.sum(raw[: len(inside)] & inside[: len(raw)])) if len(inside) == len(raw) else counter.wraps
    known = bool(len(counter.increase)) and unknown <= 0.001
    return Direction(
        way=way,
        copied=size,
        counted=counted if known else None,
        ratio=ratio if known else None,
        other=other if known else None,
        bytes_per_second=float(copy["bytes_per_second"]),
        wraps=wraps,
        sampled_ratio=_sampled(gpu, way, begin, end, float(copy["bytes_per_second"])),
        reason=reason,
    )


def _sampled(gpu: GpuTelemetry, way: str, begin: int, end: int, speed: float) -> float | None:
    check = gpu.check
    if not len(check.get("rate", ())):
        return None
    keep = (check["begin_ns"] >= begin) & (check["end_ns"] <= end) & (check["sent"] == (1.0 if way == "tx" else 0.0))
    rates = check["rate"][keep & np.isfinite(check["rate"])]
    return float(np.median(rates)) / speed if len(rates) else None


def store_path() -> Path:
    """Return the file of this user's measured ceilings."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tpgate" / _FILE


def store(calibration: Calibration, path: Path | None = None) -> Path:
    """Keep a calibration as the newest of its GPU; written in one step."""
    target = store_path() if path is None else path
    target.parent.mkdir(parents=True, exist_ok=True)
    known = stored(target)
    known[calibration.uuid] = asdict(calibration) | {"proven": calibration.proven}
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    partial.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    partial.replace(target)
    return target


def stored(path: Path | None = None) -> dict[str, Any]:
    """Return the stored calibrations by UUID; none where the file is absent or not readable as JSON."""
    target = store_path() if path is None else path
    try:
        value = json.loads(target.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
