"""One of several client processes: takes its job through a pipe, waits for the common start, brings its share back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from tpgate.errors import LoadError
from tpgate.load.job import Job, Progress, Share
from tpgate.load.records import RequestRecord

_FIELDS = tuple(RequestRecord.__dataclass_fields__)
_EXIT_TIMEOUT_S = 10.0


def drive_processes(jobs: Sequence[Job], progress: Progress | None = None) -> list[Share]:
    """Drive every job in a process of its own and return the shares in the order of the jobs.

    All processes open their connections first and start together. Ctrl-C ends the load in all of them.

    Raises:
        LoadError: A process could not connect, or died.
    """
    pipes: list[Connection[Any, Any]] = []
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for job in jobs:
            ours, theirs = Pipe()
            with theirs:
                descriptor = theirs.fileno()
                command = [sys.executable, "-m", "tpgate.load.worker", str(descriptor)]
                processes.append(subprocess.Popen(command, pass_fds=(descriptor,), process_group=0))
            pipes.append(ours)
            ours.send(job)
        _collect(pipes, "ready", progress, jobs)
        for number, pipe in enumerate(pipes):
            try:
                pipe.send("go")
            except OSError:
                raise _died(number, pipes) from None
        return _collect(pipes, "share", progress, jobs)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            try:
                process.wait(_EXIT_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _collect(
    pipes: Sequence[Connection[Any, Any]], wanted: str, progress: Progress | None, jobs: Sequence[Job]
) -> list[Any]:
    """Wait until every process has sent a ``wanted`` message; pass progress on, and Ctrl-C down."""
    found: dict[int, Any] = {}
    done = [0] * len(pipes)
    while len(found) < len(pipes):
        try:
            ready = wait([pipe for number, pipe in enumerate(pipes) if number not in found])
            for pipe in ready:
                number = pipes.index(pipe)
                kind, value = pipes[number].recv()
                if kind == wanted:
                    found[number] = unpack(value) if kind == "share" else value
                elif kind == "failed":
                    raise LoadError(**value)
                elif kind == "progress" and progress is not None:
                    done[number] = value
                    progress(sum(done), jobs[0].total)
        except (EOFError, ConnectionError):
            raise _died(number, pipes) from None
        except KeyboardInterrupt:
            for pipe in pipes:
                with contextlib.suppress(ConnectionError):
                    pipe.send("stop")
    return [found[number] for number in range(len(pipes))]


def _died(number: int, pipes: Sequence[Connection[Any, Any]]) -> LoadError:
    return LoadError(
        f"client process {number} of {len(pipes)} died", next_step="look at its message above; check memory"
    )


def pack(share: Share) -> dict[str, Any]:
    """Return a share in a form that a pipe can carry."""
    rows = [
        tuple(bytes(value) if isinstance(value := getattr(record, name), memoryview) else value for name in _FIELDS)
        for record in share.records
    ]
    rest = {name: getattr(share, name) for name in Share.__dataclass_fields__ if name != "records"}
    return {"rows": rows, **rest}


def unpack(value: dict[str, Any]) -> Share:
    """Return the share that :func:`pack` took apart."""
    records = []
    for row in value.pop("rows"):
        fields = dict(zip(_FIELDS, row, strict=True))
        for name, code in (("chunk_ns", "q"), ("chunk_tokens", "i")):
            fields[name] = memoryview(array(code, fields[name])).toreadonly()
        records.append(RequestRecord(**fields))
    return Share(records=records, **value)


def main(descriptor: int) -> int:
    """Run one worker on the pipe that is open as ``descriptor``."""
    from tpgate.load.generator import run_job

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe: Connection[Any, Any] = Connection(descriptor)
    with pipe:
        try:
            job = pipe.recv()
        except EOFError:  # the parent is gone
            return 1
        try:
            share = run_job(job, lambda done, _: pipe.send(("progress", done)), pipe)
        except LoadError as error:
            pipe.send(("failed", {"what": error.what, "expected": error.expected, "next_step": error.next_step}))
            return 1
        pipe.send(("share", pack(share)))
    return 0


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1])))
