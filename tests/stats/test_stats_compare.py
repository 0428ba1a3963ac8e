"""The comparison itself: edges, directions, properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tpgate.stats.bars import draw_bars, fitting_tolerance
from tpgate.stats.compare import Check, compare, describe_change, is_gain, worsening
from tpgate.stats.verdict import Verdict, severity, worst
from tpgate.units import Better

QUIET = [1000.0 + step for step in (-4, 4, -3, 2, -5, 1, -1, 3, -2, 0.5, 2.5, -3.5)]
DIRECTED = [Better.HIGHER, Better.LOWER]
quick = settings(max_examples=60, deadline=None, derandomize=True)
positive = st.floats(min_value=1e-3, max_value=1e6)
samples = st.lists(st.floats(min_value=90, max_value=110), min_size=2, max_size=15)


def _compare(now, baseline=QUIET, **more) -> Check:
    fields = {"better": Better.LOWER, "tolerance": 0.03, "noise_floor": 0.003}
    return compare(baseline, now, **(fields | more))


def test_the_change_is_compared_unrounded():
    assert _compare([1028.0] * 4).verdict is Verdict.OK
    assert _compare([1032.0] * 4).verdict is Verdict.REGRESSED


def test_a_change_of_exactly_the_tolerance_is_accepted():
    flat = [1000.0] * 12
    assert _compare([1030.0] * 4, flat).verdict is Verdict.OK
    assert _compare([1030.01] * 4, flat).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("change", "launches", "verdict"),
    [
        (0.029, 1, Verdict.OK),
        (0.031, 1, Verdict.INCONCLUSIVE),
        (0.044, 1, Verdict.INCONCLUSIVE),
        (0.046, 1, Verdict.REGRESSED),
        (0.031, 2, Verdict.INCONCLUSIVE),
        (0.031, 3, Verdict.REGRESSED),
        (0.35, 1, Verdict.REGRESSED),
        (-0.029, 1, Verdict.OK),
        (-0.031, 1, Verdict.IMPROVED),
    ],
)
def test_every_tier_is_reached_at_its_own_edge(change, launches, verdict):
    assert _compare([1000 * (1 + change)] * launches, [1000.0] * 12).verdict is verdict


def test_the_worst_verdict_wins_whatever_the_order():
    order = [Verdict.REGRESSED, Verdict.VOID, Verdict.NO_BASELINE, Verdict.INCONCLUSIVE, Verdict.IMPROVED, Verdict.OK]
    assert sorted(set(order), key=severity) == order
    for index, verdict in enumerate(order):
        assert worst(list(reversed(order[index:]))) is verdict
    assert [verdict.exit_code for verdict in order] == [1, 3, 4, 5, 0, 0]
    with pytest.raises(ValueError, match="nothing was compared"):
        worst([])


def test_one_launch_in_a_wide_overlap_is_not_red():
    noisy = [100.0, 104.0, 97.0, 110.0, 92.0, 101.0, 106.0, 95.0, 99.0, 108.0]
    found = compare(noisy, [106.0, 97.0, 109.0, 95.0], better=Better.LOWER, tolerance=0.05)
    assert found.verdict is not Verdict.REGRESSED


def test_a_lucky_run_in_the_history_does_not_make_the_next_one_slow():
    pinned = [4455.0, 4480.0, 4470.0, 4460.0, 9129.0, 4450.0, 4475.0, 4465.0, 4485.0, 4458.0]
    assert compare(pinned, [4485.0], better=Better.HIGHER, tolerance=0.05).verdict is Verdict.OK
    assert compare(pinned, [2230.0], better=Better.HIGHER, tolerance=0.05).verdict is Verdict.REGRESSED


def test_broken_nights_in_a_baseline_do_not_move_its_median():
    pinned = [*QUIET[:7], 1500.0, 1510.0, 1490.0]
    assert compare(pinned, [1000.0], better=Better.HIGHER, tolerance=0.05).baseline == pytest.approx(1002, abs=3)


def test_a_real_loss_against_a_baseline_of_three_is_red_and_no_change_is_ok():
    for better, slow in ((Better.HIGHER, 350.0), (Better.LOWER, 2800.0)):
        three = QUIET[:3]
        more = {"better": better, "tolerance": 0.05, "provisional": True}
        assert compare(three, [slow], **more).verdict is Verdict.REGRESSED
        assert compare(three, [1002.0], **more).verdict is Verdict.OK


def test_one_launch_as_a_baseline_says_that_its_spread_is_unknown():
    found = compare([1000.0], [1000.0], better=Better.HIGHER, tolerance=0.05, provisional=True)
    assert not found.bars.measured
    assert any("no spread" in text for text in found.warnings)


def test_a_small_absolute_change_near_zero_is_no_change():
    few = [1e-5] * 10
    near = {"better": Better.LOWER, "tolerance": 0.05, "absolute_floor": 1e-4}
    assert compare(few, [5e-5], **near).verdict is Verdict.OK
    assert compare(few, [5e-4], **near).verdict is Verdict.REGRESSED


def test_a_baseline_of_zero_divides_nothing():
    zero = [0.0] * 10
    appeared = compare(zero, [500.0], better=Better.LOWER, tolerance=0.05)
    assert appeared.verdict is Verdict.REGRESSED
    assert appeared.effect is None
    assert describe_change(appeared) == "—"
    assert compare(zero, [0.0], better=Better.LOWER, tolerance=0.05).verdict is Verdict.OK
    assert compare(zero, [500.0], better=Better.HIGHER, tolerance=0.05).verdict is Verdict.IMPROVED
    gone = compare([5.0] * 10, [0.0], better=Better.LOWER, tolerance=0.05)
    assert gone.verdict is Verdict.IMPROVED


@pytest.mark.parametrize("bad", [[], [math.nan], [1.0, math.inf]])
def test_nothing_is_judged_on_nan_or_on_nothing(bad):
    with pytest.raises(ValueError, match="now"):
        _compare(bad)
    with pytest.raises(ValueError, match="baseline"):
        _compare([1.0], bad)


def test_noise_above_the_tolerance_is_inconclusive_and_more_noise_never_turns_it_green():
    for spread in (0.05, 0.1, 0.2):
        noisy = [1000 * (1 + spread * step / 5) for step in (-5, 4, -3, 2, -1, 0, 1, -2, 3, -4, 5)]
        found = compare(noisy, [1000.0], better=Better.HIGHER, tolerance=0.03)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.bars.mde > 0.03


def test_a_fitting_tolerance_is_between_what_is_wanted_and_what_is_accepted():
    assert fitting_tolerance(QUIET, least=0.03, most=0.1, noise_floor=0.003) == 0.03
    wide = [1000 + 10 * (value - 1000) for value in QUIET]
    middle = fitting_tolerance(wide, least=0.03, most=0.3, noise_floor=0.003)
    assert 0.03 < middle < 0.3
    assert not draw_bars(wide, tolerance=middle, noise_floor=0.003, provisional=False).blind
    assert fitting_tolerance(wide, least=0.03, most=0.04, noise_floor=0.003) == 0.04


@quick
@given(positive, positive, st.sampled_from(DIRECTED), st.floats(min_value=0.01, max_value=0.5))
def test_a_gain_is_a_change_whose_reverse_is_a_loss_beyond_the_bar(before, after, better, bar):
    assert is_gain(after, before, better, bar) == (worsening(before, after, better) > bar + 1e-12)


@quick
@given(positive, positive, st.sampled_from(DIRECTED))
def test_the_sign_of_a_worsening_follows_the_direction(before, after, better):
    assume(before != after)
    slower = after < before if better is Better.HIGHER else after > before
    assert (worsening(after, before, better) > 0) is slower
    assert worsening(after, before, Better.NEITHER) > 0


@quick
@given(samples, samples, st.sampled_from(list(Better)), st.floats(min_value=1e-3, max_value=1e4))
def test_the_unit_does_not_matter(baseline, now, better, factor):
    one = compare(baseline, now, better=better, tolerance=0.05)
    other = compare([v * factor for v in baseline], [v * factor for v in now], better=better, tolerance=0.05)
    assume(all(abs(effect - line) > 1e-9 for effect in one.effects for line in (one.bars.bar, one.bars.single)))
    assert other.verdict is one.verdict
    assert other.effect == pytest.approx(one.effect, abs=1e-9)


@quick
@given(samples, st.sampled_from(list(Better)), st.floats(min_value=0.01, max_value=0.6))
def test_a_sample_against_itself_is_never_red_nor_a_gain(values, better, tolerance):
    found = compare(values, values, better=better, tolerance=tolerance)
    assert found.verdict in (Verdict.OK, Verdict.INCONCLUSIVE)
    if better is not Better.NEITHER:
        assert found.effect == 0


@quick
@given(samples, st.sampled_from(DIRECTED), st.floats(min_value=0.0, max_value=0.9), st.integers(1, 5))
def test_making_it_worse_never_makes_the_verdict_better(values, better, extra, count):
    rank = {Verdict.IMPROVED: 0, Verdict.OK: 1, Verdict.INCONCLUSIVE: 1, Verdict.REGRESSED: 2}
    start = 100.0
    worse = start * (1 - extra) if better is Better.HIGHER else start * (1 + extra)
    first = compare(values, [start] * count, better=better, tolerance=0.05).verdict
    second = compare(values, [worse] * count, better=better, tolerance=0.05).verdict
    assert rank[second] >= rank[first]
