"""The result folder that is being filled, launch by launch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tpgate.baseline.reading import write_atomically
from tpgate.campaign.plan import Campaign
from tpgate.errors import ServerError
from tpgate.measure.promises import promises
from tpgate.measure.result import SCHEMA_VERSION, Launch, Result, is_passing
from tpgate.measure.session import measure_launch, new_id
from tpgate.report.folder import RESULT_FILE

MOST_DISCARDED = 5
"""Launches of one campaign that may be made again because the client or the host spoiled them."""


def why(launch: Launch) -> str:
    """Return the fatal doubts of a launch in a line."""
    rows = [(cell, doubt) for cell, run in launch.runs.items() for doubt in run.doubts if doubt.fatal]
    return "; ".join(f"{cell} {doubt.check}: {doubt.reason}" for cell, doubt in rows)


def write_json(path: Path, value: msgspec.Struct) -> None:
    """Write a value as JSON, atomically."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n")


@dataclass
class Making:
    """The result that is being made."""

    campaign: Campaign
    folder: Path
    launches: list[Launch] = field(default_factory=list)
    discarded: list[Launch] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, campaign: Campaign, seconds: Sequence[float] = ()) -> Making:
        """Make a new result folder.

        Args:
            campaign: What is to be measured.
            seconds: How long earlier launches of this session took.
        """
        folder = campaign.results / f"{new_id()}-{campaign.scenario.name}"
        folder.mkdir(parents=True)
        return cls(campaign, folder, seconds=list(seconds))

    def result(self, *, complete: bool) -> Result:
        """Return the result so far."""
        campaign = self.campaign
        scenario = campaign.scenario
        cells = campaign.cells or tuple(load.cell for load in scenario.cells)
        return Result(
            schema_version=SCHEMA_VERSION,
            result_id=self.folder.name,
            scenario=scenario.name,
            scenario_digest=scenario.digest(),
            cells=cells,
            gates=promises(scenario, campaign.cells),
            launches=tuple(self.launches),
            discarded=tuple(self.discarded),
            complete=complete,
            partial=bool(campaign.cells),
            experiment=campaign.experiment,
        )

    def save(self, *, complete: bool) -> Result:
        """Write the result so far and return it."""
        result = self.result(complete=complete)
        write_json(self.folder / RESULT_FILE, result)
        return result

    def launch(self) -> Launch:
        """Make one more launch; one that only the client or the host spoiled is made again, a few times at most.

        Raises:
            ServerError: The very first launch brought nothing at all: there is nothing to judge.
        """
        launch = self._attempt()
        while is_passing(launch) and len(self.discarded) < MOST_DISCARDED:
            self.discarded.append(self.launches.pop())
            self.save(complete=False)
            self.campaign.progress(
                f"{self.campaign.scenario.name}: the launch is void and is made again: {why(launch)}"
            )
            launch = self._attempt()
        return launch

    def _attempt(self) -> Launch:
        """Make one launch, saving what there is after every run.

        Raises:
            ServerError: The very first launch brought nothing at all: there is nothing to judge.
        """
        slot, campaign = len(self.launches), self.campaign
        began = time.monotonic()

        def save(launch: Launch) -> None:
            self.launches[slot:] = [launch]
            self.save(complete=False)

        usual = f", usually {sum(self.seconds) / len(self.seconds):.0f} s" if self.seconds else ""
        launch = measure_launch(
            campaign.scenario,
            folder=self.folder,
            settings=campaign.settings,
            progress=lambda text: campaign.progress(
                f"{campaign.scenario.name}, launch {slot + 1} ({time.monotonic() - began:.0f} s{usual}): {text}"
            ),
            save=save,
        )
        save(launch)
        self.seconds.append(time.monotonic() - began)
        if launch.failure and not launch.runs and not slot:
            raise ServerError(launch.failure, next_step=f"see {self.folder / f'launch-{launch.launch_id}'}")
        return launch
