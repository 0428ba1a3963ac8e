"""``python -m tpgate.server.supervisor``: holds one server, and ends it when its own parent goes away.

It reads one JSON line from standard input (argv, environment, log, folder, grace) and keeps that pipe open: its end
says that the parent died, whatever killed it. As a child subreaper it inherits every worker that is orphaned, so the
tree below it is complete. It writes one line to standard output, the server's pid, and ends with the server's status.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tpgate.redaction import secret_values
from tpgate.server import census
from tpgate.server.concealed import conceal_file

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.2
COULD_NOT_START = 127


def main() -> int:
    """Run one server to its end and return its exit status; 128 + n where signal n ended it."""
    asked = json.loads(sys.stdin.buffer.readline())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: told.append(received))
    server = _spawn(asked, libc)
    if server is None:
        return COULD_NOT_START
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    parent = os.getppid()
    while server.poll() is None and not told and not _parent_gone(parent):
        _reap(server.pid)
    status = _end(server, str(asked["environment"][census.MARKER]), float(asked["grace_s"]))
    if os.getppid() != parent:  # whoever else would have done it is gone
        conceal_file(Path(asked["log"]), secret_values(asked["argv"], asked["environment"]))
    return status if status >= 0 else 128 - status


def _spawn(asked: dict[str, Any], libc: ctypes.CDLL) -> subprocess.Popen[bytes] | None:
    def die_with_supervisor() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    with Path(asked["log"]).open("ab", buffering=0) as log:
        try:
            return subprocess.Popen(
                asked["argv"],
                env=asked["environment"],
                cwd=asked["folder"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_supervisor,
            )
        except OSError as error:
            log.write(f"{asked['argv'][0]}: {error}\n".encode())
            return None


def _parent_gone(parent: int) -> bool:
    """Wait a moment on the pipe from the parent; anything that comes is its end."""
    readable, _, _ = select.select([0], [], [], POLL_S)
    if readable and not os.read(0, 4096):
        return True
    return os.getppid() != parent


def _reap(server: int) -> None:
    """Collect orphans that ended, and never the server, whose status :class:`subprocess.Popen` collects."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == server:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def _end(server: subprocess.Popen[bytes], launch_id: str, grace_s: float) -> int:
    def left() -> dict[int, census.Process]:
        server.poll()
        _reap(server.pid)
        return census.members(launch_id, session=server.pid, roots=census.descendants([os.getpid()], census.table()))

    census.end(left, grace_s=grace_s)
    deadline = time.monotonic() + 1.0
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    status = server.poll()
    return 0 if status is None else status


if __name__ == "__main__":
    sys.exit(main())
