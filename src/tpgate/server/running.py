"""A server that this process started: what is known of it, whether it lives, and its end with proof of release."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tpgate.errors import ServerError
from tpgate.redaction import conceal
from tpgate.server import census, engine, exits, ports
from tpgate.server.concealed import conceal_file

GpuPids = Callable[[], Mapping[int, object]]
"""Returns the processes that hold GPU memory, by pid."""

GRACE_S = 10.0
"""Seconds between SIGTERM and SIGKILL."""
RELEASE_S = 30.0
"""Seconds that the release of processes, port and GPU memory may take after that."""
TAIL_LINES = 25


@dataclass(eq=False)
class RunningServer:
    """A server that this process started. Leaving its ``with`` block stops it.

    Attributes:
        url: Its address.
        process: The supervisor that holds it; ends with the server's exit status.
        session: Session and process-group id of the server, which is its main process's pid.
        launch_id: Value of the marker variable in each of its processes.
        command: What was executed.
        log_path: Its output.
        gpu_pids: Tells who holds GPU memory, for the proof of release.
        version: Version that it says it is.
        info: Its /server_info at the start.
        startup_s: Seconds from its start to its first completed token.
        notes: What a reader of the results should know about its start.
        seen: Every process id that it was seen to have.
        foreign_port: Somebody else holds its port, so that the port says nothing about its end.
    """

    url: str
    process: subprocess.Popen[bytes]
    session: int
    launch_id: str
    command: engine.Command
    log_path: Path
    gpu_pids: GpuPids | None = None
    version: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    startup_s: float = 0.0
    notes: tuple[str, ...] = ()
    seen: set[int] = field(default_factory=set)
    foreign_port: bool = False
    _workers: dict[int, census.Process] = field(default_factory=dict)
    _stopped: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The server's command line."""
        return self.command.argv

    def pids(self) -> set[int]:
        """Return the server's live processes, without the supervisor."""
        roots = [] if self.process.poll() is not None else [self.process.pid]
        found = set(census.members(self.launch_id, session=self.session, roots=roots)) - {self.process.pid}
        self.seen |= found
        return found

    def alive(self) -> str | None:
        """Return None while the server and all its workers live, else what is wrong; no request is made."""
        if self._stopped:
            return "the server was stopped"
        status = self.process.poll()
        if status is not None:
            return f"the server ended with status {status}"
        main = census.read(self.session)
        if main is None or main.state in "ZX":
            return self._ended()
        for worker in self._workers.values():
            if not census.same(worker):
                return f"the server's worker {worker.describe()} is gone"
        return None

    def _ended(self) -> str:
        """Return the status of a server whose main process is gone, once the supervisor knows it."""
        try:
            return f"the server ended with status {self.process.wait(2 * GRACE_S)}"
        except subprocess.TimeoutExpired:
            return f"the server's main process {self.session} is gone"

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines of the server's log, without secrets."""
        return conceal(tail(self.log_path, lines), self.command.secrets)

    def remember_workers(self) -> None:
        """Note the processes that must live as long as the server: its worker processes of now."""
        processes = census.table()
        mine = {pid: processes[pid] for pid in self.pids() if pid in processes}
        self._workers = {
            pid: process
            for pid, process in mine.items()
            if process.title.startswith("sglang::") or "--multiprocessing-fork" in process.title
        }

    def stop(self) -> None:
        """End the server and prove that its processes, its port and its GPU memory are gone; a second call is nothing.

        Raises:
            ServerError: Something of the server is left; it is named.
        """
        if self._stopped:
            return
        self._stopped = True
        exits.forget(id(self))
        with exits.interrupt_later():
            self.pids()
            left = _end(self)
            conceal_file(self.log_path, self.command.secrets)
        if left:
            raise ServerError(
                f"server {self.url} was stopped, but {'; '.join(left)}",
                expected="no process, port or GPU memory of it",
                next_step="look for leftovers: tpgate doctor",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()


def tail(path: Path, lines: int, size: int = 65536) -> str:
    """Return the last ``lines`` lines of a file, of its last ``size`` bytes at most."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"({error})"
    return "\n".join(text.splitlines()[-lines:])


def _end(server: RunningServer) -> list[str]:
    """End a server and return what is left of it, in words."""
    supervisor = server.process
    if supervisor.poll() is None:
        supervisor.send_signal(signal.SIGTERM)
    for pipe in (supervisor.stdin, supervisor.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    try:
        supervisor.wait(GRACE_S + RELEASE_S)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()

    def members() -> dict[int, census.Process]:
        return census.members(server.launch_id, session=server.session or None)

    # The supervisor has ended them all, unless it was killed itself; this is the independent look.
    remaining = census.end(members, grace_s=0.0)
    left = [f"{process.describe()} is still there" for process in remaining.values()]
    deadline = time.monotonic() + RELEASE_S
    while (held := _held(server)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left + held


def _held(server: RunningServer) -> list[str]:
    held = []
    if not ports.is_free(server.command.port) and not server.foreign_port:
        held.append(f"port {server.command.port} is still taken")
    if server.gpu_pids is not None:
        mine = sorted(server.seen & set(server.gpu_pids()))
        held += [f"pid {pid} still holds GPU memory" for pid in mine]
    return held
