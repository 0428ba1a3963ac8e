"""Servers that earlier runs left behind, found by their marker variable; ended only on request."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tpgate.server import census


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process of a launch whose owner is gone.

    Attributes:
        launch_id: The launch.
        process: The process.
        user: Name of its user.
    """

    launch_id: str
    process: census.Process
    user: str

    def describe(self) -> str:
        """Return who it is, whose and how old, as one line."""
        minutes = self.process.age_s / 60
        return f"{self.process.describe()} of user {self.user}, {minutes:.0f} min old, launch {self.launch_id}"


def find() -> list[Leftover]:
    """Return the processes of launches whose owner no longer lives, oldest first.

    A server of a run in progress is not among them. Processes of other users are seen only where their environment may
    be read, and processes of other containers are left out: whether their owner lives cannot be told from here.
    """
    mine, namespace = census.lineage(), _namespace("self")
    found = []
    for pid, process in census.table().items():
        if pid in mine:
            continue
        marks = census.environment_of(pid)
        launch_id = marks.get(census.MARKER)
        if launch_id is None or _namespace(pid) != namespace or _lives(marks.get(census.OWNER, "")):
            continue
        found.append(Leftover(launch_id, process, _user(pid)))
    return sorted(found, key=lambda leftover: leftover.process.started_ticks)


def end(leftovers: Iterable[Leftover], *, grace_s: float = 10.0) -> list[Leftover]:
    """End these processes and return those that are still there after SIGTERM, a wait and SIGKILL."""
    wanted = {leftover.process.pid: leftover for leftover in leftovers}

    def left() -> dict[int, census.Process]:
        return {pid: leftover.process for pid, leftover in wanted.items() if census.same(leftover.process)}

    return [wanted[pid] for pid in census.end(left, grace_s=grace_s)]


def _lives(owner: str) -> bool:
    pid, _, started = owner.partition(":")
    process = census.read(int(pid)) if pid.isdigit() else None
    return process is not None and process.state not in "ZX" and str(process.started_ticks) == started


def _namespace(pid: int | str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - not a real path
    except OSError:
        return None


def _user(pid: int) -> str:
    try:
        number = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
