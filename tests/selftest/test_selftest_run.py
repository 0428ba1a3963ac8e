"""The whole self-test against real stand-in processes, on a scenario of one small cell.

Its gates are those of traces, which the load of the machine does not move.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tpgate.errors import ConfigError
from tpgate.host import lease
from tpgate.selftest.run import Plan, run
from tpgate.selftest.scenario import STANDIN
from tpgate.server.faults.table import choose
from tpgate.specs import Gate, LoadSpec, pairs

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
