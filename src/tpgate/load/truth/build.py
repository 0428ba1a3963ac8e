"""Builds the truth server with the machine's C compiler, once per source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCES = ("truth.c", "loop.c")


def compiler() -> str | None:
    """Return the path of a C compiler, or None; the variable ``CC`` names another one."""
    return shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc") or shutil.which("clang")


def cache_folder() -> Path:
    """Return the folder that built servers are kept in."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tpgate"


def build(folder: Path | None = None) -> Path | None:
    """Return the built server, or None where there is no compiler, or it cannot build this (no Linux, no headers).

    Args:
        folder: Where to keep it; the user's cache folder unless given, a temporary one where that cannot be written.
    """
    cc = compiler()
    if cc is None:
        return None
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join((here / name).read_bytes() for name in _SOURCES)).hexdigest()[:16]
    for place in (folder or cache_folder(), Path(tempfile.gettempdir()) / f"tpgate-{os.getuid()}"):
        target = place / f"truth-{digest}"
        if target.exists():
            return target
        fresh = place / f"{target.name}.{os.getpid()}"
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            done = subprocess.run([cc, "-O2", "-o", fresh, here / "loop.c"], capture_output=True, check=False)
            if done.returncode:
                return None
            fresh.replace(target)
        except OSError:
            continue
        return target
    return None
