"""Run one night: a fresh folder, room on the disk, the host to ourselves, a deadline before the job's own.

    night.py --state DIR --night ID --minutes N [--free-gib G] [--scenario NAME]... [-- COMMAND...]

The command's exit code is kept. Everything else that goes wrong (no room, host taken, deadline, cancelled) ends with
6 and stands in STATE/nights/ID/night.json, which is written before the command starts: a night that was killed is
seen as one that never ended. Without a COMMAND, pytest measures the scenarios. Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any

INFRASTRUCTURE = 6
USAGE = 2
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


class NotStartedError(Exception):
    """Why the night could not begin."""


def write(path: Path, value: dict[str, Any]) -> None:
    """Write JSON so that a reader sees the old file or the new one."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)


def prepare(folder: Path, free_gib: float) -> None:
    """Make the night's own folder, with room for traces below it.

    Raises:
        NotStartedError: It exists already (figures of another run must never be shown as this one's), or no room.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free / 2**30
    if free < free_gib:
        raise NotStartedError(f"{folder.parent}: {free:.1f} GiB are free, {free_gib:g} are needed; remove old nights")
    try:
        folder.mkdir()
    except FileExistsError:
        raise NotStartedError(f"{folder} exists already: a night never writes into another one's folder") from None


def take_host(state: Path, night: str) -> IO[str]:
    """Take the host's lock for as long as the returned file stays open.

    Raises:
        NotStartedError: Another night holds it.
    """
    lock = (state / "host.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise NotStartedError(f"the host is taken by night {lock.read().strip() or '(unnamed)'}") from None
    lock.truncate(0)
    lock.write(night)
    lock.flush()
    return lock


class Night:
    """One running command with its deadline; ended by group, so that nothing of it stays."""

    def __init__(self, command: list[str], seconds: float, environment: dict[str, str]) -> None:
        """Start the command in a session of its own."""
        self.status = "finished"
        self.grace_s = 60.0
        self.end_at = time.monotonic() + seconds
        self.process = subprocess.Popen(command, env=environment, start_new_session=True)

    def cancel(self, _signal: int, _frame: FrameType | None) -> None:
        """Note that the job was cancelled; the runner kills it about ten seconds later."""
        self.status, self.grace_s = "cancelled", 4.0
        self.end_at = min(self.end_at, time.monotonic())

    def wait(self) -> int:
        """Return the exit code that the night ends with."""
        while self.process.poll() is None and time.monotonic() < self.end_at:
            time.sleep(0.05)
        if self.process.poll() is None:
            if self.status == "finished":
                self.status = "deadline"
            self.stop()
        self.signal_group(signal.SIGKILL)
        code = self.process.returncode
        if self.status != "finished":
            return INFRASTRUCTURE
        return code if code >= 0 else INFRASTRUCTURE

    def stop(self) -> None:
        """End the group: SIGINT, so that results are written; then SIGTERM; then SIGKILL."""
        for number, seconds in ((signal.SIGINT, self.grace_s), (signal.SIGTERM, self.grace_s / 2), (signal.SIGKILL, 5)):
            self.signal_group(number)
            try:
                self.process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                continue
            return

    def signal_group(self, number: int) -> None:
        """Signal everything that is left in the command's group."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return


def measure_command(scenarios: list[str], results: Path) -> list[str]:
    """Return the pytest command of a night."""
    bad = [name for name in scenarios if not NAME.fullmatch(name)]
    if bad or not scenarios:
        raise NotStartedError(f"scenarios {bad or scenarios}: expected at least one lower-case name")
    command = [sys.executable, "-m", "pytest", "perf_tests", "-m", "gpu", "--tpgate-results", str(results)]
    command += [word for name in scenarios for word in ("--tpgate-scenario", name)]
    python = os.environ.get("TPGATE_SERVER_PYTHON")
    command += ["--tpgate-server-python", python] if python else []
    return [*command, f"--junitxml={results / 'junit.xml'}"]


def run(options: argparse.Namespace) -> int:
    """Run the night and return its exit code."""
    folder = options.state / "nights" / options.night
    prepare(folder, options.free_gib)
    record = {"night": options.night, "status": "running", "exit_code": None, "scenarios": options.scenario}
    record["commit"] = os.environ.get("GITHUB_SHA")
    record["started_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write(folder / "night.json", record)
    with take_host(options.state, options.night):
        command = options.command or measure_command(options.scenario, folder / "results")
        night = Night(command, options.minutes * 60, {**os.environ, "TPGATE_NIGHT": options.night})
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, night.cancel)
        code = night.wait()
    record["ended_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write(folder / "night.json", {**record, "status": night.status, "exit_code": code})
    if night.status != "finished":
        sys.stdout.write(f"::error title=night {options.night}::{night.status} before the measurement ended\n")
    return code


def main(words: list[str]) -> int:
    """Read the options, run the night, and turn what kept it from starting into exit code 6."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="folder outside the workspace that holds the nights")
    parser.add_argument("--night", required=True, help="unique name of the night")
    parser.add_argument("--minutes", type=float, required=True, help="deadline, well before the job's own")
    parser.add_argument("--free-gib", type=float, default=20.0, help="room for results and traces (%(default)s)")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME")
    before, _, command = _split(words)
    options = parser.parse_args(before)
    options.command = command
    options.scenario += os.environ.get("TPGATE_SCENARIOS", "").split()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", options.night):
        parser.error(f"--night {options.night!r}: letters, digits, _ . and - only")
    try:
        return run(options)
    except NotStartedError as error:
        sys.stdout.write(f"::error title=night not started::{error}\n")
    except OSError as error:
        sys.stdout.write(f"::error title=night not started::{error.filename or options.state}: {error.strerror}\n")
    return INFRASTRUCTURE


def _split(words: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" not in words:
        return words, "", []
    place = words.index("--")
    return words[:place], "--", words[place + 1 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
