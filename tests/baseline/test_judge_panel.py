"""Families, shifts of mix, waivers, absolute limits, and few launches."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest
from forge import QUIET, THROUGHPUT, TODAY, baseline, launch, now, result, series

from tpgate.baseline.assemble import assemble
from tpgate.baseline.judge import judge
from tpgate.baseline.panel import time_per_token_of
from tpgate.baseline.schema import Tolerance, Waiver
from tpgate.measure.definitions import METRICS
from tpgate.stats.verdict import Verdict

SHARE, TIME = "attention_share", "attention_time_per_token"


def _verdicts(judgement) -> dict[str, Verdict]:
    return {one.cell: one.verdict for one in judgement.comparisons}


def test_throughput_that_is_worse_at_one_concurrency_alone_is_not_yet_a_regression():
    judgement = judge(now({"c1": 0.94, "c4": 1.0}, count=4), baseline(), today=TODAY)
    assert _verdicts(judgement) == {"c1": Verdict.INCONCLUSIVE, "c4": Verdict.OK}
    assert "worse in this cell alone" in judgement.comparisons[0].reason
    assert judgement.verdict.exit_code == 5


def test_a_cell_whose_neighbours_became_better_is_called_contradictory():
    judgement = judge(now({"c1": 0.94, "c4": 1.03}, count=4), baseline(), today=TODAY)
    assert "contradictory" in judgement.comparisons[0].reason
    assert judgement.verdict is Verdict.INCONCLUSIVE


def test_throughput_that_is_worse_at_two_concurrencies_is_red_on_one_launch():
    judgement = judge(now(0.94), baseline(), today=TODAY)
    assert set(_verdicts(judgement).values()) == {Verdict.REGRESSED}
    assert "c4 agree" in judgement.comparisons[0].reason


def test_one_cell_far_beyond_the_bar_is_red_alone():
    judgement = judge(now({"c1": 1.0, "c4": 0.8}, count=3), baseline(), today=TODAY)
    assert _verdicts(judgement) == {"c1": Verdict.OK, "c4": Verdict.REGRESSED}


def test_latency_is_judged_cell_by_cell_and_one_red_cell_of_twenty_ends_with_one():
    cells = {f"c{i}": {"ttft_p50": 0.02} for i in range(1, 21)}
    stored = assemble([result([launch(i, cells) for i in range(12)], {"ttft_p50": 0.05})])
    slow = cells | {"c7": {"ttft_p50": 0.0212}}
    fresh = result([launch(100 + i, slow) for i in range(4)], {"ttft_p50": 0.05})
    stored = msgspec.structs.replace(
        stored,
        tolerances=(
            Tolerance(cell="c1", metric="ttft_p50", tolerance=0.2, reason="noisy at one", who="me", when="2026-03-01"),
        ),
    )
    judgement = judge(fresh, stored, today=TODAY)
    red = [one.cell for one in judgement.comparisons if one.verdict is Verdict.REGRESSED]
    quiet = [one for one in judgement.comparisons if one.cell != "c7"]
    assert red == ["c7"]
    assert {one.tolerance for one in quiet} == {0.05, 0.2}
    assert judgement.verdict is Verdict.REGRESSED
    assert judgement.verdict.exit_code == 1


def _mixed(share: float, time: float | None, *, ceiling: float | None = None):
    gates = ((SHARE, 0.10, (), ceiling), (TIME, 0.10, (), None)) if time else ((SHARE, 0.10, (), ceiling),)
    good = {SHARE: 0.39, TIME: 1e-3} if time else {SHARE: 0.39}
    bad = {SHARE: share, TIME: time} if time else {SHARE: share}
    stored = assemble([result([launch(i, {"c64": good}) for i in range(12)], gates)])
    fresh = result([launch(99, {"c64": bad})], gates)
    return {one.metric: one for one in judge(fresh, stored, today=TODAY).comparisons}


def test_a_share_that_rose_though_its_time_per_token_did_not_is_a_shift_of_mix():
    found = _mixed(0.57, 1e-3, ceiling=0.5)[SHARE]
    assert found.verdict is Verdict.OK
    assert found.reason.startswith("shift of mix")
    assert found.effect == pytest.approx(0.4615, abs=1e-3)


def test_a_share_that_rose_with_its_time_per_token_is_red():
    assert {one.verdict for one in _mixed(0.57, 2e-3).values()} == {Verdict.REGRESSED}


def test_a_share_without_its_time_per_token_stays_red():
    assert _mixed(0.57, None)[SHARE].verdict is Verdict.REGRESSED


def test_every_share_of_a_kernel_category_has_its_time_per_token():
    shares = [name for name in METRICS if name.endswith("_share") and METRICS[name].source == "trace"]
    assert {time_per_token_of(name) is not None for name in shares if name != "gpu_busy_share"} == {True}
    assert time_per_token_of(THROUGHPUT) is None


def test_the_absolute_limit_holds_with_and_without_a_baseline():
    gates = ((THROUGHPUT, 0.5, ("c1",), 900.0), (THROUGHPUT, 0.5, ("c4",), None))
    fresh = now({"c1": 0.85, "c4": 1.0}, gates=gates)
    for stored in (baseline(), None):
        one = judge(fresh, stored, today=TODAY).comparisons[0]
        assert one.verdict is Verdict.REGRESSED
        assert "absolute limit" in one.reason


def _waived(limit: float = 0.10):
    entries = [
        Waiver(
            cell=cell,
            metric=THROUGHPUT,
            limit=limit,
            reason="known, see the report of it",
            who="ann",
            when="2026-03-01",
            expires="2026-03-31",
        )
        for cell in ("c1", "c4")
    ]
    return msgspec.structs.replace(baseline(), waivers=tuple(entries))


def test_a_waived_check_passes_and_is_shown_as_waived():
    one = judge(now(0.92), _waived(), today=TODAY).comparisons[0]
    assert one.verdict is Verdict.OK
    assert one.reason.startswith("WAIVED")
    assert any("waived by ann until 2026-03-31" in text for text in one.warnings)


def test_a_second_loss_on_top_of_a_waived_one_is_red():
    one = judge(now(0.86), _waived(), today=TODAY).comparisons[0]
    assert one.verdict is Verdict.REGRESSED
    assert "beyond the waived 10.0%" in one.reason


def test_a_waiver_ends():
    one = judge(now(0.92), _waived(), today=date(2026, 4, 1)).comparisons[0]
    assert one.verdict is Verdict.REGRESSED
    assert "ended on 2026-03-31" in one.reason


def test_three_launches_are_provisional_with_a_wider_bar_that_is_printed():
    stored = baseline(cells={"c1": QUIET[:3], "c4": QUIET[:3]})
    same = judge(now(1.0), stored, today=TODAY)
    assert same.verdict is Verdict.OK
    assert same.provisional
    assert same.comparisons[0].bar == pytest.approx(0.05 * 4 / 3)
    assert any("provisional baseline of 3 launches: bar 6.7%" in text for text in same.comparisons[0].warnings)
    lost = judge(now(0.35), stored, today=TODAY)
    assert lost.verdict is Verdict.REGRESSED


@pytest.mark.parametrize("count", [2, 3])
def test_a_noisy_host_with_few_launches_is_usable_within_a_wide_tolerance(count):
    gates = {THROUGHPUT: 0.5}
    values = [600.0, 630.0, 540.0][:count]
    stored = baseline(cells={"c1": values, "c4": values}, gates=gates)
    for factor, verdict in ((0.55, Verdict.OK), (0.66, Verdict.OK), (0.2, Verdict.REGRESSED)):
        assert judge(now(factor, gates=gates), stored, today=TODAY).verdict is verdict


def test_a_host_that_is_noisier_than_the_tolerance_cannot_say_ok():
    values = [600.0, 900.0, 500.0]
    stored = baseline(cells={"c1": values, "c4": values}, gates={THROUGHPUT: 0.05})
    judgement = judge(now(0.6), stored, today=TODAY)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "noise hides" in judgement.comparisons[0].reason
    assert judgement.comparisons[0].mde > judgement.comparisons[0].tolerance


def test_a_retry_does_not_hide_the_first_attempt():
    fresh = series(THROUGHPUT, {"c1": [910.0, 980.0], "c4": [910.0, 980.0]}, first=100)
    one = judge(fresh, baseline(), today=TODAY).comparisons[0]
    assert one.verdict is Verdict.INCONCLUSIVE
    assert one.launches == 2
    assert one.now == 945.0
    assert "judged over 2 launches" in one.warnings


def test_the_same_commit_on_another_image_is_named_as_environment():
    fresh = series(THROUGHPUT, {"c1": [600.0], "c4": [600.0]}, first=100)
    moved = msgspec.structs.replace(fresh.launches[0].identity, notes={"host": "a", "image": "new"})
    fresh = msgspec.structs.replace(fresh, launches=(msgspec.structs.replace(fresh.launches[0], identity=moved),))
    judgement = judge(fresh, baseline(), today=TODAY)
    assert judgement.verdict is Verdict.REGRESSED
    assert any("environment suspected" in text and "image (None then, new now)" in text for text in judgement.warnings)
    assert ("image", "(absent)", "new") in judgement.differences
