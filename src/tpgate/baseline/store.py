"""Where baselines lie: a checked-in folder first, then local ones; ``<hardware>/<scenario>.json`` in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tpgate.baseline.key import explain, hardware_of
from tpgate.baseline.reading import check_baseline, load_baseline, render, write_atomically
from tpgate.baseline.schema import Baseline
from tpgate.errors import BaselineError
from tpgate.measure.result import Identity

CHECKED_IN = Path("baselines")
LOCAL = Path(".tpgate/baselines")
LOCK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Found:
    """A baseline whose identity matches.

    Attributes:
        baseline: The baseline.
        path: Its file.
        checked_in: Whether it came from the first folder.
    """

    baseline: Baseline
    path: Path
    checked_in: bool


@dataclass(frozen=True, slots=True)
class NotFound:
    """Why there is no baseline.

    Attributes:
        reason: One sentence.
        differences: (field, baseline, now) of the nearest baseline whose identity differs.
        path: File of that nearest baseline, or where one would lie.
    """

    reason: str
    differences: tuple[tuple[str, Any, Any], ...]
    path: Path


@dataclass(frozen=True, slots=True)
class BaselineStore:
    """Folders of baselines, in order of preference; the first is the checked-in one.

    Attributes:
        folders: The folders; a folder that does not exist holds nothing.
    """

    folders: Sequence[Path]

    @classmethod
    def at(cls, checked_in: Path | None = None, local: Path | None = None) -> BaselineStore:
        """Return the usual store; a folder that was named on purpose must exist.

        Raises:
            BaselineError: ``checked_in`` was given and is no folder (a mistyped path is never passed over).
        """
        if checked_in is not None and not checked_in.is_dir():
            raise BaselineError(
                f"{checked_in}: no such folder of baselines",
                expected="a folder that holds <hardware>/<scenario>.json",
                next_step=f"ls {checked_in.parent}",
            )
        return cls((checked_in or CHECKED_IN, local or LOCAL))

    def path(self, hardware: str, scenario: str, folder: Path | None = None) -> Path:
        """Return where a baseline lies in ``folder``, or in the first folder."""
        return (folder or self.folders[0]) / hardware / f"{scenario}.json"

    def find(self, hardware: str, scenario: str, identity: Identity) -> Found | NotFound:
        """Return the first baseline whose identity keys all equal those of ``identity``, or why there is none.

        Raises:
            BaselineError: A file that lies in the right place cannot be used; it is never taken for absent.
        """
        nearest: NotFound | None = None
        for index, folder in enumerate(self.folders):
            path = self.path(hardware, scenario, folder)
            if not path.exists():
                continue
            baseline = load_baseline(path, in_store=True)
            differences = baseline.identity.differences(identity)
            if not differences:
                return Found(baseline, path, checked_in=index == 0)
            if nearest is None or len(differences) < len(nearest.differences):
                nearest = NotFound(f"{path} has another identity: {explain(differences)}", tuple(differences), path)
        if nearest is not None:
            return nearest
        looked = " nor ".join(str(self.path(hardware, scenario, folder)) for folder in self.folders)
        return NotFound(f"neither {looked} exists", (), self.path(hardware, scenario))

    def find_for(self, scenario: str, identity: Identity) -> Found | NotFound:
        """Return what :meth:`find` does, with the hardware that ``identity`` names."""
        return self.find(hardware_of(identity), scenario, identity)

    def write(self, baseline: Baseline, folder: Path | None = None) -> Path:
        """Write a baseline, atomically and under the lock of its folder, and return its path.

        Raises:
            BaselineError: It is not sound, or another process holds the lock.
        """
        path = self.path(baseline.hardware, baseline.scenario, folder)
        check_baseline(path, baseline)
        with locked(path):
            write_atomically(path, render(baseline))
        return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder of ``path``, so that two writers never take each other's launches away.

    Raises:
        BaselineError: Another process held it for 30 s.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.parent / ".tpgate.lock"
    try:
        with FileLock(lock, timeout=LOCK_SECONDS, is_singleton=True):  # one that is held here is held again
            yield
    except Timeout:
        raise BaselineError(
            f"{lock}: held by another process for {LOCK_SECONDS:.0f} s", next_step="wait for the other refresh to end"
        ) from None
