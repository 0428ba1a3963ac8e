"""The files that lie beside a result, as links that never lead out of its folder."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import quote

from tpgate.report.folder import Stored
from tpgate.report.rows import clean

_TRACES = ("*.trace.json.gz", "*.trace.json")


def links(stored: Stored) -> list[tuple[str, str, str]]:
    """Return (what, path, link) of every kept file, traces and server logs included.

    A path that leaves the result folder has an empty link.
    """
    found = []
    for launch in stored.result.launches:
        folder = f"launch-{launch.launch_id}"
        for cell, run in launch.runs.items():
            for name, path in sorted(run.artifacts.items()):
                shown = _inside(stored.folder, folder, path)
                link = "./" + quote(shown) if shown is not None else ""
                found.append((f"{launch.launch_id} {cell} {name}", clean(shown or path), link))
        found += [
            (f"{launch.launch_id} {what}", clean(path), "./" + quote(path))
            for what, path in _kept(stored.folder, folder)
        ]
    return found


def _inside(root: Path, folder: str, path: str) -> str | None:
    """The path relative to the result folder; one that is relative to its launch's folder is found there."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or path.startswith("//"):
        return None
    below = str(PurePosixPath(folder) / pure)
    return below if not (root / path).exists() and (root / below).exists() else path


def _kept(root: Path, folder: str) -> list[tuple[str, str]]:
    launch = root / folder
    if PurePosixPath(folder).name != folder or not launch.is_dir():
        return []
    traces = sorted({path for pattern in _TRACES for path in launch.rglob(pattern)})
    found = [("trace", str(path.relative_to(root))) for path in traces]
    log = launch / "server.log"
    return [*found, *([("server log", str(log.relative_to(root)))] if log.exists() else [])]
