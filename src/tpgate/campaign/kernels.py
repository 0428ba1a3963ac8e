"""A campaign over a kernel suite: processes instead of servers, the same judgement."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tpgate.baseline.adaptive import next_launch
from tpgate.baseline.judge import judge
from tpgate.baseline.key import hardware_of
from tpgate.baseline.refresh import plan
from tpgate.baseline.store import BaselineStore, Found, NotFound
from tpgate.campaign.making import write_json
from tpgate.campaign.plan import LOCAL_STORE, Outcome
from tpgate.host import lease, topology
from tpgate.measure.kernel_run import kernel_result, measure_kernels
from tpgate.measure.kernel_suite import KernelSuite
from tpgate.measure.result import Launch, Result
from tpgate.measure.session import new_id
from tpgate.report.folder import JUDGEMENT_FILE, RESULT_FILE
from tpgate.stats.verdict import Judgement

RECORD_LAUNCHES = 3
"""Processes that a provisional local baseline is recorded from."""


@dataclass
class KernelCampaign:
    """What is to be measured and judged, and where things are.

    Attributes:
        suite: The suite.
        results: Folder that gets the result folder.
        baselines: Folder of checked-in baselines.
        progress: Told what goes on.
        device: Torch device.
        max_launches: Processes at most.
        record: Whether to record a provisional local baseline where there is none.
        samples: Samples of each timing.
        launches: The launches so far.
    """

    suite: KernelSuite
    results: Path
    baselines: Path
    progress: Callable[[str], None]
    device: str = "cuda:0"
    max_launches: int = 4
    record: bool = False
    samples: int = 25
    launches: list[Launch] = field(default_factory=list)

    @property
    def store(self) -> BaselineStore:
        """Checked-in baselines first, then the local store."""
        return BaselineStore((self.baselines, self.results.parent / LOCAL_STORE))

    def measure(self) -> Outcome:
        """Measure once, again where a first look is suspicious, and return what was decided.

        Raises:
            HostError: The GPUs are missing, or leased to another run, or a process failed.
            TpgateError: A kernel is wrong.
            BaselineError: A baseline file that would be compared with cannot be used.
        """
        folder = self._begin()
        self._launch(folder)
        found = self._find()
        notes: tuple[str, ...] = ()
        if isinstance(found, NotFound) and self.record:
            found = self._record(folder)
            notes = ("compared with a provisional local baseline that was just recorded",)
            folder = self._begin()
            self._launch(folder)
        baseline = found.baseline if isinstance(found, Found) else None
        while (wish := next_launch(self._result(folder), baseline, most=self.max_launches)).more:
            self.progress(f"{self.suite.name}: {wish.reason}")
            self._launch(folder)
        result = self._save(folder, complete=True)
        judgement = self._judge(result, found)
        write_json(folder / JUDGEMENT_FILE, judgement)
        return Outcome(result, judgement, folder, self._reproduce(judgement), notes, baseline)

    def _begin(self) -> Path:
        self.launches.clear()
        folder = self.results / f"{new_id()}-{self.suite.name}"
        folder.mkdir(parents=True)
        return folder

    def _launch(self, folder: Path) -> None:
        self.progress(f"{self.suite.name}, process {len(self.launches) + 1}: {len(self.suite.cases)} cases")
        wanted = self.suite.gpus if self.device.startswith("cuda") else 0
        resources = [lease.of_gpu(uuid) for uuid in topology.choose(wanted)] if wanted else ["cpu-engine"]
        with lease.hold(resources, holder=f"tpgate {self.suite.name}"):
            launch = measure_kernels(self.suite, folder=folder, device=self.device, samples=self.samples)
        self.launches.append(launch)
        self._save(folder, complete=False)

    def _result(self, folder: Path, *, complete: bool = True) -> Result:
        return kernel_result(self.suite, self.launches, folder.name, complete=complete)

    def _save(self, folder: Path, *, complete: bool) -> Result:
        result = self._result(folder, complete=complete)
        write_json(folder / RESULT_FILE, result)
        return result

    def _find(self) -> Found | NotFound:
        identity = self.launches[0].identity
        return self.store.find(hardware_of(identity), self.suite.name, identity)

    def _record(self, folder: Path) -> Found | NotFound:
        self.progress(f"{self.suite.name}: this machine has no baseline; recording a provisional one")
        while len(self.launches) < RECORD_LAUNCHES:
            self._launch(folder)
        result = self._save(folder, complete=True)
        self.store.write(plan(None, [result], who="tpgate --record").baseline, self.store.folders[-1])
        return self._find()

    def _judge(self, result: Result, found: Found | NotFound) -> Judgement:
        if isinstance(found, Found):
            return judge(result, found.baseline, path=found.path, planned=self.max_launches)
        reason = f"{found.reason}; record one with --tpgate-record, or take results in with tpgate refresh"
        return judge(result, None, reason_without=reason, differences=found.differences, planned=self.max_launches)

    def _reproduce(self, judgement: Judgement) -> str:
        failed = [one.cell for one in judgement.comparisons if not one.verdict.passes]
        words = ["pytest", "perf_tests", "-k", f"{self.suite.name} and {failed[0]}" if failed else self.suite.name]
        return shlex.join(words)
