"""Declared cells times gates is the contract: whatever is missing anywhere is never green."""

from __future__ import annotations

import math
from datetime import date

import msgspec
import pytest
from forge import QUIET, THROUGHPUT, TODAY, baseline, launch, now, result, run, scaled, series

from tpgate.baseline.assemble import assemble
from tpgate.baseline.contract import uncovered
from tpgate.baseline.judge import judge
from tpgate.errors import BaselineError, ConfigError
from tpgate.measure.result import Identity, Value
from tpgate.stats.verdict import Verdict

TWO = {THROUGHPUT: 0.05, "ttft_p50": 0.15}
GOOD = {THROUGHPUT: 1000.0, "ttft_p50": 0.02}


def _pair():
    cells = {"c1": GOOD, "c4": GOOD}
    return assemble([result([launch(i, cells) for i in range(12)], TWO)])


def _by_check(judgement):
    return {(one.cell, one.metric): one for one in judgement.comparisons}


def _with_value(name: str, value: Value):
    runs = {cell: run(cell, GOOD) for cell in ("c1", "c4")}
    runs["c4"] = msgspec.structs.replace(runs["c4"], values=runs["c4"].values | {name: value})
    return result([launch(99, {}, runs=runs)], TWO)


def test_the_very_launches_a_baseline_was_made_from_are_green_with_comparisons():
    source = series(THROUGHPUT, {"c1": QUIET, "c4": scaled(QUIET, 3)})
    judgement = judge(source, assemble([source]), today=TODAY)
    assert judgement.verdict is Verdict.OK
    assert len(judgement.comparisons) == 2
    assert judgement.launches == judgement.baseline_launches == len(QUIET)


def test_nothing_declared_is_an_error_and_not_green():
    with pytest.raises(BaselineError, match="nothing would be compared"):
        judge(result([launch(1, {"c1": GOOD})], ()), None)


def test_a_gate_on_an_unknown_metric_is_an_error():
    with pytest.raises(ConfigError, match="tokens_per_fortnight"):
        judge(result([launch(1, {"c1": GOOD})], {"tokens_per_fortnight": 0.05}), None)


def test_a_gate_on_an_unknown_cell_is_an_error():
    with pytest.raises(BaselineError, match="c128"):
        judge(result([launch(1, {"c1": GOOD})], ((THROUGHPUT, 0.05, ("c128",), None),)), None)


@pytest.mark.parametrize("tolerance", [5.0, 0.0, 120.0, -0.05, math.nan])
def test_a_tolerance_in_percent_is_out_of_range(tolerance):
    with pytest.raises(ConfigError, match="fraction"):
        judge(result([launch(1, {"c1": GOOD})], {THROUGHPUT: tolerance}), None)


def test_a_metric_that_is_missing_with_a_reason_is_void_and_says_it():
    judgement = judge(_with_value("ttft_p50", Value.missing("ttft_p50", "trace empty")), _pair(), today=TODAY)
    one = _by_check(judgement)["c4", "ttft_p50"]
    assert one.verdict is Verdict.VOID
    assert "trace empty" in one.reason
    assert judgement.verdict.exit_code == 3


def test_a_metric_that_the_harness_stopped_emitting_is_void():
    runs = {"c1": run("c1", GOOD), "c4": run("c4", {THROUGHPUT: 1000.0})}
    judgement = judge(result([launch(99, {}, runs=runs)], TWO), _pair(), today=TODAY)
    assert _by_check(judgement)["c4", "ttft_p50"].verdict is Verdict.VOID
    assert _by_check(judgement)["c1", "ttft_p50"].verdict is Verdict.OK


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -3.0])
def test_a_value_that_no_comparison_can_rest_on_is_void(value):
    judgement = judge(_with_value("ttft_p50", Value(value=value, unit="s")), _pair(), today=TODAY)
    assert _by_check(judgement)["c4", "ttft_p50"].verdict is Verdict.VOID


def test_a_value_in_another_unit_is_void_and_never_divided():
    judgement = judge(_with_value("ttft_p50", Value(value=20.0, unit="ms")), _pair(), today=TODAY)
    one = _by_check(judgement)["c4", "ttft_p50"]
    assert one.verdict is Verdict.VOID
    assert "'ms', not 's'" in one.reason


def test_a_quantile_over_too_few_requests_cannot_be_judged():
    gates = {"ttft_p99": 0.2}
    stored = baseline("ttft_p99", {"c1": scaled(QUIET, 1e-3)}, gates)
    few = result([launch(99, {}, runs={"c1": run("c1", {"ttft_p99": 1.0}, samples=9)})], gates)
    one = judge(few, stored, today=TODAY).comparisons[0]
    assert one.verdict is Verdict.INCONCLUSIVE
    assert "rests on 9 samples, at least 100" in one.reason


def test_a_gated_p99_that_broke_is_red_though_another_metric_is_missing():
    gates = {"ttft_p99": 0.2, "tpot_p50": 0.05}
    cells = {"c1": {"ttft_p99": 1.0, "tpot_p50": 0.01}}
    stored = assemble([result([launch(i, cells) for i in range(12)], gates)])
    broken = result([launch(99, {"c1": {"ttft_p99": 1.4, "tpot_p50": None}})], gates)
    found = _by_check(judge(broken, stored, today=TODAY))
    assert found["c1", "ttft_p99"].verdict is Verdict.REGRESSED
    assert found["c1", "tpot_p50"].verdict is Verdict.VOID


def test_a_cell_that_never_ran_is_void_though_it_left_no_file():
    judgement = judge(
        result([launch(99, {"c1": {THROUGHPUT: 1000.0}}, failure="server died")], cells=("c1", "c4")),
        baseline(),
        today=TODAY,
    )
    assert _by_check(judgement)["c4", THROUGHPUT].verdict is Verdict.VOID
    assert "server died" in _by_check(judgement)["c4", THROUGHPUT].reason
    assert judgement.verdict is Verdict.VOID


def test_a_new_cell_has_no_baseline_and_the_others_keep_theirs():
    fresh = series(THROUGHPUT, {"c1": [1000.0], "c2": [1500.0], "c4": [1000.0]}, first=100)
    found = _by_check(judge(fresh, baseline(), today=TODAY))
    assert found["c2", THROUGHPUT].verdict is Verdict.NO_BASELINE
    assert found["c1", THROUGHPUT].verdict is found["c4", THROUGHPUT].verdict is Verdict.OK


def test_cells_are_found_by_name_and_not_by_position():
    stored = baseline(cells={"c1": QUIET, "c4": scaled(QUIET, 4), "c8": scaled(QUIET, 8)})
    moved = series(THROUGHPUT, {"c8": [8000.0], "c4": [4000.0], "c1": [1000.0]}, first=100)
    judgement = judge(moved, stored, today=TODAY)
    assert [one.effect for one in judgement.comparisons] == pytest.approx([0, 0, 0], abs=0.01)


def test_a_promise_that_is_no_longer_declared_is_red():
    fresh = series(THROUGHPUT, {"c1": [1000.0]}, first=100)
    judgement = judge(fresh, baseline(), today=TODAY)
    assert _by_check(judgement)["c4", THROUGHPUT].verdict is Verdict.VOID
    assert "renamed, removed or filtered out" in _by_check(judgement)["c4", THROUGHPUT].reason


def test_a_run_of_some_cells_on_purpose_is_judged_on_those_and_says_so():
    fresh = series(THROUGHPUT, {"c1": [1000.0]}, first=100, partial=True)
    judgement = judge(fresh, baseline(), today=TODAY)
    assert judgement.verdict is Verdict.OK
    assert "only c1 of 2 cells were asked for" in judgement.warnings


def test_a_renamed_scenario_has_no_baseline():
    judgement = judge(now(1.0, scenario="llama-8b-tp1-new"), baseline(), today=TODAY)
    assert judgement.verdict is Verdict.NO_BASELINE
    assert judgement.differences[0] == ("scenario", "llama-8b-tp1", "llama-8b-tp1-new")


def test_another_load_of_a_cell_has_no_baseline():
    runs = {cell: msgspec.structs.replace(run(cell, {THROUGHPUT: 1.0}), load_digest="other") for cell in ("c1", "c4")}
    judgement = judge(result([launch(99, {}, runs=runs)]), baseline(), today=TODAY)
    assert judgement.verdict is Verdict.NO_BASELINE
    assert "another load" in judgement.comparisons[0].reason


def test_another_configuration_is_no_baseline_and_never_a_regression():
    slower = series(THROUGHPUT, {"c1": [760.0], "c4": [760.0]}, first=100)
    moved = Identity(keys=slower.launches[0].identity.keys | {"gpu_count": 4})
    slower = msgspec.structs.replace(slower, launches=(msgspec.structs.replace(slower.launches[0], identity=moved),))
    judgement = judge(slower, baseline(), today=TODAY)
    assert {one.verdict for one in judgement.comparisons} == {Verdict.NO_BASELINE}
    assert judgement.differences == (("gpu_count", "1", "4"),)
    assert judgement.verdict.exit_code == 4


def test_a_metric_computed_in_another_way_has_no_baseline():
    stored = baseline()
    form = msgspec.structs.replace(stored.metrics[THROUGHPUT], estimator=7)
    stored = msgspec.structs.replace(stored, metrics={THROUGHPUT: form})
    judgement = judge(now(1.1), stored, today=TODAY)
    assert judgement.verdict is Verdict.NO_BASELINE
    assert "estimator 1, baseline 7" in judgement.comparisons[0].reason


def test_without_a_baseline_the_reason_is_given_and_the_exit_code_is_its_own():
    judgement = judge(now(1.0), None, reason_without="neither a nor b exists")
    assert {one.reason for one in judgement.comparisons} == {"neither a nor b exists"}
    assert judgement.verdict.exit_code == 4


def test_a_void_run_is_void_however_fast_it_was():
    runs = {"c1": run("c1", {THROUGHPUT: 2000.0}, doubt="failed_requests"), "c4": run("c4", {THROUGHPUT: 1000.0})}
    judgement = judge(result([launch(99, {}, runs=runs)]), baseline(), today=TODAY)
    assert _by_check(judgement)["c1", THROUGHPUT].verdict is Verdict.VOID
    assert judgement.doubts == (("c1", "failed_requests", "seen", "look"),)


@pytest.mark.parametrize("more", [{"complete": False}, {}])
def test_an_unfinished_or_mixed_result_is_void(more):
    launches = [launch(98, {"c1": {THROUGHPUT: 1000.0}}), launch(99, {"c1": {THROUGHPUT: 1000.0}})]
    if not more:
        launches[1] = launch(99, {"c1": {THROUGHPUT: 1000.0}}, keys={"engine_version": "other"})
    stored = baseline(cells={"c1": QUIET})
    assert judge(result(launches, **more), stored, today=TODAY).verdict is Verdict.VOID


def test_an_old_baseline_and_one_that_holds_more_are_said():
    source = result([launch(i, {"c1": {THROUGHPUT: 1000.0 + i, "e2e_p50": 1.0}}) for i in range(12)])
    fresh = series(THROUGHPUT, {"c1": [1000.0]}, first=100)
    judgement = judge(fresh, assemble([source]), today=date(2026, 7, 1))
    assert any("days old" in text for text in judgement.warnings)
    assert any("c1:e2e_p50" in text for text in judgement.warnings)


def test_a_metric_that_nobody_gates_is_shown_and_does_not_pass_for_a_gate():
    cells = {"c1": {THROUGHPUT: 1000.0, "e2e_p50": 1.0}}
    stored = assemble([result([launch(i, cells) for i in range(12)])])
    fresh = result([launch(99, {"c1": {THROUGHPUT: 1000.0, "e2e_p50": 2.0}})])
    judgement = judge(fresh, stored, today=TODAY)
    assert judgement.verdict is Verdict.OK
    assert [(one.metric, one.verdict) for one in judgement.observed] == [("e2e_p50", Verdict.REGRESSED)]
    assert [one.metric for one in judgement.comparisons] == [THROUGHPUT]


def test_what_the_baseline_cannot_judge_is_known_before_any_launch():
    known = [("c1", THROUGHPUT), ("c4", THROUGHPUT)]
    assert uncovered(baseline(), [*known, ("c128", THROUGHPUT), ("c4", "ttft_p50")]) == [
        f"c128:{THROUGHPUT}",
        "c4:ttft_p50",
    ]
    assert uncovered(baseline(), known) == []
