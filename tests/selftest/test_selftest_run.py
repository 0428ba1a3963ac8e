"""The whole self-test against real stand-in processes, on a scenario of one small cell.

Its gates are those of traces, which the load of the machine does not move.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tpgate.campaign import Outcome
from tpgate.errors import ConfigError, HostError
from tpgate.host import lease
from tpgate.selftest.run import Plan, run
from tpgate.selftest.scenario import STANDIN
from tpgate.server.faults.table import choose
from tpgate.specs import Gate, LoadSpec, pairs
from tpgate.stats.verdict import Judgement, Verdict

CELL = LoadSpec(concurrency=4, requests=12, warmup_requests=4, input_tokens=8, output_tokens=16)
SMALL = replace(
    STANDIN,
    cells=(CELL,),
    profile_cells=("c4",),
    profile_steps=4,
    gates=(Gate("attention_time_per_token", 0.1), Gate("kernel_time_per_token", 0.1)),
    settings=pairs(client_lag_limit=20.0),
)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "default_folder", lambda: tmp_path)
    monkeypatch.setattr("tpgate.campaign.run.RECORD_LAUNCHES", 1)
    return Plan(SMALL, (), tmp_path / "results", sys.executable, silent_launches=1, max_launches=1)


def test_faults_are_caught_and_attributed_and_silence_is_kept(plan):
    cases = choose(("attention-slower:200%", "prefix-cache", "exits-at-start"))
    said = []
    report = run(replace(plan, cases=cases), said.append, lambda _text: None)
    rows = {row.case.fault: row.seen for row in report.rows}
    assert rows["attention-slower"].verdict == "REGRESSED", said
    assert rows["attention-slower"].category == "attention"
    assert rows["prefix-cache"].caught_by == ("prefix_cache",)
    assert rows["exits-at-start"].verdict == "ERROR"
    assert report.silence == ("OK",), said
    assert report.probes
    assert all(probe.ok for probe in report.probes)
    assert report.silent == (), said
    assert report.ok, [row.complaints for row in report.rows]


def test_a_server_that_takes_no_fault_is_a_usage_error(plan):
    sglang = replace(SMALL, server=replace(SMALL.server, engine="sglang", options=()))
    with pytest.raises(ConfigError, match="no fault can be put into"):
        run(replace(plan, scenario=sglang, cases=choose(("moe-slower",))), print, print)


def test_a_fault_that_is_not_caught_and_a_gate_that_nothing_turns_red_fail_it(plan):
    """A slowdown below the tolerance stands in for a gate that sleeps."""
    (slow,) = choose(("attention-slower:200%",))
    asleep = replace(slow, size="1 %", standin=pairs(fault_attention_slower=0.01))
    gates = (*SMALL.gates, Gate("moe_time_per_token", 0.1))
    said = []
    report = run(
        replace(plan, scenario=replace(SMALL, gates=gates), cases=(asleep, slow)), said.append, lambda _text: None
    )
    missed, caught = report.rows
    assert missed.complaints == ("OK, not REGRESSED",), said
    assert caught.ok, said
    assert report.silent == ("moe_time_per_token",)
    assert not report.ok
    assert not replace(report, silent=()).ok, "the fault that was missed is enough"
    assert not replace(report, rows=(caught,)).ok, "the gate that stayed silent is enough"


def test_a_host_that_spoils_the_healthy_launches_ends_it_before_a_fault_is_injected(plan, monkeypatch):
    doubts = (("c4", "client_lag", "the client's loop was late", "wait"),)
    judgement = Judgement(result_id="r", scenario="s", verdict=Verdict.VOID, comparisons=(), doubts=doubts)
    calls = []

    def measure(campaign):
        calls.append(campaign.extra)
        return Outcome(
            result=type("R", (), {"launches": (), "discarded": ()})(),
            judgement=judgement,
            folder=plan.results,
            reproduce="",
        )

    monkeypatch.setattr("tpgate.selftest.run.measure", measure)
    with pytest.raises(HostError, match="could not be recorded: the client's loop was late"):
        run(replace(plan, cases=choose(("attention-slower:200%",))), print, print)
    assert calls == [()]
