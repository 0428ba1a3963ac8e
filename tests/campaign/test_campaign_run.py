"""Launching, judging and launching again: the launches are scripted, everything else is real."""

import dataclasses

import msgspec
import pytest

from tpgate.baseline.reading import load_result
from tpgate.campaign import Campaign, making, measure
from tpgate.campaign.verdict import foresee
from tpgate.errors import BaselineError, ServerError
from tpgate.measure.result import Doubt, Identity, Launch, Run, Value
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, load_digest, pairs
from tpgate.stats.verdict import Verdict

NAME = "output_tokens_per_second"
LOADS = tuple(LoadSpec(concurrency=c, requests=10, warmup_requests=c) for c in (1, 4))
SCENARIO = Scenario(
    name="tiny",
    server=ServerSpec(ModelSpec.dummy("m", {"vocab_size": 8}), device="cpu"),
    cells=LOADS,
    gates=(Gate(NAME, 0.05),),
)


@pytest.fixture
def script(monkeypatch):
    """Throughput of each launch in turn: a number, or a doubt's name for a void launch that passes, or an error."""
    todo, seen = [], []

    def launch(scenario, *, folder, settings, progress, save):
        item = todo.pop(0)
        number = len(seen)
        seen.append(item)
        keys = {"hardware": "cpu-x-2cores", "server.disable_cuda_graph": bool(dict(settings.extra))}
        doubts = ()
        value = 100.0 if isinstance(item, str) else item
        if isinstance(item, str):
            doubts = (Doubt(check=item, reason="late", advice="wait", passing=item == "client_lag"),)
        runs = {
            load.cell: Run(
                cell=load.cell,
                load_digest=load_digest(load),
                started_at="2026-03-01T00:00:00+00:00",
                values={NAME: Value.of(NAME, value * load.concurrency, 100)},
                doubts=doubts,
            )
            for load in scenario.cells
            if not settings.cells or load.cell in settings.cells
        }
        made = Launch(
            launch_id=f"launch-{number}-{id(todo)}",
            started_at=f"2026-03-01T00:00:{number:02d}+00:00",
            identity=Identity(keys=keys),
            runs={} if item == "broken" else runs,
            failure="the server did not start" if item == "broken" else None,
        )
        save(made)
        return made

    monkeypatch.setattr(making, "measure_launch", launch)

    def feed(*items):
        todo[:] = items
        seen.clear()
        return seen

    return feed


@pytest.fixture
def campaign(tmp_path):
    def make(**more):
        fields = {
            "scenario": SCENARIO,
            "results": tmp_path / "results",
            "baselines": tmp_path / "baselines",
            "python": "python",
            "progress": lambda text: None,
        }
        return Campaign(**(fields | more))

    return make


@pytest.fixture
def recorded(script, campaign):
    script(100.0, 100.5, 99.5, 100.0)
    return measure(campaign(record=True))


def test_without_a_baseline_nothing_is_green(script, campaign):
    seen = script(100.0)
    outcome = measure(campaign())
    assert outcome.judgement.verdict is Verdict.NO_BASELINE
    assert seen == [100.0]
    assert "--record" in outcome.judgement.comparisons[0].reason


def test_recording_makes_three_launches_and_judges_a_fourth(recorded, campaign):
    assert recorded.judgement.verdict is Verdict.OK
    assert recorded.judgement.provisional
    assert len(recorded.baseline.launches) == 3
    assert len(recorded.result.launches) == 1
    assert "not checked in" in recorded.notes[0]
    assert not campaign().baselines.exists()


def test_one_launch_when_all_is_well(recorded, script, campaign):
    seen = script(100.2)
    assert measure(campaign()).judgement.verdict is Verdict.OK
    assert seen == [100.2]


def test_a_suspicion_is_confirmed_by_further_launches_and_all_are_kept(recorded, script, campaign):
    seen = script(92.0, 92.1, 91.9)
    outcome = measure(campaign())
    assert outcome.judgement.verdict is Verdict.REGRESSED
    assert seen == [92.0, 92.1, 91.9]
    assert len(load_result(outcome.folder).launches) == 3


def test_a_suspicion_that_does_not_hold_passes_and_is_labelled(recorded, script, campaign):
    seen = script(92.0, 100.0, 100.1)
    outcome = measure(campaign())
    assert outcome.judgement.verdict is Verdict.OK
    assert len(seen) == 3
    assert any("judged over 3 launches" in text for row in outcome.judgement.comparisons for text in row.warnings)


def test_no_more_launches_than_allowed(recorded, script, campaign):
    seen = script(92.0)
    outcome = measure(campaign(max_launches=1))
    assert seen == [92.0]
    assert not outcome.judgement.verdict.passes


def test_a_launch_that_the_client_spoiled_is_made_again_and_kept_apart(recorded, script, campaign):
    seen = script("client_lag", 100.0)
    outcome = measure(campaign())
    assert outcome.judgement.verdict is Verdict.OK
    assert len(seen) == 2
    assert len(load_result(outcome.folder).discarded) == 1
    assert any("made again" in text for text in outcome.judgement.warnings)


def test_a_client_that_spoils_every_launch_ends_in_no_verdict(recorded, script, campaign):
    seen = script(*["client_lag"] * (1 + making.MOST_DISCARDED))
    assert measure(campaign()).judgement.verdict is Verdict.VOID
    assert len(seen) == 1 + making.MOST_DISCARDED


def test_what_the_server_did_wrong_is_never_tried_again(recorded, script, campaign):
    seen = script("failed_requests")
    assert measure(campaign()).judgement.verdict is Verdict.VOID
    assert len(seen) == 1


def test_a_server_that_does_not_start_is_an_error_and_no_verdict(script, campaign):
    script("broken")
    with pytest.raises(ServerError, match="did not start"):
        measure(campaign())


def test_an_experiment_is_judged_against_the_plain_baseline_and_labelled(recorded, script, campaign):
    script(60.0)
    outcome = measure(campaign(extra=pairs(disable_cuda_graph=True), max_launches=1))
    assert outcome.judgement.verdict is Verdict.REGRESSED
    assert outcome.judgement.differences[0][0] == "server.disable_cuda_graph"
    assert outcome.judgement.warnings[0].startswith("experiment (disable_cuda_graph=True)")
    assert "disable_cuda_graph=true" in outcome.reproduce


def test_one_cell_alone_is_judged_alone(recorded, script, campaign):
    script(100.0)
    outcome = measure(campaign(cells=("c4",)))
    assert [row.cell for row in outcome.judgement.comparisons] == ["c4"]
    assert outcome.judgement.verdict is Verdict.OK
    assert load_result(outcome.folder).partial


def test_a_broken_baseline_file_costs_no_launch(recorded, script, campaign, tmp_path):
    path = tmp_path / ".tpgate/baselines/cpu-x-2cores/tiny.json"
    path.write_text(path.read_text()[:100])
    seen = script(100.0)
    with pytest.raises(BaselineError, match=r"tiny\.json"):
        measure(campaign())
    assert seen == []


def test_the_judgement_is_stored_beside_the_result(recorded):
    stored = msgspec.json.decode((recorded.folder / "judgement.json").read_bytes())
    assert stored["verdict"] == "OK"
    assert stored["result_id"] == recorded.folder.name


def test_recording_goes_on_while_the_launches_differ_too_much_to_judge_by(script, campaign):
    seen = script(100.0, 60.0, 100.0, 100.1, 99.9, 100.0, 100.2, 100.0)
    outcome = measure(campaign(record=True))
    assert 4 < len(seen) <= 8
    assert len(outcome.baseline.launches) == len(seen) - 1


def test_launches_that_cannot_become_a_baseline_are_judged_and_never_recorded(script, campaign, tmp_path):
    seen = script(100.0, "failed_requests")
    outcome = measure(campaign(record=True))
    assert outcome.judgement.verdict is Verdict.VOID
    assert seen == [100.0, "failed_requests"], "a void launch ends the recording"
    assert outcome.baseline is None
    assert "no baseline was recorded" in outcome.notes[0]
    assert not (tmp_path / ".tpgate/baselines").exists()


def test_launches_that_contradict_each_other_are_no_baseline(script, campaign, tmp_path, monkeypatch):
    def contradictory(*_args, **_more):
        raise BaselineError("result-1 does not pass the baseline made from it")

    monkeypatch.setattr("tpgate.campaign.run.plan", contradictory)
    script(100.0, 100.0, 100.0)
    outcome = measure(campaign(record=True))
    assert outcome.judgement.verdict is Verdict.NO_BASELINE
    assert "does not pass" in outcome.judgement.comparisons[0].reason


def test_what_a_baseline_cannot_judge_is_said_before_the_first_launch(recorded, script, campaign):
    said = []
    wider = dataclasses.replace(
        SCENARIO, cells=(*LOADS, LoadSpec(concurrency=16, requests=16, warmup_requests=16)), gates=(Gate(NAME, 0.05),)
    )
    seen = script(100.0)
    outcome = measure(campaign(scenario=wider, progress=lambda text: said.append((text, len(seen)))))
    early = [text for text, launches in said if not launches]
    assert any(f"does not hold c16:{NAME}: NO BASELINE until tpgate refresh" in text for text in early)
    assert any("days old: refresh it" in text for text in early)
    assert outcome.judgement.verdict is Verdict.NO_BASELINE
    said.clear()
    fewer = dataclasses.replace(SCENARIO, cells=LOADS[:1])
    script(100.0)
    measure(campaign(scenario=fewer, progress=lambda text: said.append((text, 0))))
    assert any(f"promises c4:{NAME}, not declared any more" in text for text, _ in said)


def test_nothing_is_foreseen_where_the_baseline_covers_all(recorded, campaign):
    for cells in ((), ("c1",)):
        assert all("days old" in text for text in foresee(campaign(cells=cells)))
