"""The history of measured launches in one SQLite file: appended, never changed, and no part of the gate."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from tpgate.baseline.key import hardware_of
from tpgate.errors import BaselineError
from tpgate.measure.definitions import METRICS
from tpgate.measure.result import Result, Validity
from tpgate.specs import digest_of

HISTORY_FILE = Path(".tpgate/history.sqlite")
FORM = 1
"""Version of the tables, kept in ``PRAGMA user_version``."""

_TABLES = """
CREATE TABLE IF NOT EXISTS launches (
    launch_id TEXT PRIMARY KEY, result_id TEXT NOT NULL, scenario TEXT NOT NULL, hardware TEXT NOT NULL,
    key TEXT NOT NULL, recorded_at TEXT NOT NULL, revision TEXT, verdict TEXT);
CREATE TABLE IF NOT EXISTS readings (
    launch_id TEXT NOT NULL REFERENCES launches, cell TEXT NOT NULL, metric TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (launch_id, cell, metric)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_scenario ON launches (scenario, hardware, recorded_at);
"""


@dataclass(frozen=True, slots=True)
class PastLaunch:
    """One launch as the history lists it; ``key`` is a digest of everything that must match before numbers may."""

    launch_id: str
    result_id: str
    scenario: str
    hardware: str
    key: str
    recorded_at: str
    revision: str | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series."""

    recorded_at: str
    launch_id: str
    revision: str | None
    value: float


_Row = TypeVar("_Row", PastLaunch, Point)


def _row(kind: type[_Row], values: Sequence[object]) -> _Row:
    """Return a row of a file that may hold anything: SQLite takes values of any type in any column."""
    made = msgspec.convert(dict(zip(kind.__dataclass_fields__, values, strict=True)), kind)
    if isinstance(made, Point) and not math.isfinite(made.value):
        raise msgspec.ValidationError(f"a reading of launch {made.launch_id} is {made.value}")
    return made


@dataclass(frozen=True, slots=True)
class History:
    """A history file.

    Attributes:
        path: The SQLite file; it is made at the first append.
    """

    path: Path = HISTORY_FILE

    @contextmanager
    def _open(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        if not write and not self.path.exists():
            raise BaselineError(
                f"{self.path}: no history yet",
                expected="a file that tpgate made",
                next_step="tpgate history --add RESULT",
            )
        try:
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                found = connection.execute("PRAGMA user_version").fetchone()[0]
                if found not in (0, FORM):
                    raise BaselineError(f"{self.path}: tables of version {found}", expected=f"version {FORM}")
                if write and found == 0:
                    connection.executescript(_TABLES)
                    connection.execute(f"PRAGMA user_version = {FORM:d}")
                yield connection
        except (sqlite3.DatabaseError, UnicodeDecodeError, msgspec.ValidationError) as error:
            raise BaselineError(
                f"{self.path}: {error}", expected="a history that tpgate made", next_step=f"move {self.path} away"
            ) from error

    def append(self, result: Result, verdict: str | None = None) -> int:
        """Add the launches of ``result`` that are not there yet.

        Values of void runs and missing ones are left out, and so is an experiment: it is no history of the scenario.

        Args:
            result: What was measured, complete or not.
            verdict: What the gate said about it.

        Returns:
            How many launches were new.
        """
        added = 0
        if result.experiment:
            return added
        with self._open(write=True) as connection:
            for launch in result.launches:
                row = (
                    launch.launch_id,
                    result.result_id,
                    result.scenario,
                    hardware_of(launch.identity),
                    digest_of(launch.identity.keys),
                    launch.started_at,
                    launch.commit,
                    verdict,
                )
                mark = connection.execute("INSERT OR IGNORE INTO launches VALUES (?,?,?,?,?,?,?,?)", row)
                if mark.rowcount == 0:
                    continue
                added += 1
                readings = [
                    (launch.launch_id, cell, name, value.value)
                    for cell, run in launch.runs.items()
                    if run.validity is Validity.VALID
                    for name, value in run.values.items()
                    if value.value is not None and name in METRICS
                ]
                connection.executemany("INSERT INTO readings VALUES (?,?,?,?)", readings)
        return added

    def launches(self, scenario: str | None = None) -> list[PastLaunch]:
        """Return all launches, or those of one scenario, in order of time."""
        query = "SELECT * FROM launches WHERE ? IS NULL OR scenario = ? ORDER BY recorded_at, launch_id"
        with self._open(write=False) as connection:
            rows = connection.execute(query, (scenario, scenario))
            return [_row(PastLaunch, row) for row in rows]

    def series(self, scenario: str, hardware: str, key: str | None = None) -> dict[tuple[str, str], list[Point]]:
        """Return (cell, metric) to its values in order of time, of one hardware and, if given, one identity."""
        query = (
            "SELECT cell, metric, recorded_at, launch_id, revision, value FROM readings "
            "JOIN launches USING (launch_id) WHERE scenario = ? AND hardware = ? AND (? IS NULL OR key = ?) "
            "ORDER BY cell, metric, recorded_at, launch_id"
        )
        found: dict[tuple[str, str], list[Point]] = {}
        with self._open(write=False) as connection:
            for cell, name, *rest in connection.execute(query, (scenario, hardware, key, key)):
                found.setdefault((str(cell), str(name)), []).append(_row(Point, rest))
        return found


def remember(result: Result, verdict: str, path: Path = HISTORY_FILE) -> str | None:
    """Append ``result`` to the history; return why that failed, or None: a verdict never depends on its history."""
    try:
        History(path).append(result, verdict)
    except (BaselineError, OSError) as error:
        return f"not in the history: {error}"
    return None


def otava_rows(series: dict[tuple[str, str], Sequence[Point]]) -> list[list[str]]:
    """Return a table in the CSV form that Apache Otava imports: time, attributes, one column a metric.

    A missing value is an empty field, never 0.
    """
    columns = sorted(series)
    launches = {point.launch_id: point for points in series.values() for point in points}
    values = {(name, point.launch_id): point.value for name, points in series.items() for point in points}
    rows = [["time", "commit", "launch_id", *(f"{cell}.{name}" for cell, name in columns)]]
    for point in sorted(launches.values(), key=lambda one: (one.recorded_at, one.launch_id)):
        cells = [values.get((name, point.launch_id)) for name in columns]
        texts = ["" if value is None else repr(value) for value in cells]
        rows.append([point.recorded_at, point.revision or "", point.launch_id, *texts])
    return rows
