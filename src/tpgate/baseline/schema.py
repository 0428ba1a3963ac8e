"""The form of a baseline file: raw launches, what they ran on, what was promised, and what was accepted by whom."""

from __future__ import annotations

from datetime import date
from statistics import median
from typing import Annotated

import msgspec
from msgspec import Meta

from tpgate.measure.result import Identity

SCHEMA_VERSION = 1
FULL_LAUNCHES = 10
FULL_DAYS = 3

Name = Annotated[str, Meta(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
Stamp = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|\+00:00)$")]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Reason = Annotated[str, Meta(min_length=10)]
Fraction = Annotated[float, Meta(gt=0, lt=1)]


class MetricForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the stored numbers of one metric are to be read.

    Attributes:
        unit: Symbol of the base unit.
        better: ``higher``, ``lower`` or ``neither``.
        estimator: Version of the computation that made them.
    """

    unit: str
    better: str
    estimator: Annotated[int, Meta(ge=1)]


class Promise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gated metric of one cell, as it was when the baseline was made.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        tolerance: The scenario's tolerance at that time, a fraction; the scenario's present one counts.
        ceiling: The scenario's absolute limit at that time, base units.
    """

    cell: Name
    metric: Name
    tolerance: Fraction
    ceiling: float | None = None


class StoredLaunch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The raw values of one server launch.

    Attributes:
        launch_id: Unique name of the launch.
        recorded_at: UTC, ISO 8601.
        result_id: Result that it came from.
        commit: Commit of the code under test, where known.
        notes: Identity notes that differ from those of the file.
        values: Cell to metric to value in base units.
    """

    launch_id: Annotated[str, Meta(min_length=1)]
    recorded_at: Stamp
    result_id: str
    values: dict[Name, dict[Name, float]]
    commit: str | None = None
    notes: dict[str, str | int | float | bool | None] = {}

    @property
    def day(self) -> str:
        """UTC day on which it was made."""
        return self.recorded_at[:10]


class Tolerance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tolerance of one metric in one cell that replaces the scenario's, with its reason.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        tolerance: Largest accepted worsening, a fraction between 0 and 1 (0.05 is 5 %).
        reason: Why.
        who: Who decided.
        when: Day of the decision.
        expires: Day after which the scenario's tolerance counts again; None is never.
    """

    cell: Name
    metric: Name
    tolerance: Fraction
    reason: Reason
    who: Annotated[str, Meta(min_length=1)]
    when: Day
    expires: Day | None = None


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known worsening that does not fail the build until it expires, shown as waived and never as plain green.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        limit: Worsening up to which it counts, a fraction; a second loss on top of it is REGRESSED.
        reason: Why, with a link to the report of it.
        who: Who decided.
        when: Day of the decision.
        expires: Last day on which it counts.
    """

    cell: Name
    metric: Name
    limit: Fraction
    reason: Reason
    who: Annotated[str, Meta(min_length=1)]
    when: Day
    expires: Day


class Accepted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worse value that was taken into the baseline on purpose; the record stays.

    Attributes:
        cell: Cell name.
        metric: Metric name.
        before: Median before, base units.
        after: Median after, base units.
        reason: Why.
        who: Who decided.
        when: Day of the decision.
        review_by: Day from which the gate reminds of it.
    """

    cell: Name
    metric: Name
    before: float
    after: float
    reason: Reason
    who: Annotated[str, Meta(min_length=1)]
    when: Day
    review_by: Day


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pinned, reviewed baseline of one scenario on one kind of hardware.

    Attributes:
        schema_version: Version of this form.
        scenario: Name of the scenario, also the file's name.
        scenario_digest: Digest of the scenario; a note, the cells' own digests decide.
        hardware: Folder name of the hardware.
        identity: What all launches ran on and with.
        cells: Declared cells, in order, with the digest of each cell's load.
        promises: Gated metrics, cell by cell.
        metrics: How the numbers are to be read.
        launches: Raw launches, in order of time.
        tolerances: Tolerances per cell and metric.
        waivers: Known worsenings.
        accepted: Worse values that were taken in on purpose.
        provenance: Tool version, commands and the like, for people.
    """

    schema_version: int
    scenario: Name
    scenario_digest: str
    hardware: Name
    identity: Identity
    cells: dict[Name, str]
    promises: tuple[Promise, ...]
    metrics: dict[Name, MetricForm]
    launches: tuple[StoredLaunch, ...]
    tolerances: tuple[Tolerance, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    provenance: dict[str, str] = {}

    @property
    def days(self) -> int:
        """Distinct UTC days on which its launches were made."""
        return len({launch.day for launch in self.launches})

    @property
    def provisional(self) -> bool:
        """Whether it holds fewer than 10 launches or fewer than 3 days."""
        return len(self.launches) < FULL_LAUNCHES or self.days < FULL_DAYS

    def values(self, cell: str, name: str) -> list[float]:
        """Return the values of metric ``name`` in ``cell``, one a launch that has it; shape (n,)."""
        found = (launch.values.get(cell, {}).get(name) for launch in self.launches)
        return [value for value in found if value is not None]

    def middle(self, cell: str, name: str) -> float | None:
        """Return the median over launches, or None where no launch has the metric."""
        values = self.values(cell, name)
        return median(values) if values else None

    def tolerance_of(self, cell: str, name: str, today: date) -> Tolerance | None:
        """Return the tolerance that replaces the scenario's on ``today``, or None."""
        for entry in self.tolerances:
            current = entry.expires is None or today.isoformat() <= entry.expires
            if (entry.cell, entry.metric) == (cell, name) and current:
                return entry
        return None

    def waiver_of(self, cell: str, name: str) -> Waiver | None:
        """Return the waiver of a check, expired ones included, or None."""
        return next((entry for entry in self.waivers if (entry.cell, entry.metric) == (cell, name)), None)

    def newest_day(self) -> str:
        """Return the UTC day of the newest launch."""
        return max(launch.day for launch in self.launches)
