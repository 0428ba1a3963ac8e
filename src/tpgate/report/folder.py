"""Read a stored result and its judgement, and take the figures out of them that reports show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from tpgate.baseline.reading import load_result
from tpgate.errors import BaselineError
from tpgate.measure.result import Launch, Result, Run, Validity
from tpgate.stats.verdict import Judgement

RESULT_FILE = "result.json"
JUDGEMENT_FILE = "judgement.json"
Bands = dict[str, dict[str, list[float]]]
"""Cell to metric to the values of a baseline's launches, in base units."""

_CONCURRENCY = re.compile(r"c(\d+)(?:-(.+))?")


@dataclass(frozen=True, slots=True)
class Stored:
    """A result folder: what was measured and, where it was judged, what was decided."""

    folder: Path
    result: Result
    judgement: Judgement | None


def read_folder(path: Path) -> Stored:
    """Return the result (and judgement, if any) that lie in ``path``.

    Args:
        path: A result folder, or its ``result.json``.

    Raises:
        BaselineError: A file is missing, is not what it says it is, comes from a newer version, or the judgement
            belongs to another result.
    """
    folder = path.parent if path.name == RESULT_FILE else path
    if not folder.is_dir():
        raise BaselineError(
            f"{folder}: no such result folder", expected=f"one that holds {RESULT_FILE}", next_step="ls"
        )
    result = load_result(folder)
    judgement = read_judgement(folder / JUDGEMENT_FILE) if (folder / JUDGEMENT_FILE).exists() else None
    if judgement is not None and judgement.result_id != result.result_id:
        raise BaselineError(
            f"{folder / JUDGEMENT_FILE}: result_id is {judgement.result_id}, but {RESULT_FILE} is {result.result_id}",
            expected="a judgement of the result beside it",
            next_step=f"tpgate compare {folder}",
        )
    return Stored(folder, result, judgement)


def read_judgement(path: Path) -> Judgement:
    """Return the judgement that the file ``path`` holds.

    Raises:
        BaselineError: It is missing, cut off, or not a judgement of this version.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Judgement)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror}", expected="a judgement file") from None
    except msgspec.DecodeError as error:
        raise BaselineError(
            f"{path}: not a judgement of this version: {error}",
            expected="a whole file as tpgate wrote it",
            next_step=f"tpgate compare {path.parent}",
        ) from None


def valid_runs(result: Result, cell: str) -> list[tuple[Launch, Run]]:
    """Return the valid runs of a cell with their launches; void ones have no figures."""
    found = [(launch, launch.runs[cell]) for launch in result.launches if cell in launch.runs]
    return [(launch, run) for launch, run in found if run.validity is Validity.VALID]


def last_run(result: Result, cell: str) -> Run | None:
    """Return the last valid run of a cell, or its last run at all, or None."""
    valid = valid_runs(result, cell)
    if valid:
        return valid[-1][1]
    runs = [launch.runs[cell] for launch in result.launches if cell in launch.runs]
    return runs[-1] if runs else None


def figures(result: Result) -> Bands:
    """Return cell to metric to the values of the valid runs, one a launch; absent values are left out."""
    found: Bands = {}
    for cell in cell_names(result):
        for _, run in valid_runs(result, cell):
            for name, value in run.values.items():
                if value.value is not None:
                    found.setdefault(cell, {}).setdefault(name, []).append(value.value)
    return found


def medians(result: Result) -> Iterator[tuple[str, str, str, float, list[float]]]:
    """Yield (cell, metric, unit symbol, median, values) of everything that was measured, in the declared order."""
    units = {
        (cell, name): value.unit
        for launch in result.launches
        for cell, run in launch.runs.items()
        for name, value in run.values.items()
    }
    for cell, metrics in figures(result).items():
        for name, values in metrics.items():
            yield cell, name, units[cell, name], median(values), values


def cell_names(result: Result) -> list[str]:
    """Return the declared cells and, after them, any other that was measured."""
    seen = dict.fromkeys(result.cells)
    for launch in result.launches:
        seen.update(dict.fromkeys(launch.runs))
    return list(seen)


def concurrency_of(cell: str) -> tuple[int, str] | None:
    """Return (concurrency, label) of a cell's name, or None for one that has none (``scenario``)."""
    match = _CONCURRENCY.fullmatch(cell)
    return (int(match[1]), match[2] or "") if match else None
