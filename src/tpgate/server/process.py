"""Starting a server: the process, its readiness, and what is said when it does not come up."""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tpgate.errors import ServerError
from tpgate.server import census, engine, exits, flags, ports, ready
from tpgate.server.api import Api
from tpgate.server.attached import AttachedServer, attach
from tpgate.server.model_folder import prepare
from tpgate.server.running import GRACE_S, GpuPids, RunningServer
from tpgate.specs import Pairs, ServerSpec

LOG_NAME = "server.log"
_SPAWN_S = 60.0
_BIND_FAILED = re.compile(
    r"address already in use|EADDRINUSE|errno[ :]*98|port \d+ is (already )?in use", re.IGNORECASE
)

__all__ = ["LOG_NAME", "AttachedServer", "GpuPids", "RunningServer", "attach", "start"]


def start(
    spec: ServerSpec,
    *,
    folder: Path,
    python: str = sys.executable,
    port: int | None = None,
    extra: Pairs = (),
    visible_gpus: tuple[str, ...] = (),
    progress: Callable[[str], None] | None = None,
    gpu_pids: GpuPids | None = None,
) -> RunningServer:
    """Start a server and return it once a token of its own was completed.

    Args:
        spec: What is started.
        folder: Folder of the launch; gets the server's log and the model's config.json.
        python: Interpreter that has SGLang.
        port: Port to listen on; a free one where it is None.
        extra: Server options on top of the specification's.
        visible_gpus: UUIDs or indices of the GPUs that it may see.
        progress: Told what goes on.
        gpu_pids: Tells who holds GPU memory, so that its release can be proven.

    Raises:
        ConfigError: The specification cannot be started as it is; nothing was started.
        ServerError: The server ended, hung or is another one; its last log lines and its command are in the text.
    """
    launch = _Launch(spec, folder.resolve(), python, port, extra, visible_gpus, progress or _silent, gpu_pids)
    server, reason = launch.attempt()
    if reason is None:
        return server
    if port is None and _BIND_FAILED.search(reason.log):
        launch.notes.append(f"port {server.command.port} was taken before it was bound; started again on another one")
        launch.tell(launch.notes[-1])
        server, reason = launch.attempt()
        if reason is None:
            return server
    raise reason.error(server)


def _silent(_text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a server did not come up, and the last lines of its log."""

    reason: str
    log: str

    def error(self, server: RunningServer) -> ServerError:
        indented = "\n".join(f"    | {line}" for line in self.log.splitlines())
        return ServerError(
            f"the server did not start: {self.reason}\n  last lines of {server.log_path}:\n{indented}",
            expected="a completed token",
            next_step=f"run it by hand: {server.command.shell()}",
        )


@dataclass(slots=True)
class _Launch:
    """One start, and what is the same in a second attempt."""

    spec: ServerSpec
    folder: Path
    python: str
    port: int | None
    extra: Pairs
    gpus: tuple[str, ...]
    tell: Callable[[str], None]
    gpu_pids: GpuPids | None
    notes: list[str] = field(default_factory=list)
    version: str | None = None
    model_path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model_path = self.folder
        if self.spec.engine == "standin":
            return
        self.version = engine.installed_version(self.python)
        warning = flags.supported(self.version)
        self.notes += [] if warning is None else [warning]
        self.model_path = prepare(self.spec.model, self.folder)

    def attempt(self) -> tuple[RunningServer, _Failure | None]:
        """Start the server once and wait for it; a server that is not ready was stopped."""
        if self.port is not None and not ports.is_free(self.port):
            raise _taken(self.port)
        chosen, nccl = ports.free(2)
        launch_id = secrets.token_hex(8)
        command = engine.command(
            self.spec,
            python=self.python,
            version=self.version,
            model_path=self.model_path,
            port=self.port or chosen,
            nccl_port=nccl,
            extra=self.extra,
            gpus=self.gpus,
            launch_id=launch_id,
        )
        began = time.monotonic()
        server, reason = _spawn(command, self.folder / LOG_NAME, launch_id, self.gpu_pids)
        try:
            if reason is None:
                reason = self._until_ready(server, began)
        except BaseException:
            server.stop()
            raise
        server.notes = tuple(self.notes)
        if reason is None:
            return server, None
        failure = _Failure(reason, server.log_tail())
        server.foreign_port = bool(_BIND_FAILED.search(failure.log)) or "answered by" in reason
        server.stop()
        return server, failure

    def _until_ready(self, server: RunningServer, began: float) -> str | None:
        """Return None once the server is ready and is the one that was asked for, else why not."""
        api = Api(server.url)
        self.tell(f"starting the server (log: {server.log_path})")

        def tell() -> None:
            last = server.log_tail(1)[-100:]
            self.tell(f"starting the server, {time.monotonic() - began:.0f} s: {last}")

        reason = ready.wait(
            api,
            server.command.port,
            deadline=began + self.spec.startup_timeout_s,
            ended=server.alive,
            pids=server.pids,
            tell=tell,
        )
        if reason is not None:
            return f"{reason} ({time.monotonic() - began:.1f} s after its start)"
        server.startup_s = time.monotonic() - began
        server.info = api.info()
        server.version = str(server.info.get("version", ""))
        server.remember_workers()
        path = self.model_path if self.version is not None else None
        wrong = ready.essential(self.spec, server.info, version=self.version, model_path=path, port=server.command.port)
        if wrong:
            return f"it is another server than was asked for: {ready.shown(wrong)}"
        changed = ready.differences(self.spec, server.info, extra=self.extra)
        if changed:
            self.notes.append(f"the server changed its arguments: {ready.shown(changed)}")
            self.tell(self.notes[-1])
        self.tell(f"the server is ready after {server.startup_s:.1f} s")
        return None


def _taken(port: int) -> ServerError:
    pids = ports.holders(port, census.table())
    names = ", ".join(p.describe() for p in map(census.read, sorted(pids)) if p is not None)
    return ServerError(
        f"port {port} is taken" + (f" by {names}" if names else ""),
        expected="a port that nobody holds",
        next_step="end that process, or leave the port out so that a free one is chosen",
    )


def _spawn(
    command: engine.Command, log: Path, launch_id: str, gpu_pids: GpuPids | None
) -> tuple[RunningServer, str | None]:
    """Start the supervisor and, through it, the server; the second value says why that failed, or is None."""
    asked = {
        "argv": command.argv,
        "environment": {**os.environ, **dict(command.variables)},
        "log": str(log),
        "folder": str(log.parent),
        "grace_s": GRACE_S,
    }
    marks = {name: value for name, value in command.variables if name in (census.MARKER, census.OWNER)}
    with log.open("ab") as file:
        file.write(f"# {command.shell()}\n".encode())
        file.flush()
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "tpgate.server.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env=os.environ | marks,
            start_new_session=True,
        )
    url = f"http://{ports.HOST}:{command.port}"
    server = RunningServer(url, supervisor, 0, launch_id, command, log, gpu_pids=gpu_pids)
    exits.watch(id(server), server.stop)
    line = _exchange(supervisor, json.dumps(asked).encode() + b"\n")
    if not line.strip().isdigit():
        return server, "it could not be executed"
    server.session = int(line)
    return server, None


def _exchange(supervisor: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Send the request and return the supervisor's one line; empty where it ended without one."""
    if supervisor.stdin is None or supervisor.stdout is None:
        return b""
    try:
        supervisor.stdin.write(request)
        supervisor.stdin.flush()
    except BrokenPipeError:
        return b""
    readable, _, _ = select.select([supervisor.stdout], [], [], _SPAWN_S)
    return supervisor.stdout.readline() if readable else b""
