"""The stored form of what was measured: values, runs, launches, results.

A run is one measured pass of a cell. A launch is one server life with one run a cell. A result is the launches of
one scenario from one session. A missing value is ``None`` with a reason, never 0.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from tpgate.measure.definitions import metric

SCHEMA_VERSION = 1


class Validity(enum.StrEnum):
    """Whether a run may be judged at all; decided before, and independently of, how fast it was."""

    VALID = "VALID"
    VOID = "VOID"


class Doubt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reason why a run is void (or a note of something suspicious that is not enough to void it).

    Attributes:
        check: Short name of the check, such as ``failed_requests``.
        reason: What was seen, with figures.
        advice: What to do about it.
        fatal: Whether it makes the run VOID.
        passing: Whether it is of the client or the host at that moment, and not of the server: another launch may be
            made in place of this one, a bounded number of times.
    """

    check: str
    reason: str
    advice: str
    fatal: bool = True
    passing: bool = False


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured value in its base unit, or None with the reason why there is none.

    Attributes:
        value: The value, or None.
        unit: Symbol of the base unit.
        reason: Why the value is missing; None exactly where a value is there.
        samples: Samples behind it (requests, chunks, kernels), where that means something.
    """

    value: float | None
    unit: str
    reason: str | None = None
    samples: int | None = None

    @classmethod
    def of(cls, name: str, value: float, samples: int | None = None) -> Value:
        """Return a present value of the metric ``name``."""
        return cls(value=value, unit=metric(name).unit.symbol, samples=samples)

    @classmethod
    def missing(cls, name: str, reason: str) -> Value:
        """Return an absent value of the metric ``name`` with its reason."""
        return cls(value=None, unit=metric(name).unit.symbol, reason=reason)


class Window(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steady window of a run, in seconds since the load began."""

    start_s: float
    end_s: float
    load_s: float


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured pass of one cell on one launch.

    Attributes:
        cell: Name of the cell.
        load_digest: Digest of its load.
        started_at: UTC, ISO 8601.
        values: Metric name to value.
        doubts: Why it is void, and notes.
        window: The steady window, or None where there was none.
        counts: Requests and tokens: issued, ok, failed, output_tokens, server_tokens and the like.
        client: The client's self-check, as plain numbers.
        details: What reports draw and attribution needs: time series, kernel tables, telemetry summaries.
        artifacts: Paths of files of this run, relative to the result folder.
    """

    cell: str
    load_digest: str
    started_at: str
    values: dict[str, Value]
    doubts: tuple[Doubt, ...] = ()
    window: Window | None = None
    counts: dict[str, int] = {}
    client: dict[str, float | int | None] = {}
    details: dict[str, Any] = {}
    artifacts: dict[str, str] = {}

    @property
    def validity(self) -> Validity:
        """VOID where any doubt is fatal."""
        return Validity.VOID if any(doubt.fatal for doubt in self.doubts) else Validity.VALID


class Identity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a launch ran on and with.

    Attributes:
        keys: Fields that must be equal before numbers are compared.
        notes: Fields that are shown when they differ, and never keep a comparison from being made.
    """

    keys: dict[str, str | int | float | bool | None]
    notes: dict[str, str | int | float | bool | None] = {}

    def differences(self, other: Identity) -> list[tuple[str, Any, Any]]:
        """Return (field, mine, theirs) for every key that differs, a missing one included."""
        names = sorted(self.keys.keys() | other.keys.keys())
        absent = "(absent)"
        found = [(name, self.keys.get(name, absent), other.keys.get(name, absent)) for name in names]
        return [row for row in found if row[1] != row[2]]


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server life.

    Attributes:
        launch_id: Unique name: UTC start and a random suffix.
        started_at: UTC, ISO 8601.
        identity: What it ran on and with.
        runs: Cell name to run; the pseudo-cell ``scenario`` holds metrics across cells.
        commit: Commit of the code under test, where known.
        failure: Why the launch ended early, or None.
        startup_s: Seconds from start to the first completed token.
        provenance: Command line, host label and the like; notes for people.
    """

    launch_id: str
    started_at: str
    identity: Identity
    runs: dict[str, Run]
    commit: str | None = None
    failure: str | None = None
    startup_s: float | None = None
    provenance: dict[str, str] = {}


def is_passing(launch: Launch) -> bool:
    """Whether a launch is void, and for nothing but passing doubts."""
    fatal = [doubt for run in launch.runs.values() for doubt in run.doubts if doubt.fatal]
    return bool(fatal) and launch.failure is None and all(doubt.passing for doubt in fatal)


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All launches of one scenario in one session.

    Attributes:
        schema_version: Version of this form.
        result_id: Unique name, also the name of its folder.
        scenario: Name of the scenario.
        scenario_digest: Its digest.
        cells: Declared cells, in order: the contract of what must be there.
        gates: Declared gates as [metric, tolerance, [cells], ceiling]; the cells are always written out.
        launches: The launches, in order.
        discarded: Launches that were void for passing doubts alone, and were made again.
        complete: Whether the session ran to its end (False in a file that was written on the way).
        partial: Whether only some of the scenario's cells were asked for; never taken into a baseline.
        experiment: Server options and variables on top of the scenario's, as ``name=value``; such a result is judged
            against the plain scenario's baseline and never taken into one.
    """

    schema_version: int
    result_id: str
    scenario: str
    scenario_digest: str
    cells: tuple[str, ...]
    gates: tuple[tuple[str, float, tuple[str, ...], float | None], ...]
    launches: tuple[Launch, ...]
    discarded: tuple[Launch, ...] = ()
    complete: bool = True
    partial: bool = False
    experiment: tuple[str, ...] = ()
