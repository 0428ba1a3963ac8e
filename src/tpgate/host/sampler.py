"""The sampling process: ``python -m tpgate.host.sampler``, started and read by :mod:`tpgate.host.telemetry`.

It reads counters at the asked rate, clocks and power at a tenth of a second, and the rest once a second; NVML's own
PCIe rate, which blocks for 20 ms a call, is read by a thread of its own. It ends when its standard input does, so
it cannot outlive its parent, and answers ``stop`` on it with everything it read, as one MessagePack document.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import select
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from tpgate.host import topology
from tpgate.host.link import capacity
from tpgate.host.nvml import READINGS, Gpu, Library, Missing, open_library

READY = b"ready\n"
STATE = ("link_generation", "link_width", "sm_hz", "memory_hz", "power_w", "temperature_c", "throttle")
"""Columns that are read ten times a second."""
RARE = ("memory_used", "replays", "ecc_uncorrected", "thermal_violation_ns", "nvlink_tx", "nvlink_rx")
"""Columns that are read once a second."""
ONCE = (
    "link_generation_max",
    "link_width_max",
    "link_generation_device",
    "sm_hz_max",
    "power_limit_w",
    "power_default_w",
)
"""Readings that are made once, at the start."""
BUDGET = 0.02
"""Share of a core that the counter readings may take before their rate is lowered."""
WRAP_SHARE = 0.7
"""Longest interval between counter readings, as a share of the time in which a full link wraps a 32-bit counter."""
STATE_PERIOD_NS = 100_000_000
RARE_PERIOD_NS = 1_000_000_000
_NAN = float("nan")


@dataclass(slots=True)
class Tape:
    """What was read of one GPU: columns of equal length, one row a reading, with monotonic ns at both its ends."""

    gpu: Gpu
    bits: int = 32
    counters: dict[str, array[int]] = field(
        default_factory=lambda: {name: array("q") for name in ("begin_ns", "end_ns", "tx", "rx", "energy_mj")}
    )
    state: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in ("begin_ns", "end_ns", *STATE)}
    )
    rare: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in ("begin_ns", "end_ns", *RARE)}
    )
    check: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in ("begin_ns", "end_ns", "sent", "rate")}
    )
    processes: list[tuple[int, list[tuple[int, int | None]]]] = field(default_factory=list)
    once: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def packed(self) -> dict[str, Any]:
        """Return it as plain values with the columns as bytes, ready to be sent."""
        groups = {
            name: {column: values.tobytes() for column, values in getattr(self, name).items()}
            for name in ("counters", "state", "rare", "check")
        }
        gpu = {name: getattr(self.gpu, name) for name in self.gpu.__slots__}
        rest = {"processes": self.processes, "once": self.once, "missing": self.missing}
        return {"gpu": gpu, "bits": self.bits, **groups, **rest}


@dataclass(slots=True)
class Reader:
    """Reads every GPU on its schedule until it is told to stop."""

    library: Library
    tapes: list[Tape]
    period_ns: int
    ticks: int = 0
    xids: list[tuple[int, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        """Make the readings that are made once."""
        for tape in self.tapes:
            for name in ONCE:
                self._put(tape, tape.once, name, self.library.number(tape.gpu, name))
        failed = self.library.watch_xids([tape.gpu for tape in self.tapes])
        if failed is not None:
            self.faults.append(f"XID errors are not watched: {failed.reason}")

    def affordable_period(self, readings: int = 5) -> int:
        """Return the period of the counter readings in ns: the asked one, or longer where a reading is expensive.

        Where the driver takes milliseconds of CPU for a reading (4.3 ms were seen on a virtual machine with an H200),
        the rate falls until it fits the budget, but never so far that a full link could wrap a counter unseen.
        """
        spent = time.process_time_ns()
        for _ in range(readings):
            for tape in self.tapes:
                self.library.counters(tape.gpu)
        cost = (time.process_time_ns() - spent) / readings
        links = [
            capacity(round(tape.once.get("link_generation_max", 0)), round(tape.once.get("link_width_max", 0)))
            for tape in self.tapes
        ]
        fastest = max((link for link in links if link is not None), default=None)
        longest = self.period_ns if fastest is None else round(WRAP_SHARE * 2**32 / fastest * 1e9)
        return max(self.period_ns, min(round(cost / BUDGET), longest))

    def _put(self, tape: Tape, target: dict[str, float], name: str, value: float | Missing) -> None:
        if isinstance(value, Missing):
            tape.missing.setdefault(name, value.reason)
        else:
            target[name] = float(value)

    def _row(self, tape: Tape, columns: dict[str, array[float]], begin: int, values: dict[str, Any]) -> None:
        columns["begin_ns"].append(begin)
        columns["end_ns"].append(time.perf_counter_ns())
        for name, value in values.items():
            if isinstance(value, Missing):
                tape.missing.setdefault(name, value.reason)
            columns[name].append(_NAN if isinstance(value, Missing) else float(value))

    def read_counters(self) -> None:
        """Read PCIe bytes and energy of every GPU."""
        self.ticks += 1
        for tape in self.tapes:
            begin = time.perf_counter_ns()
            value = self.library.counters(tape.gpu)
            end = time.perf_counter_ns()
            if isinstance(value, Missing):
                tape.missing.setdefault("counters", value.reason)
                tx = rx = energy = -1
            else:
                tape.bits = value.bits
                tx, rx, energy = (-1 if v is None else v for v in (value.tx, value.rx, value.energy_mj))
            for name, number in zip(tape.counters, (begin, end, tx, rx, energy), strict=True):
                tape.counters[name].append(number)

    def read_state(self, tape: Tape) -> None:
        """Read link, clocks, power, temperature and throttle reasons of one GPU."""
        begin = time.perf_counter_ns()
        values: dict[str, Any] = {n: self.library.number(tape.gpu, n) for n in STATE if n in READINGS}
        values["throttle"] = self.library.throttle(tape.gpu)
        self._row(tape, tape.state, begin, values)

    def read_rare(self, tape: Tape) -> None:
        """Read memory, errors, NVLink bytes and processes of one GPU, and collect XID errors."""
        begin, gpu = time.perf_counter_ns(), tape.gpu
        values: dict[str, Any] = {n: self.library.number(gpu, n) for n in RARE if n in READINGS}
        values["memory_used"] = self.library.memory_used(gpu)
        values["thermal_violation_ns"] = self.library.thermal_violation_ns(gpu)
        links = self.library.nvlink_bytes(gpu)
        for at, name in enumerate(("nvlink_tx", "nvlink_rx")):
            values[name] = links if isinstance(links, Missing) else links[at]
        self._row(tape, tape.rare, begin, values)
        while (xid := self.library.xid()) is not None:
            self.xids.append((time.perf_counter_ns(), xid))

    def read_processes(self, tape: Tape) -> None:
        """Read the processes on one GPU."""
        begin, found = time.perf_counter_ns(), self.library.processes(tape.gpu)
        if isinstance(found, Missing):
            tape.missing.setdefault("processes", found.reason)
        else:
            tape.processes.append((begin, [(p.pid, p.memory_bytes) for p in found]))

    def cross_check(self, every_s: float) -> None:
        """Read NVML's own rate, one direction of one GPU at a time, until stopped; runs in a thread of its own."""
        turn = 0
        while not self.stopped.wait(every_s):
            tape, sent = self.tapes[turn // 2 % len(self.tapes)], turn % 2 == 0
            begin = time.perf_counter_ns()
            value = self.library.throughput(tape.gpu, sent=sent)
            self._row(tape, tape.check, begin, {"sent": float(sent), "rate": value})
            turn += 1

    def run(self, source: io.FileIO) -> bool:
        """Read on schedule until ``source`` says stop (True) or ends (False).

        Counters come first: everything else is done GPU by GPU between two of their readings, so that a slow call
        delays one reading and not several. A late tick is skipped, never caught up.
        """
        parent = os.getppid()
        due = due_state = due_rare = time.perf_counter_ns()
        pending: deque[tuple[Callable[[Tape], None], Tape]] = deque()
        while True:
            now = time.perf_counter_ns()
            if now >= due:
                self.read_counters()
                due += self.period_ns * max(1, -(-(now - due) // self.period_ns))
            if now >= due_rare and not pending:
                if os.getppid() != parent:  # a fork of the parent may hold the pipe open after it died
                    return False
                pending.extend((job, tape) for tape in self.tapes for job in (self.read_rare, self.read_processes))
                due_rare = max(due_rare + RARE_PERIOD_NS, now)
            if now >= due_state and not pending:
                pending.extend((self.read_state, tape) for tape in self.tapes)
                due_state = max(due_state + STATE_PERIOD_NS, now)
            if pending:
                job, tape = pending.popleft()
                job(tape)
            wait = 0.0 if pending else max(0.0, (due - time.perf_counter_ns()) / 1e9)
            if select.select([source], [], [], wait)[0]:
                word = source.readline()
                self.read_counters()
                for tape in self.tapes:
                    self.read_rare(tape)
                return word.startswith(b"stop")


def sample(library: Library, uuids: Sequence[str] | None, rate_hz: float, source: io.FileIO, sink: BinaryIO) -> int:
    """Sample until ``source`` says stop and write the document to ``sink``; the exit code is returned."""
    known = library.gpus()
    if isinstance(known, Missing):
        return _refuse(sink, known.reason)
    wanted = [gpu for gpu in known if uuids is None or gpu.uuid in uuids]
    absent = sorted(set(uuids or ()) - {gpu.uuid for gpu in known})
    if absent or not wanted:
        return _refuse(sink, f"NVML does not show GPU {', '.join(absent)}" if absent else "NVML shows no GPU")
    reader = Reader(library, [Tape(gpu) for gpu in wanted], round(1e9 / rate_hz))
    reader.open()
    reader.period_ns = reader.affordable_period()
    checker = threading.Thread(target=reader.cross_check, args=(0.5,), daemon=True)
    started_ns, wall_ns, cpu = time.perf_counter_ns(), time.time_ns(), time.process_time()
    sink.write(READY)
    sink.flush()
    checker.start()
    asked = reader.run(source)
    ended_ns, cpu = time.perf_counter_ns(), time.process_time() - cpu
    reader.stopped.set()
    checker.join(timeout=2.0)
    if not asked:
        return 1
    document = {
        "started_ns": started_ns,
        "ended_ns": ended_ns,
        "wall_start_unix_ns": wall_ns,
        "rate_hz": 1e9 / reader.period_ns,
        "topology": topology.describe(library, wanted),
        "ticks": reader.ticks,
        "cpu_s": cpu,
        "faults": reader.faults,
        "xids": reader.xids,
        "tapes": [tape.packed() for tape in reader.tapes],
    }
    sink.write(msgspec.msgpack.encode(document))
    sink.flush()
    return 0


def _refuse(sink: BinaryIO, reason: str) -> int:
    sink.write(b"none " + reason.replace("\n", " ").encode() + b"\n")
    sink.flush()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sampling process."""
    parser = argparse.ArgumentParser(prog="python -m tpgate.host.sampler", description=__doc__)
    parser.add_argument("--rate", type=float, default=50.0, help="readings a second")
    parser.add_argument("--gpu", action="append", metavar="UUID", help="a GPU to watch; all without it")
    arguments = parser.parse_args(argv)
    with contextlib.suppress(PermissionError):
        os.nice(-5)  # where it may: a reading that comes late is a span in which a 32-bit counter cannot be known
    library = open_library()
    if isinstance(library, Missing):
        return _refuse(sys.stdout.buffer, library.reason)
    with library, open(0, "rb", buffering=0, closefd=False) as source:
        return sample(library, arguments.gpu, arguments.rate, source, sys.stdout.buffer)


if __name__ == "__main__":
    sys.exit(main())
