"""Starts the truth server: the C one where a compiler is at hand, else a Python one that logs its own lateness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from tpgate.errors import LoadError
from tpgate.load.truth.build import build
from tpgate.load.truth.emissions import Emission, emissions

Fault = Literal["none", "http503", "errorevent", "cut", "silent", "nodone", "short", "endless"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the server emits what.

    Attributes:
        tick_us: All streams step together, once a tick.
        first_us: The first token comes at the first tick at least this long after the arrival.
        chunk: Tokens an event.
        cumulative: Whether /generate repeats text and ids from the start in every event.
        split: Whether every event goes out in two packets, the second after all streams' first ones.
        merge: Events that are held back and written at once.
        slots: Requests that run at a time; the others wait in order. 0 is no limit.
        fault: What goes wrong with some requests, half-way through.
        every: Every how many requests; 0 is never.
        stall_tick: Tick (counted while there is work) before which the server sleeps; 0 is never.
        stall_us: How long it sleeps.
    """

    tick_us: int = 20_000
    first_us: int = 50_000
    chunk: int = 1
    cumulative: bool = False
    split: bool = False
    merge: int = 1
    slots: int = 0
    fault: Fault = "none"
    every: int = 0
    stall_tick: int = 0
    stall_us: int = 0

    def arguments(self) -> list[str]:
        """Return the server's command-line arguments."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return [f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in values.items()]


@dataclass(frozen=True, slots=True)
class TruthServer:
    """A running truth server.

    Attributes:
        url: Its base URL.
        pid: Its process.
        native: Whether it is the C server.
        log: Its log; whole once the server has no request on its way.
    """

    url: str
    pid: int
    native: bool
    log: Path

    def emissions(self) -> list[Emission]:
        """Return the log so far."""
        return emissions(self.log)


@contextmanager
def start(
    schedule: Schedule = Schedule(),
    *,
    cpus: frozenset[int] = frozenset(),
    native: bool | None = None,
    folder: Path | None = None,
) -> Iterator[TruthServer]:
    """Start the server on a free port of the loopback and stop it at the end.

    Args:
        schedule: What it does.
        cpus: Cores to keep it on; empty leaves that to the system.
        native: True insists on the C server, False on the Python one; None takes the C one where it can be built.
        folder: Where the log goes; a temporary folder unless given.

    Raises:
        LoadError: ``native`` is True and the C server cannot be built, or the server did not start.
    """
    binary = None if native is False else build()
    if native and binary is None:
        raise LoadError("the truth server cannot be built", expected="a C compiler", next_step="install cc, or set CC")
    with tempfile.TemporaryDirectory(prefix="tpgate-truth-") as temporary:
        log = (folder or Path(temporary)) / "emissions.bin"
        command = [str(binary)] if binary else [sys.executable, "-m", "tpgate.load.truth.fallback"]
        process = subprocess.Popen(
            [*command, f"log={log}", *schedule.arguments()], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            if cpus:
                os.sched_setaffinity(process.pid, cpus)
            line = process.stdout.readline()
            if not line.strip().isdigit():
                raise LoadError("the truth server did not start", next_step=f"run {' '.join(command)} by hand")
            yield TruthServer(f"http://127.0.0.1:{line.strip()}", process.pid, binary is not None, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
