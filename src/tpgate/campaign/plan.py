"""What a campaign is to do, and what it brings."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tpgate.baseline.schema import Baseline
from tpgate.baseline.store import BaselineStore
from tpgate.measure.result import Result
from tpgate.measure.session import Settings
from tpgate.redaction import redact
from tpgate.specs import Pairs, Scenario
from tpgate.stats.verdict import Judgement

LOCAL_STORE = Path(".tpgate") / "baselines"
"""The local store, beside the folder of results; it is not checked in."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be measured and judged, and where things are.

    Attributes:
        scenario: The scenario.
        results: Folder that gets the result folder.
        baselines: Folder of checked-in baselines.
        python: Interpreter that has SGLang.
        progress: Told what goes on.
        cells: Cells to drive; empty means all.
        attach_url: Server to attach to, or None.
        max_launches: Launches at most.
        record: Whether to record a provisional local baseline where there is none.
        profile: Whether to take traces.
        processes: Client processes.
        extra: Server options on top of the scenario's.
        extra_environment: Server variables on top of the scenario's.
        commit: Commit of the code under test.
        max_minutes: Minutes that further launches may take on suspicion; None is no cap.
    """

    scenario: Scenario
    results: Path
    baselines: Path
    python: str
    progress: Callable[[str], None]
    cells: tuple[str, ...] = ()
    attach_url: str | None = None
    max_launches: int = 4
    record: bool = False
    profile: bool = True
    processes: int = 1
    extra: Pairs = ()
    extra_environment: tuple[tuple[str, str], ...] = ()
    commit: str | None = None
    max_minutes: float | None = None

    @property
    def experiment(self) -> tuple[str, ...]:
        """What is changed on top of the scenario, as ``name=value``."""
        return tuple(str(redact(f"{name}={value}")) for name, value in (*self.extra, *self.extra_environment))

    @property
    def settings(self) -> Settings:
        """The part that a launch needs."""
        return Settings(
            python=self.python,
            cells=self.cells,
            profile=self.profile,
            processes=self.processes,
            attach_url=self.attach_url,
            extra=self.extra,
            extra_environment=self.extra_environment,
            commit=self.commit,
        )

    @property
    def store(self) -> BaselineStore:
        """Checked-in baselines first, then the local store."""
        return BaselineStore((self.baselines, self.results.parent / LOCAL_STORE))


@dataclass(frozen=True)
class Outcome:
    """What a campaign brought.

    Attributes:
        result: The launches.
        judgement: What was decided about them.
        folder: Result folder.
        reproduce: Command that measures the same again.
        notes: Things that happened on the way and that a reader should know.
        baseline: The baseline that was compared with, or None.
    """

    result: Result
    judgement: Judgement
    folder: Path
    reproduce: str
    notes: tuple[str, ...] = ()
    baseline: Baseline | None = None


def reproduce(campaign: Campaign, judgement: Judgement) -> str:
    """Return the command that measures the worst cell again, alone."""
    words = ["tpgate", "run", campaign.scenario.name]
    failed = [c.cell for c in judgement.comparisons if not c.verdict.passes and c.cell != "scenario"]
    if failed:
        words += ["--cell", failed[0]]
    words += ["--baselines", str(campaign.baselines)]
    for name, value in campaign.extra:
        words += ["--server-option", redact(f"{name}={str(value).lower() if isinstance(value, bool) else value}")]
    return shlex.join(words)
