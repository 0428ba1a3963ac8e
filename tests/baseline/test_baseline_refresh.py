"""What a refresh takes in, what it refuses, and what it writes down."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest
from forge import QUIET, THROUGHPUT, TODAY, launch, result, run, scaled, series

from tpgate.baseline.assemble import assemble
from tpgate.baseline.diff import table
from tpgate.baseline.judge import judge
from tpgate.baseline.reading import load_baseline
from tpgate.baseline.refresh import plan, record_provisional
from tpgate.baseline.schema import Waiver
from tpgate.errors import BaselineError
from tpgate.stats.verdict import Verdict

GATES = {THROUGHPUT: 0.05, "ttft_p50": 0.15}


def _source(values=QUIET, *, first: int = 0, name: str = "r1", ttft: float = 0.02, **more):
    launches = [
        launch(first + i, {cell: {THROUGHPUT: v, "ttft_p50": ttft * v / 1000} for cell in ("c1", "c4")}, **more)
        for i, v in enumerate(values)
    ]
    return result(launches, GATES, result_id=name)


def _plan(old, *results, **more):
    return plan(old, results, **({"today": TODAY, "who": "ann"} | more))


def test_launches_of_several_days_are_merged_under_one_key_until_they_are_enough():
    first = _plan(None, _source(QUIET[:4], day=1))
    assert first.baseline.provisional
    assert any("provisional: 4 launches on 1 day(s)" in note for note in first.notes)
    second = _plan(first.baseline, _source(QUIET[4:8], first=4, day=2, name="r2"))
    assert second.merged
    third = _plan(second.baseline, _source(QUIET[8:], first=8, day=3, name="r3"))
    assert (len(third.baseline.launches), third.baseline.days, third.baseline.provisional) == (12, 3, False)
    assert {one.result_id for one in third.baseline.launches} == {"r1", "r2", "r3"}
    assert {one.commit for one in third.baseline.launches} == {"c0ffee"}


def test_the_same_result_twice_adds_nothing():
    first = _plan(None, _source())
    assert _plan(first.baseline, _source()).baseline.launches == first.baseline.launches


def test_a_worse_value_is_named_and_refused_even_where_others_became_better():
    old = _plan(None, _source()).baseline
    fresh = _source(scaled(QUIET, 1.10), first=50, ttft=0.025)
    made = _plan(old, fresh)
    assert [one.name for one in made.unexplained] == ["c1:ttft_p50", "c4:ttft_p50"]
    rows = [line for line in table(made.changes) if ":" in line and line.startswith("| c")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows][:2] == ["c1:ttft_p50", "c4:ttft_p50"]
    assert "**worse**" in rows[0]
    assert "better" in rows[-1]


def test_a_value_of_zero_is_unchanged_and_one_that_appears_is_worse():
    def shares(value: float, first: int):
        cells = {"c1": {"nccl_share": value}}
        return result([launch(first + i, cells) for i in range(3)], {"nccl_share": 0.2})

    old = _plan(None, shares(0.0, 0)).baseline
    assert "unchanged" in "\n".join(table(_plan(old, shares(0.0, 50)).changes))
    assert [one.name for one in _plan(old, shares(0.1, 50)).unexplained] == ["c1:nccl_share"]


def test_a_baseline_does_not_creep_by_less_than_the_tolerance():
    old = _plan(None, _source()).baseline
    made = _plan(old, _source(scaled(QUIET, 0.975), first=50))
    assert {one.name for one in made.unexplained} == {f"{cell}:{THROUGHPUT}" for cell in ("c1", "c4")}


def test_a_worse_value_with_a_reason_is_taken_in_and_stored_with_who_and_when():
    old = _plan(None, _source()).baseline
    reasons = {f"{cell}:{THROUGHPUT}": "safer sampling, decided in review 77" for cell in ("c1", "c4")}
    made = _plan(old, _source(scaled(QUIET, 0.9), first=50), reasons=reasons)
    assert not made.unexplained
    assert not made.merged
    entry = made.baseline.accepted[0]
    assert (entry.cell, entry.who, entry.when, entry.review_by) == ("c1", "ann", "2026-03-20", "2026-06-18")
    assert entry.before == pytest.approx(1000, rel=0.01)
    assert entry.after == pytest.approx(900, rel=0.01)
    assert "worse, accepted" in "\n".join(table(made.changes, made.accepted))
    late = judge(_source(scaled(QUIET[:1], 0.9), first=90), made.baseline, today=date(2026, 7, 1))
    assert any("to be looked at again" in text for text in late.warnings)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        ({"c1:ttft_p50": "a good long reason"}, "did not become worse"),
        ({f"c1:{THROUGHPUT}": "slow"}, "says too little"),
        ({"c9:nothing": "a good long reason"}, "did not become worse"),
    ],
)
def test_a_reason_must_name_a_worse_check_and_say_something(reasons, words):
    old = _plan(None, _source()).baseline
    with pytest.raises(BaselineError, match=words):
        _plan(old, _source(scaled(QUIET, 0.9), first=50), reasons=reasons)


def test_a_level_that_moved_replaces_the_old_launches():
    old = _plan(None, _source()).baseline
    made = _plan(old, _source(scaled(QUIET, 1.2), first=50))
    assert len(made.baseline.launches) == len(QUIET)
    assert made.baseline.middle("c1", THROUGHPUT) == pytest.approx(1200, rel=0.01)
    assert any("the level moved in" in note for note in made.notes)


def _partial():
    runs = {"c1": run("c1", {THROUGHPUT: 1000.0, "ttft_p50": 0.02})}
    return result([launch(60, {}, runs=runs)], GATES, cells=("c1", "c4"))


def _void():
    cells = {"c1": {THROUGHPUT: 1000.0, "ttft_p50": 0.02}}
    runs = {cell: run(cell, cells["c1"], doubt="output_length" if cell == "c4" else None) for cell in ("c1", "c4")}
    return result([launch(60, {}, runs=runs)], GATES)


def _mixed():
    one, two = _source(QUIET[:1], first=60), _source(QUIET[:1], first=61, keys={"engine_version": "other"})
    return msgspec.structs.replace(one, launches=one.launches + two.launches)


REFUSED = {
    "partial": (_partial, "partial: c4 not measured"),
    "filtered": (lambda: msgspec.structs.replace(_source(), partial=True), "only some"),
    "experiment": (lambda: msgspec.structs.replace(_source(), experiment=("x=1",)), "experiment"),
    "void": (_void, "VOID: output_length"),
    "mixed": (_mixed, "another identity"),
    "failed": (lambda: _source(QUIET[:1], first=60, failure="server crashed in the last cell"), "server crashed"),
    "unfinished": (lambda: msgspec.structs.replace(_source(), complete=False), "did not run to its end"),
    "missing": (
        lambda: result([launch(60, {c: {THROUGHPUT: 1.0, "ttft_p50": None} for c in ("c1", "c4")})], GATES),
        "ttft_p50 is missing",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_result_that_is_not_whole_and_sound_never_becomes_a_baseline(kind):
    make, words = REFUSED[kind]
    for old in (None, assemble([_source()])):
        with pytest.raises(BaselineError, match=words):
            _plan(old, make())


def test_results_of_two_identities_are_not_merged():
    with pytest.raises(BaselineError, match=r"are mixed: engine_version: 0\.5\.15 and other"):
        _plan(None, _source(), _source(QUIET, first=60, keys={"engine_version": "other"}, name="r2"))


def test_a_filtered_run_never_shrinks_what_is_promised():
    old = _plan(None, _source()).baseline
    cells = {"c1": {THROUGHPUT: 1000.0, "ttft_p50": 0.02}}
    smaller = result([launch(60 + i, cells) for i in range(3)], GATES)
    with pytest.raises(BaselineError, match="lack what the baseline of llama-8b-tp1 promises: c4"):
        _plan(old, smaller)


def test_another_identity_replaces_and_still_needs_a_reason_for_what_is_worse():
    old = _plan(None, _source()).baseline
    made = _plan(old, _source(scaled(QUIET, 0.9), first=60, keys={"engine_version": "0.5.20"}))
    assert made.unexplained
    assert any("engine_version: 0.5.15 in the baseline, 0.5.20 now" in note for note in made.notes)
    assert not made.merged


def test_a_baseline_that_its_own_source_does_not_pass_is_refused():
    steady, broken = scaled(QUIET, 1.0), [500.0, 505.0, 498.0]
    mixture = [_source(steady, name="r1"), _source(broken, first=60, name="r2")]
    with pytest.raises(BaselineError, match="r2 does not pass the baseline made from it"):
        _plan(None, *mixture)


def test_outlier_launches_are_listed_for_the_reviewer():
    made = _plan(None, _source([*QUIET[:9], 1500.0]))
    assert sum("outlier" in note and "away" in note for note in made.notes) == 4
    assert made.baseline.middle("c1", THROUGHPUT) == pytest.approx(1000, rel=0.01)


def test_waivers_that_ended_or_were_overtaken_are_dropped():
    stored = _plan(None, _source()).baseline
    fields = {"limit": 0.1, "reason": "known, see its report", "who": "ann", "when": "2026-03-01"}
    waivers = (
        Waiver(cell="c1", metric=THROUGHPUT, expires="2026-03-01", **fields),
        Waiver(cell="c4", metric=THROUGHPUT, expires="2026-12-01", **fields),
    )
    made = _plan(msgspec.structs.replace(stored, waivers=waivers), _source(QUIET, first=60, name="r2"))
    assert [one.cell for one in made.baseline.waivers] == ["c4"]
    assert any("waiver of c1" in note for note in made.notes)


def test_a_noisy_provisional_baseline_is_taken_in_with_what_it_cannot_judge():
    made = _plan(None, series(THROUGHPUT, {"c1": [600.0, 900.0, 500.0], "c4": [600.0, 900.0, 500.0]}))
    assert any("cannot be judged yet" in note for note in made.notes)


def test_a_provisional_local_baseline_is_recorded_and_judges_the_next_launch(tmp_path):
    path = record_provisional(_source(QUIET[:3]), tmp_path, today=TODAY)
    stored = load_baseline(path, in_store=True)
    assert judge(_source(QUIET[3:4], first=9), stored, today=TODAY).verdict is Verdict.OK
    assert judge(_source(scaled(QUIET[3:4], 0.35), first=9), stored, today=TODAY).verdict is Verdict.REGRESSED
