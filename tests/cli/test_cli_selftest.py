"""The command: its table, its exit code, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpgate import cli
from tpgate.cli import selftest
from tpgate.selftest.assess import Seen, assess
from tpgate.selftest.run import Report, selected, untraced
from tpgate.selftest.scenario import CPU, STANDIN
from tpgate.selftest.sweep import Probe
from tpgate.server.faults.table import CASES, choose
from tpgate.stats.verdict import USAGE_ERROR, Verdict

(SLOW,) = choose(("attention-slower:200%",))
CAUGHT = assess(SLOW, Seen("REGRESSED", ("tpot_p50", "e2e_p50", "tpot_p90"), "attention", 3, 0.42))
MISSED = assess(SLOW, Seen("OK"))
GOOD = Report(
    rows=(CAUGHT,),
    silence=("OK", "OK"),
    probes=(Probe("c1", "tpot_p50", 0.2, Verdict.REGRESSED, Verdict.REGRESSED),),
    silent=(),
    left_out=("moe-slower:60%",),
)


def finish(monkeypatch, report, *argv):
    plans = []

    def run(plan, say, progress):
        plans.append(plan)
        return report

    monkeypatch.setattr(selftest, "run", run)
    return cli.main(["selftest", *argv]), plans[0]


def test_all_as_it_must_be_exits_0_and_prints_the_table(monkeypatch, capsys):
    code, plan = finish(monkeypatch, GOOD, "--fault", "attention-slower:200%")
    out = capsys.readouterr().out
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("attention-slower"))
    assert row.split() == [
        "attention-slower",
        "200",
        "%",
        "REGRESSED",
        "REGRESSED",
        "+42.0",
        "%",
        "tpot_p50,",
        "e2e_p50",
        "+1",
        "attention",
        "3",
        "ok",
    ]
    assert "without a fault: 2 launch(es) judged, all OK" in out
    assert "not possible on this server: moe-slower:60%" in out
    assert plan.cases == (SLOW,)
    assert not plan.demand_every_gate, "only a whole table can demand that every gate turns red"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": (MISSED,)}, "WRONG: OK, not REGRESSED"),
        ({"silence": ("OK", "REGRESSED")}, "1 of them not OK: REGRESSED"),
        ({"silent": ("ttft_p50",)}, "no fault turned these gates red: ttft_p50"),
        (
            {"probes": (Probe("c1", "tpot_p50", 0.2, Verdict.OK, Verdict.REGRESSED),)},
            "WRONG c1:tpot_p50 +20.0 % worse: OK",
        ),
    ],
)
def test_anything_else_fails_it_and_says_what(monkeypatch, capsys, change, said):
    assert finish(monkeypatch, replace(GOOD, **change))[0] == selftest.FAILED
    assert said in capsys.readouterr().out


def test_nothing_injected_proves_nothing():
    assert not replace(GOOD, rows=()).ok


def test_the_whole_table_demands_every_gate(monkeypatch):
    _, plan = finish(monkeypatch, GOOD)
    assert plan.cases == CASES
    assert plan.demand_every_gate
    assert plan.scenario is STANDIN
    assert plan.max_launches == 4


def test_the_quick_form_demands_every_gate_too_and_makes_one_launch_a_fault(monkeypatch):
    _, plan = finish(monkeypatch, GOOD, "--quick")
    assert plan.demand_every_gate
    assert plan.max_launches == 1
    assert finish(monkeypatch, GOOD, "--quick", "--max-launches", "3")[1].max_launches == 3


def test_the_scenario_for_sglang_without_a_gpu_is_built_in(monkeypatch):
    assert finish(monkeypatch, GOOD, "selftest-cpu")[1].scenario is CPU


def test_list_needs_no_server(capsys):
    assert cli.main(["selftest", "--list", "--fault", "prefix-cache"]) == 0
    assert capsys.readouterr().out.split() == ["prefix-cache:50%", "VOID", "—", "prefix_cache"]


@pytest.mark.parametrize(
    "argv", [["--fault", "atention"], ["--max-launches", "0"], ["no-such", "--scenarios", "perf_tests/scenarios.py"]]
)
def test_what_is_unknown_is_a_usage_error(argv, capsys):
    assert cli.main(["selftest", *argv]) == USAGE_ERROR
    assert capsys.readouterr().err.startswith("tpgate selftest: ")


def test_quick_takes_one_size_and_waits_for_no_deadline():
    quick = selected(CASES, quick=True)
    assert len({case.fault for case in quick}) == len(quick)
    assert "hangs" not in {case.fault for case in quick}
    assert selected(CASES, quick=False) == CASES


def test_without_traces_the_gates_that_need_them_are_left_out():
    plain = untraced(STANDIN)
    assert plain.profile_cells == ()
    assert "kernel_time_per_token" not in {gate.metric for gate in plain.gates}
    assert "tpot_p90" in {gate.metric for gate in plain.gates}
