"""A kernel suite from process to verdict, on the CPU: recorded, compared, and caught where it became slower."""

from __future__ import annotations

import msgspec
import pytest

from tpgate.baseline.judge import judge
from tpgate.baseline.reading import load_result
from tpgate.campaign.kernels import KernelCampaign
from tpgate.measure.kernel_suite import KernelSuite
from tpgate.specs import Gate
from tpgate.stats.verdict import Verdict

CELL = "b1-k16-h16-bf16"
SUITE = KernelSuite(
    "kernels-cpu", (CELL,), (Gate("kernel_reread_factor", 0.01, cells=(CELL,)),), naive=False, others=False
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    patch = pytest.MonkeyPatch()
    patch.setenv("TPGATE_LEASE_FOLDER", str(folder / "leases"))
    said: list[str] = []
    campaign = KernelCampaign(
        suite=SUITE,
        results=folder / "results",
        baselines=folder / "baselines",
        progress=said.append,
        device="cpu",
        record=True,
        samples=2,
    )
    yield campaign.measure(), said
    patch.undo()


def quiet(result, factor: float = 1.0):
    """Drop the doubts of two samples on a busy CPU, and scale the gated value."""
    launches = []
    for launch in result.launches:
        run = launch.runs[CELL]
        old = run.values["kernel_reread_factor"]
        values = run.values | {"kernel_reread_factor": msgspec.structs.replace(old, value=old.value * factor)}
        run = msgspec.structs.replace(run, doubts=(), values=values)
        launches.append(msgspec.structs.replace(launch, runs=launch.runs | {CELL: run}))
    return msgspec.structs.replace(result, launches=tuple(launches))


def test_a_suite_is_measured_in_processes_of_its_own_and_stored(outcome):
    found, said = outcome
    assert load_result(found.folder) == found.result
    assert found.result.complete
    assert found.result.launches[0].identity.keys["engine"] == "kernels"
    assert any("process 1" in text for text in said)
    assert "kernels-cpu" in found.reproduce


def test_the_same_is_ok_and_twice_the_traffic_is_a_regression(outcome):
    found, _ = outcome
    if found.baseline is None:
        pytest.fail(f"no baseline was recorded: {found.judgement}")
    assert judge(quiet(found.result), found.baseline).verdict is Verdict.OK
    worse = judge(quiet(found.result, 2.0), found.baseline)
    assert worse.verdict is Verdict.REGRESSED
    assert worse.comparisons[0].metric == "kernel_reread_factor"
