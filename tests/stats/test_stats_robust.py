"""Location, scale, intervals, and what a number of launches can see."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpgate.stats.interval import effect_interval, median_interval
from tpgate.stats.power import baseline_launches_needed, launches_needed, mde, standard_error
from tpgate.stats.robust import mad, median_variance, relative_scale, scale, upper_factor
from tpgate.units import Better

quick = settings(max_examples=60, deadline=None, derandomize=True)
lists = st.lists(st.floats(min_value=1, max_value=1e6), min_size=2, max_size=20)


def test_known_values():
    assert mad([1, 1, 2, 2, 4, 6, 9]) == 1
    assert scale([1.0]) is None
    assert scale([10.0, 12.0]) == pytest.approx(2 / 1.128)
    assert scale([5.0] * 8) == 0


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 8, 10, 12, 20, 40])
def test_the_scale_is_about_unbiased_for_normal_values(count):
    source = random.Random(count)
    found = [scale([source.gauss(100, 1) for _ in range(count)]) for _ in range(3000)]
    assert sum(found) / len(found) == pytest.approx(1, abs=0.13)


@pytest.mark.parametrize("count", [2, 3, 5, 10, 20])
def test_the_upper_bound_covers_what_it_says(count):
    source = random.Random(count)
    factor = upper_factor(count, 0.8)
    covered = sum(scale([source.gauss(0, 1) for _ in range(count)]) * factor >= 1 for _ in range(3000))
    assert covered / 3000 == pytest.approx(0.8, abs=0.08)


def test_upper_factors_shrink_with_launches():
    factors = [upper_factor(count, 0.6) for count in (2, 3, 4, 10, 20, 100)]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] < 1.1
    assert upper_factor(1, 0.6) == math.inf


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 12, 25])
def test_the_variance_of_a_median(count):
    source = random.Random(count)
    values = [median(source.gauss(0, 1) for _ in range(count)) for _ in range(6000)]
    assert 0.85 < sum(v * v for v in values) / 6000 / median_variance(count) < 1.06
    with pytest.raises(ValueError, match="0 values"):
        median_variance(0)


def test_a_scale_is_never_believed_below_the_floor():
    assert relative_scale([100.0] * 9, 0.01, 0.6) == (0.01, True)
    assert relative_scale([100.0], 0.01, 0.6) == (0.02, False)


@quick
@given(lists, st.floats(min_value=0.01, max_value=100))
def test_scale_follows_the_unit_and_not_the_order(values, factor):
    assert scale([v * factor for v in values]) == pytest.approx(scale(values) * factor, rel=1e-9, abs=1e-6)
    assert scale(sorted(values)) == scale(values)


@quick
@given(st.lists(st.floats(min_value=90, max_value=110), min_size=9, max_size=15), st.floats(1, 1e9))
def test_a_few_wild_launches_do_not_carry_the_scale_away(values, wild):
    spoiled = [*values[:-2], wild, wild]
    assert scale(spoiled) <= 2.0 * (max(values) - min(values)) + 1e-6


def test_the_smallest_detectable_loss_of_the_published_table():
    table = {1: 4.5, 2: 3.4, 3: 3.2, 5: 2.7}
    for launches, percent in table.items():
        assert 100 * mde(0.01, 20, launches, alpha=0.001) == pytest.approx(percent, abs=0.25)


@quick
@given(st.floats(0.001, 0.2), st.integers(2, 40), st.integers(1, 12))
def test_more_launches_see_more_and_more_noise_sees_less(sigma, stored, fresh):
    assert mde(sigma, stored, fresh + 2) <= mde(sigma, stored, fresh)
    assert mde(sigma, stored + 2, fresh) <= mde(sigma, stored, fresh)
    assert mde(sigma * 2, stored, fresh) == pytest.approx(2 * mde(sigma, stored, fresh))
    assert standard_error(sigma, stored, fresh) < mde(sigma, stored, fresh)


def test_launches_needed_reach_the_wanted_effect_or_say_that_none_do():
    count = launches_needed(0.01, 20, 0.03)
    assert mde(0.01, 20, count) <= 0.03 < mde(0.01, 20, count - 1)
    assert launches_needed(0.05, 3, 0.03) is None
    assert launches_needed(0.001, 20, 0.03) == 1
    stored = baseline_launches_needed(0.01, 4, 0.03)
    assert mde(0.01, stored, 4) <= 0.03
    assert baseline_launches_needed(0.5, 1, 0.03) is None


@pytest.mark.parametrize("count", [8, 15, 30])
def test_the_order_statistic_interval_covers_the_median(count):
    source = random.Random(count)
    hits = 0
    for _ in range(1000):
        found = median_interval([source.expovariate(1) for _ in range(count)])
        hits += found.low <= math.log(2) <= found.high
    assert hits / 1000 >= 0.93


def test_few_values_have_no_interval_of_that_confidence():
    assert median_interval([1, 2, 3, 4, 5]) is None
    found = median_interval([1, 2, 3, 4, 5, 6])
    assert (found.low, found.high) == (1, 6)
    assert found.confidence == pytest.approx(1 - 2 / 64)


def test_a_bootstrap_interval_holds_the_effect_and_repeats_itself():
    before = [100.0, 101, 99, 100, 102, 98, 100, 101]
    after = [90.0, 91, 89, 90, 92, 88, 90, 91]
    found = effect_interval(before, after, Better.HIGHER)
    assert found.low <= 0.10 <= found.high
    assert found == effect_interval(before, after, Better.HIGHER)
    assert effect_interval(before, after[:2], Better.HIGHER) is None
