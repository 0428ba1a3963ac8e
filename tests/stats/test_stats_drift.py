"""Slow drift, trends and changes of level."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpgate.stats.drift import change_points, drift, mann_kendall, page, pooled_trend, theil_sen, trend_of
from tpgate.units import Better


def _noise(count: int, sigma: float = 0.01, seed: int = 3) -> list[float]:
    source = random.Random(seed)
    return [1000 * (1 + source.gauss(0, sigma)) for _ in range(count)]


def test_mann_kendall_of_a_known_series():
    z, p = mann_kendall([1, 2, 3, 4, 5])
    assert z == pytest.approx((10 - 1) / (5 * 4 * 15 / 18) ** 0.5)
    assert p == pytest.approx(0.0137, abs=1e-3)
    assert mann_kendall([5, 4, 3, 2, 1])[0] == -z
    assert mann_kendall([1, 1, 1, 1]) == (0.0, 0.5)
    with pytest.raises(ValueError, match="4 values"):
        mann_kendall([1, 2, 3])


def test_mann_kendall_agrees_with_kendalls_tau():
    from scipy.stats import kendalltau

    values = _noise(30)
    tau = kendalltau(range(30), values, method="asymptotic")
    assert mann_kendall(values)[1] * 2 == pytest.approx(tau.pvalue, abs=0.03)


def test_page_agrees_with_the_reference_and_sees_a_trend_over_several_series():
    from scipy.stats import page_trend_test

    blocks = [[1.0, 3.0, 2.0, 4.0, 5.0], [2.0, 1.0, 3.0, 5.0, 4.0], [1.5, 2.5, 3.5, 4.5, 5.5]]
    assert page(blocks)[1] == pytest.approx(page_trend_test(blocks, method="asymptotic").pvalue, abs=1e-6)
    assert page([[3.0, 2.0, 1.0]] * 4)[0] < -2
    with pytest.raises(ValueError, match="one length"):
        page([[1.0, 2.0, 3.0], [1.0, 2.0]])


def test_a_trend_within_blocks_is_found_though_their_levels_hide_it():
    blocks = [[100.0, 99.0, 98.0, 97.0], [110.0, 109.5, 108.0], [120.0, 119.0]]
    found = pooled_trend([[95.0], *blocks])
    # scores -6, -3 and -1; variances 52/6, 22/6 and 1
    assert found.z == pytest.approx(-(10 - 1) / (52 / 6 + 22 / 6 + 1) ** 0.5)
    assert found.count == 9, "a block of one says nothing"
    assert found.change == pytest.approx(-1.0 * 3 / 109.0 * 1.0, rel=0.05)
    assert trend_of([value for block in blocks for value in block]).z > 1, "one after the other they rise"
    assert pooled_trend([_noise(30)]).z == pytest.approx(mann_kendall(_noise(30))[0])
    with pytest.raises(ValueError, match="2 values"):
        pooled_trend([[1.0], [2.0]])


def test_blocks_without_a_trend_alarm_as_often_as_chance_does():
    alarms = sum(pooled_trend([_noise(n, seed=100 * s + n) for n in (3, 7, 12, 15)]).p < 0.05 for s in range(300))
    assert 15 <= alarms <= 48, "two-sided: a tenth of 300 is 30"


def test_theil_sen_ignores_an_outlier():
    assert theil_sen([0, 1, 2, 30, 4, 5, 6]) == pytest.approx(1)


def test_a_level_that_slid_by_three_percent_is_drift_though_no_night_was_red():
    pinned = _noise(20)
    slid = [value * 0.97 for value in _noise(14, seed=5)]
    found = drift(pinned, slid, Better.HIGHER)
    assert found.level == pytest.approx(0.03, abs=0.01)
    assert found.level_worse
    assert found.drifting
    assert not drift(pinned, slid, Better.LOWER).level_worse


def test_a_slow_slope_is_drift_by_its_trend():
    falling = [value * (1 - 0.05 * index / 19) for index, value in enumerate(_noise(20))]
    found = drift([], falling, Better.HIGHER)
    assert found.level is None
    assert found.trend is not None
    assert found.trend.z < -3
    assert found.trend_worse
    assert not drift([], falling, Better.LOWER).drifting


def test_steady_series_are_steady():
    alarms = sum(drift(_noise(20, seed=s), _noise(30, seed=100 + s), Better.HIGHER).drifting for s in range(200))
    assert alarms <= 2


def test_too_short_a_history_says_nothing():
    found = drift(_noise(20), _noise(5), Better.HIGHER)
    assert (found.level, found.trend, found.drifting) == (None, None, False)


def test_change_points_are_found_where_they_are():
    values = _noise(30) + [value * 0.93 for value in _noise(25, seed=9)] + _noise(20, seed=11)
    assert change_points(values) == [30, 55]


def test_one_bad_night_is_no_change_of_level():
    values = _noise(30)
    values[15] *= 0.6
    assert change_points(values) == []


def test_noise_has_no_change_points():
    assert sum(bool(change_points(_noise(40, seed=seed))) for seed in range(100)) <= 3


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.floats(min_value=50, max_value=150), min_size=6, max_size=40), st.floats(0.01, 100))
def test_levels_hold_three_runs_and_do_not_depend_on_the_unit(values, factor):
    marks = change_points(values)
    bounds = [0, *marks, len(values)]
    assert all(b - a >= 3 for a, b in pairwise(bounds))
    assert len(change_points([value * factor for value in values])) == len(marks)
    assert trend_of(values).z == pytest.approx(trend_of([value * factor for value in values]).z, abs=1e-6)
