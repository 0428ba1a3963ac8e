"""End what earlier measurements left on this host, at the start and at the end of a job; standard library only.

A launch marks its processes with TPGATE_LAUNCH_ID, which children inherit, and names the process that owns it in
TPGATE_LAUNCH_OWNER (pid and start time). A marked process whose owner is gone is a leftover and is ended; one whose
owner lives is somebody's measurement: this job must not share the host with it and ends with 6.

Processes are looked for again until a look finds none, since one that is being ended can still start another.

    sweep.py [--seconds N] [--launch-prefix TEXT] [--check-owner FOLDER]...
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

INFRASTRUCTURE = 6


def environment_of(pid: int) -> dict[str, str]:
    """Return the variables with which a process was started; empty where they may not be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def started(pid: int) -> str | None:
    """Return a process's start time in clock ticks, or None where it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def owner_lives(owner: str) -> bool:
    """Return whether the process that ``pid start-time`` names is still that process."""
    words = owner.replace(":", " ").replace(",", " ").split()
    if len(words) != 2 or not words[0].isdigit():
        return False
    return started(int(words[0])) == words[1]


def marked(prefix: str = "") -> tuple[list[int], list[int]]:
    """Return (leftovers, pids whose owner lives) of launches whose id begins with ``prefix``, this process apart."""
    left, held = [], []
    family = {os.getpid(), os.getppid()}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in family:
            continue
        pid = int(entry.name)
        found = environment_of(pid)
        launch = found.get("TPGATE_LAUNCH_ID")
        if launch is None or not launch.startswith(prefix) or started(pid) is None:
            continue
        (held if owner_lives(found.get("TPGATE_LAUNCH_OWNER", "")) else left).append(pid)
    return sorted(left), sorted(held)


def name_of(pid: int) -> str:
    """Return pid and command line."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        command = ""
    return f"pid {pid} {command[:100]}".rstrip()


def sweep(seconds: float, prefix: str = "") -> list[int]:
    """End leftovers, first with SIGTERM, after a third of the time with SIGKILL; return those that are still there."""
    begin = time.monotonic()
    asked: set[int] = set()
    while True:
        left, _ = marked(prefix)
        age = time.monotonic() - begin
        if not left or age > seconds:
            return left
        for pid in left:
            harsh = age > seconds / 3
            if pid in asked and not harsh:
                continue
            sys.stdout.write(f"ending {name_of(pid)}\n")
            asked.add(pid)
            try:
                os.kill(pid, signal.SIGKILL if harsh else signal.SIGTERM)
            except ProcessLookupError:
                continue
            except PermissionError:
                return left
        time.sleep(0.05)


def foreign_files(folder: Path, limit: int = 5) -> list[Path]:
    """Return some files below ``folder`` that belong to another user: they would break the next checkout."""
    found: list[Path] = []
    for root, names, files in os.walk(folder):
        for name in [*names, *files]:
            path = Path(root, name)
            if path.lstat().st_uid != os.getuid():
                found.append(path)
                if len(found) >= limit:
                    return found
    return found


def main(words: list[str]) -> int:
    """Sweep, and return 0 where the host is clear, else 6."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="time for the sweep (%(default)s)")
    parser.add_argument("--launch-prefix", default="", metavar="TEXT", help="only launches whose id begins so")
    parser.add_argument("--check-owner", type=Path, action="append", default=[], metavar="FOLDER")
    options = parser.parse_args(words)
    left = sweep(options.seconds, options.launch_prefix)
    _, held = marked(options.launch_prefix)
    problems = [f"cannot be ended: {name_of(pid)}" for pid in left]
    problems += [f"another measurement is running: {name_of(pid)}" for pid in held]
    for folder in options.check_owner:
        problems += [
            f"{path} belongs to another user: sudo chown -R {os.getuid()} {folder}" for path in foreign_files(folder)
        ]
    for problem in problems:
        sys.stdout.write(f"::error title=the host is not clear::{problem}\n")
    if not problems:
        sys.stdout.write("the host is clear of earlier measurements\n")
    return INFRASTRUCTURE if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
