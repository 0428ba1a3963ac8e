"""Telemetry of the GPUs during a measurement, taken by a process of its own (:mod:`tpgate.host.sampler`).

Every reading carries CLOCK_MONOTONIC nanoseconds from both its ends; on Linux that is the clock of
``time.perf_counter_ns``, so series and request records share one time axis.
"""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tpgate.host.counters import Unwrapped, unwrap
from tpgate.host.link import capacity
from tpgate.host.nvml import Gpu
from tpgate.host.sampler import READY

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FASTEST_LINK = capacity(6, 16) or 0.0
"""Bound in B/s for a link that cannot be read."""
_START_S = 30.0
_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class GpuTelemetry:
    """What was read of one GPU. Columns of a group have one length; a reading that failed is -1 or NaN.

    Attributes:
        gpu: The GPU.
        bits: Width of its byte counters.
        counters: begin_ns, end_ns, tx, rx (raw bytes), energy_mj.
        state: begin_ns, end_ns, and the columns of ``sampler.STATE`` in base units.
        rare: begin_ns, end_ns, and the columns of ``sampler.RARE``.
        check: begin_ns, end_ns, sent (1 or 0), rate (B/s by NVML's own estimate).
        processes: (monotonic ns, ((pid, bytes or None), ...)) once a second.
        once: Readings made at the start: maximum link and clock, power limits.
        missing: Reading to the reason why it is not there.
    """

    gpu: Gpu
    bits: int = 32
    counters: Mapping[str, Ints] = field(default_factory=dict)
    state: Mapping[str, Floats] = field(default_factory=dict)
    rare: Mapping[str, Floats] = field(default_factory=dict)
    check: Mapping[str, Floats] = field(default_factory=dict)
    processes: tuple[tuple[int, tuple[tuple[int, int | None], ...]], ...] = ()
    once: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def between(self, column: str, start_ns: int, end_ns: int) -> Floats:
        """Return the finite values of a ``state`` or ``rare`` column that were read between two moments."""
        group = self.state if column in self.state else self.rare
        if column not in group:
            return np.empty(0)
        keep = (group["begin_ns"] >= start_ns) & (group["end_ns"] <= end_ns) & np.isfinite(group[column])
        return group[column][keep]

    def link_capacity(self) -> float | None:
        """Return the most that the link can carry each way in B/s, from its maximum; None where it was not read."""
        generation, width = self.once.get("link_generation_max"), self.once.get("link_width_max")
        return None if generation is None or width is None else capacity(int(generation), int(width))

    def bytes_of(self, direction: str) -> Unwrapped:
        """Return the increases of the ``tx`` or ``rx`` byte counter."""
        columns = self.counters
        bound = self.link_capacity() or FASTEST_LINK
        return unwrap(columns["begin_ns"], columns["end_ns"], columns[direction], bits=self.bits, capacity=bound)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What one sampler saw.

    Attributes:
        gpus: One entry a GPU; empty where nothing was measured.
        started_ns: Monotonic time of the first reading.
        ended_ns: Of the last.
        wall_start_unix_ns: Wall clock at ``started_ns``; a label.
        rate_hz: Readings a second that were asked for.
        achieved_hz: Readings a second that were made.
        cpu_share: CPU time of the sampling process over wall time, 1.0 being one core.
        faults: What went wrong on the way.
        xids: (monotonic ns, XID) of every GPU error that the driver reported.
        topology: How the GPUs reach each other, as :func:`tpgate.host.topology.describe` says it.
        reason: Why nothing was measured, or None.
    """

    gpus: tuple[GpuTelemetry, ...] = ()
    started_ns: int = 0
    ended_ns: int = 0
    wall_start_unix_ns: int = 0
    rate_hz: float = 0.0
    achieved_hz: float = 0.0
    cpu_share: float = 0.0
    faults: tuple[str, ...] = ()
    xids: tuple[tuple[int, int], ...] = ()
    topology: str = "none"
    reason: str | None = None

    @classmethod
    def empty(cls, reason: str) -> Telemetry:
        """Return telemetry of nothing, with the reason."""
        return cls(reason=reason)


def decode(document: bytes) -> Telemetry:
    """Return the telemetry in a sampler's document."""
    value = msgspec.msgpack.decode(document)
    seconds = max(value["ended_ns"] - value["started_ns"], 1) / 1e9
    return Telemetry(
        gpus=tuple(_gpu(tape) for tape in value["tapes"]),
        started_ns=value["started_ns"],
        ended_ns=value["ended_ns"],
        wall_start_unix_ns=value["wall_start_unix_ns"],
        rate_hz=value["rate_hz"],
        achieved_hz=value["ticks"] / seconds,
        cpu_share=value["cpu_s"] / seconds,
        faults=tuple(value["faults"]),
        xids=tuple((at, xid) for at, xid in value["xids"]),
        topology=value["topology"],
    )


def _gpu(tape: dict[str, Any]) -> GpuTelemetry:
    def group(name: str, kind: type[np.generic]) -> dict[str, Any]:
        return {column: np.frombuffer(raw, kind) for column, raw in tape[name].items()}

    return GpuTelemetry(
        gpu=Gpu(**tape["gpu"]),
        bits=tape["bits"],
        counters=group("counters", np.int64),
        state=group("state", np.float64),
        rare=group("rare", np.float64),
        check=group("check", np.float64),
        processes=tuple((at, tuple((pid, used) for pid, used in found)) for at, found in tape["processes"]),
        once=tape["once"],
        missing=tape["missing"],
    )


class Sampler:
    """Samples GPUs in a process of its own between :meth:`start` and :meth:`stop`.

    It never disturbs the load client, dies with its parent, and never raises for what the machine lacks: the
    telemetry then says why nothing was measured.

    Args:
        gpu_uuids: GPUs to watch; None means all, an empty sequence none (a server without GPUs here).
        rate_hz: Counter readings a second; at 50 a 32-bit counter cannot wrap unseen on a Gen5 x16 link.
    """

    def __init__(self, gpu_uuids: Sequence[str] | None, rate_hz: float = 50.0) -> None:
        if rate_hz <= 0:
            raise ValueError(f"rate_hz is {rate_hz}, must be above 0")
        self._uuids = None if gpu_uuids is None else tuple(gpu_uuids)
        self._rate_hz = rate_hz
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._refusal: str | None = None

    def start(self) -> None:
        """Start the process and wait until it samples."""
        if self._uuids == ():
            self._refusal = "the server uses no GPU of this machine"
            return
        words = [sys.executable, "-P", "-m", "tpgate.host.sampler", "--rate", str(self._rate_hz)]
        for uuid in self._uuids or ():
            words += ["--gpu", uuid]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0, start_new_session=True
        )
        line = self._first_line(self._process)
        if line == READY:
            return
        if line.startswith(b"none "):
            self._refusal = line[5:].decode(errors="replace").strip()
        else:
            self._refusal = f"the sampling process did not start: {self._last_words()}"
        self._end()

    def stop(self) -> Telemetry:
        """Stop sampling and return what was read."""
        if self._process is None or self._refusal is not None:
            return Telemetry.empty(self._refusal or "the sampler was not started")
        process = self._process
        try:
            document, _ = process.communicate(b"stop\n", timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            reason = f"the sampling process did not answer within {_STOP_S:.0f} s"
            self._end()
            return Telemetry.empty(reason)
        reason = f"the sampling process ended with {process.returncode}: {self._last_words()}"
        self._end()
        if process.returncode != 0 or not document:
            return Telemetry.empty(reason)
        return decode(document)

    @staticmethod
    def _first_line(process: subprocess.Popen[bytes]) -> bytes:
        """Return the first line, read byte by byte so that nothing after it is taken; shorter after the time-out."""
        assert process.stdout is not None  # noqa: S101 - it was asked for above
        deadline, line = time.monotonic() + _START_S, b""
        while not line.endswith(b"\n") and (left := deadline - time.monotonic()) > 0:
            if not select.select([process.stdout], [], [], left)[0] or not (byte := process.stdout.read(1)):
                break
            line += byte
        return line

    def _last_words(self) -> str:
        if self._errors is None:
            return "it said nothing"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _end(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None
