"""Which processes belong to a launch: read from /proc, by marker variable, session and descent.

A launch marks its processes with an environment variable that children inherit, so a worker that was re-parented to
PID 1, or made a session of its own, is still found. The caller and its ancestors are never part of an answer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MARKER = "TPGATE_LAUNCH_ID"
"""Variable that marks every process of a launch."""
OWNER = "TPGATE_LAUNCH_OWNER"
"""Variable that names the process that launched it: pid and start time in clock ticks since boot."""


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table.

    Attributes:
        pid: Process id.
        parent: Parent's process id.
        session: Session id.
        state: One letter; Z is a zombie, which holds nothing but its number.
        started_ticks: Start, in clock ticks since boot; with the pid it names a process for good.
        title: Command line, or the name where that is empty.
    """

    pid: int
    parent: int
    session: int
    state: str
    started_ticks: int
    title: str

    @property
    def age_s(self) -> float:
        """Seconds since the process started."""
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - self.started_ticks / os.sysconf("SC_CLK_TCK"))

    def describe(self) -> str:
        """Return pid and command line for people."""
        return f"pid {self.pid} ({self.title[:80]})"


def read(pid: int) -> Process | None:
    """Return the process ``pid``, or None where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    if len(fields) < 20:
        return None
    title = command.replace(b"\0", b" ").decode("utf-8", "replace").strip() or name
    return Process(pid, int(fields[1]), int(fields[3]), fields[0], int(fields[19]), title)


def table() -> dict[int, Process]:
    """Return all processes that can be seen and are no zombies, by pid."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208 - names alone, no stat
    found = {pid: process for pid in pids if (process := read(pid)) is not None}
    return {pid: process for pid, process in found.items() if process.state not in "ZX"}


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which ``pid`` was started; empty where it may not be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    entries = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in entries}


def lineage(processes: dict[int, Process] | None = None) -> set[int]:
    """Return the caller's pid and those of its ancestors, which no sweep may touch."""
    known = table() if processes is None else processes
    pid, mine = os.getpid(), set[int]()
    while pid > 0 and pid not in mine:
        mine.add(pid)
        pid = known[pid].parent if pid in known else 0
    return mine


def descendants(roots: Iterable[int], processes: dict[int, Process]) -> set[int]:
    """Return the pids below ``roots``, without the roots."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found


def members(launch_id: str, *, session: int | None = None, roots: Iterable[int] = ()) -> dict[int, Process]:
    """Return the live processes of a launch: marked, of its session, or descended from ``roots`` (included)."""
    processes = table()
    below = descendants(roots, processes) | set(roots)
    mine = lineage(processes)
    return {
        pid: process
        for pid, process in processes.items()
        if pid not in mine
        and (pid in below or process.session == session or environment_of(pid).get(MARKER) == launch_id)
    }


def same(process: Process) -> bool:
    """Tell whether ``process`` still lives: its pid is taken by the very process, not by a later one."""
    now = read(process.pid)
    return now is not None and now.state not in "ZX" and now.started_ticks == process.started_ticks


def send(number: signal.Signals, processes: Iterable[Process]) -> None:
    """Send a signal to those of ``processes`` that still live."""
    for process in processes:
        if same(process):
            try:
                os.kill(process.pid, number)
            except (ProcessLookupError, PermissionError):
                continue


def end(find: Callable[[], dict[int, Process]], *, grace_s: float, kill_s: float = 10.0) -> dict[int, Process]:
    """End the processes that ``find`` returns: SIGTERM, a bounded wait, SIGKILL again and again, a bounded wait.

    Args:
        find: Returns the processes that are still there; called anew each time, so late children are found as well.
        grace_s: Seconds between SIGTERM and SIGKILL, at most.
        kill_s: Seconds of SIGKILL, at most.

    Returns:
        What is left, by pid; empty where all is gone.
    """
    left = find()
    send(signal.SIGTERM, left.values())
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = find()
    deadline = time.monotonic() + kill_s
    while left and time.monotonic() < deadline:
        send(signal.SIGKILL, left.values())
        time.sleep(0.05)
        left = find()
    return left
