"""What counts as caught, and by whom."""

from __future__ import annotations

import pytest
from forge import launch, result, run

from tpgate.measure.result import Doubt
from tpgate.selftest.assess import Seen, assess, category_of, look, silent_gates
from tpgate.server.faults.case import Case
from tpgate.stats.verdict import Comparison, Judgement, Verdict

SLOW = Case("slow", "10 %", "REGRESSED", ("tpot_p50", "tpot_p90"), "attention")


def row(metric, verdict=Verdict.OK, cell="c1", **more):
    return Comparison(cell=cell, metric=metric, unit="s", better="lower", verdict=verdict, reason="why", **more)


def judgement(*rows, verdict=Verdict.REGRESSED, **more):
    return Judgement(result_id="r", scenario="s", verdict=verdict, comparisons=rows, launches=3, **more)


def healthy():
    return result([launch(1, {"c1": {"tpot_p50": 0.01}})], {"tpot_p50": 0.05})


def doubtful(*doubts, failure=None):
    runs = {"c1": run("c1", {})}
    voided = launch(
        1, {}, runs={"c1": type(runs["c1"])(cell="c1", load_digest="d", started_at="t", values={}, doubts=doubts)}
    )
    return result([type(voided)(**{f: getattr(voided, f) for f in voided.__struct_fields__} | {"failure": failure})])


def doubt(check, *, fatal=True):
    return Doubt(check=check, reason=f"{check} was seen", advice="look", fatal=fatal)


def test_regressions_are_named_largest_first():
    rows = (
        row("tpot_p50", Verdict.REGRESSED, effect=0.1),
        row("ttft_p50", Verdict.REGRESSED, effect=0.4),
        row("e2e_p50"),
    )
    seen = look(healthy(), judgement(*rows))
    assert (seen.verdict, seen.caught_by, seen.effect, seen.launches) == ("REGRESSED", ("ttft_p50", "tpot_p50"), 0.4, 3)


def test_void_names_fatal_checks_before_notes():
    found = doubtful(doubt("slow_note", fatal=False), doubt("prefix_cache"), failure="died")
    seen = look(found, judgement(verdict=Verdict.VOID))
    assert seen.caught_by == ("prefix_cache", "launch_failed")
    assert seen.reason == "prefix_cache was seen"


def test_void_without_a_fatal_check_is_a_missing_metric_and_the_notes_say_why():
    found = doubtful(doubt("profile_capture", fatal=False))
    seen = look(found, judgement(row("attention_share", Verdict.VOID), verdict=Verdict.VOID))
    assert seen.caught_by == ("missing_metric", "profile_capture")


def test_another_identity_is_seen_as_one():
    seen = look(healthy(), judgement(verdict=Verdict.NO_BASELINE, differences=(("sglang", "1", "2"),)))
    assert seen.caught_by == ("identity",)
    assert "sglang: 1 / 2" in seen.reason


def test_silence_is_caught_by_nothing():
    assert look(healthy(), judgement(row("tpot_p50"), verdict=Verdict.OK)).caught_by == ()


@pytest.mark.parametrize(
    ("grown", "category"),
    [
        ({"attention_time_per_token": 2.0, "idle_time_per_token": 1.0}, "attention"),
        ({"communication_intrinsic_time_per_token": 3.0, "communication_wait_time_per_token": 1.0}, "communication"),
        ({"communication_intrinsic_time_per_token": 0.1, "communication_wait_time_per_token": 1.0}, "wait"),
        ({"attention_time_per_token": -1.0}, None),
        ({"tpot_p50": 5.0}, None),
        ({}, None),
    ],
)
def test_time_is_placed_where_most_was_added(grown, category):
    assert category_of([row(name, baseline=10.0, now=10.0 + by) for name, by in grown.items()]) == category


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (Seen("REGRESSED", ("tpot_p90", "e2e_p50"), "attention"), None),
        (Seen("REGRESSED", ("tpot_p90",), None), None),
        (Seen("OK", (), None), "OK, not REGRESSED"),
        (Seen("VOID", ("client_lag",), None), "VOID, not REGRESSED"),
        (Seen("REGRESSED", ("ttft_p50",), "attention"), "caught by ttft_p50, not by tpot_p50 or tpot_p90"),
        (Seen("REGRESSED", ("tpot_p50",), "moe"), "attributed to moe, not to attention"),
    ],
)
def test_what_differs_from_the_table_is_a_complaint(seen, complaint):
    made = assess(SLOW, seen)
    assert made.ok == (complaint is None)
    assert made.complaints == (() if complaint is None else (complaint,))


def test_a_gate_that_nothing_turned_red_is_found():
    rows = [assess(SLOW, Seen("REGRESSED", ("tpot_p50",))), assess(SLOW, Seen("VOID", ("ttft_p50",)))]
    assert silent_gates(rows, ["tpot_p50", "ttft_p50", "ttft_p50"]) == ("ttft_p50",)
