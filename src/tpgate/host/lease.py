"""Leases: a file lock a resource keeps two runs from sharing GPUs, and names who holds them.

The kernel lets go of a lock when its holder dies, so a file that nobody locks is stale whatever it says. Where a fork
of a dead holder keeps the lock, the recorded process tells: if it is gone, or another process has its number, the
lease is taken over.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tpgate.errors import HostError

FOLDER_VARIABLE = "TPGATE_LEASE_FOLDER"
"""Names another folder for the leases, such as one that the containers of a host share."""
_ATTEMPTS = 20
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease.

    Attributes:
        resource: What is held.
        holder: Name of the run.
        pid: Its process.
        started_at: UTC, ISO 8601.
        born: Start of the process in kernel ticks since boot; tells it from a later one with the same number.
    """

    resource: str
    holder: str
    pid: int
    started_at: str
    born: int | None

    def __str__(self) -> str:
        return f"{self.holder} (process {self.pid}, since {self.started_at})"


def of_gpu(uuid: str) -> str:
    """Return the name of the resource that a GPU is."""
    return f"gpu-{uuid}"


def default_folder() -> Path:
    """Return the folder of this host's leases: the variable's, else under /run/lock, else in the temporary folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
        return Path(named)
    for base in (Path("/run/lock"), Path(tempfile.gettempdir())):
        folder = base / "tpgate"
        try:
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(PermissionError):
                folder.chmod(0o1777)  # every user may lease, none may remove another's file
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise HostError(
        "no folder for leases can be written",
        expected="/run/lock or the temporary folder",
        next_step="set TMPDIR to a folder that can be written",
    )


@contextlib.contextmanager
def hold(resources: Sequence[str], *, holder: str, folder: Path | None = None) -> Iterator[tuple[Path, ...]]:
    """Hold every resource while the body runs; all of them or none.

    Args:
        resources: Names, such as ``gpu-GPU-2f...``.
        holder: Name of the run, shown to whoever wants them too.
        folder: Folder of the lock files; None means this host's.

    Raises:
        HostError: Another run holds one of them; it is named.
    """
    place = default_folder() if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        paths = []
        for resource in sorted(set(resources)):
            path = place / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', resource)}.lock"
            descriptor = _take(path, resource)
            stack.callback(_release, descriptor)
            _write(descriptor, Holder(resource, holder, os.getpid(), _now(), _born(os.getpid())))
            paths.append(path)
        yield tuple(paths)


def holders(folder: Path | None = None) -> list[Holder]:
    """Return every lease that is held now."""
    place = default_folder() if folder is None else folder
    found = []
    for path in sorted(place.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if not _lock(descriptor) and (holder := _read(descriptor)) is not None:
                found.append(holder)
        finally:
            os.close(descriptor)
    return found


def _take(path: Path, resource: str) -> int:
    for _ in range(_ATTEMPTS):
        descriptor = _open(path)
        if _lock(descriptor):
            if _same(path, descriptor):
                return descriptor
            os.close(descriptor)  # it was taken over and replaced between opening and locking
            continue
        holder = _read(descriptor)
        if holder is not None and not _alive(holder):
            # A fork of a dead holder keeps the lock: give the resource a new file.
            if _same(path, descriptor):
                path.unlink(missing_ok=True)
            os.close(descriptor)
            continue
        os.close(descriptor)
        if holder is None:  # someone looks at it, or has taken it and not yet written its name
            time.sleep(_PAUSE_S)
            continue
        raise HostError(
            f"{resource} is leased by {holder}",
            expected="GPUs that no other run measures on",
            next_step=f"wait for it, or end it: kill {holder.pid}",
        )
    raise HostError(f"{path}: the lease changed hands {_ATTEMPTS} times while it was asked for", next_step="try again")


def _open(path: Path) -> int:
    """Open the file; created only where it does not exist, for sticky folders refuse O_CREAT on others' files."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", expected="a lease file", next_step=f"remove {path}") from error
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return _open(path)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", next_step="set TMPDIR to a folder that can be written") from error
    os.fchmod(descriptor, 0o666)
    return descriptor


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _release(descriptor: int) -> None:
    """Empty the file and let go; the file stays, for removing it would race with the next one who opens it."""
    os.ftruncate(descriptor, 0)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _same(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _write(descriptor: int, holder: Holder) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _read(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 65536, 0)))
    except (ValueError, TypeError):
        return None


def _alive(holder: Holder) -> bool:
    born = _born(holder.pid)
    return born is not None and (holder.born is None or born == holder.born)


def _born(pid: int) -> int | None:
    """Start of a process in ticks since boot (field 22 of /proc/PID/stat), or None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
