from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpgate.host.counters import unwrap
from tpgate.host.link import capacity

GEN5 = 63.0e9
MS = 1_000_000


def series(raw, step_ms=20, **more):
    times = np.arange(len(raw), dtype=np.int64) * step_ms * MS
    return unwrap(times, times, np.asarray(raw, np.int64), **more)


def real():
    text = (Path(__file__).parent / "data" / "h200_pcie_c16.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    return {name: np.array([int(row[name]) for row in rows], np.int64) for name in ("ns", "tx", "rx")}


def test_one_wrap_is_one_modulus():
    found = series([2**32 - 100, 50], bits=32, capacity=GEN5)
    assert found.increase.tolist() == [150.0]
    assert (found.wraps, found.ambiguous, found.implausible) == (1, 0, 0)


def test_an_interval_in_which_the_counter_may_wrap_twice_is_unknown_and_not_guessed():
    found = series([0, 1000, 2000], step_ms=70, bits=32, capacity=GEN5)
    assert np.isnan(found.increase).all()
    assert found.ambiguous == 2
    assert found.between(0, 140 * MS) == (0.0, 1.0)


def test_the_bound_of_an_interval_comes_from_the_outer_stamps():
    begin = np.array([0, 20 * MS], np.int64)
    end = np.array([1, 70 * MS], np.int64)
    assert unwrap(begin, end, np.array([0, 5], np.int64), bits=32, capacity=GEN5).ambiguous == 1


def test_more_than_the_link_carries_is_implausible():
    found = series([0, 3_000_000_000, 3_000_000_100], bits=32, capacity=1e9)
    assert np.isnan(found.increase[0])
    assert found.increase[1] == 100
    assert found.implausible == 1


def test_a_64_bit_counter_that_behaves_like_32_bits_is_unwrapped_at_32():
    assert series([2**32 - 10, 10], bits=64, capacity=GEN5).increase.tolist() == [20.0]


def test_a_64_bit_counter_that_goes_back_was_reset():
    found = series([2**40, 10, 20], bits=64, capacity=GEN5)
    assert np.isnan(found.increase[0])
    assert found.implausible == 1


def test_readings_that_failed_are_bridged():
    found = series([0, -1, 4000], bits=32, capacity=GEN5)
    assert found.increase.tolist() == [4000.0]
    assert found.end_ns.tolist() == [40 * MS]


@pytest.mark.parametrize("raw", [[], [5], [-1, -1, 7]])
def test_fewer_than_two_readings_give_nothing(raw):
    found = series(raw)
    assert len(found.increase) == 0
    assert found.between(0, 100) == (0.0, 1.0)


def test_a_window_cuts_intervals_in_proportion():
    found = series([0, 100, 300], bits=32, capacity=GEN5)
    assert found.between(10 * MS, 30 * MS) == (150.0, 0.0)
    total, unknown = found.between(30 * MS, 50 * MS)
    assert total == 100.0
    assert unknown == pytest.approx(0.5)


def test_the_longest_standstill_is_found():
    found = series([5, 5, 5, 9, 9, 10], bits=32, capacity=GEN5)
    assert found.longest_still_s(0, 100 * MS) == pytest.approx(0.04)


def test_a_series_measured_on_an_h200_keeps_its_bytes_when_it_is_moved_over_the_end_of_the_counter():
    measured = real()
    times, plain = measured["ns"], measured["rx"]
    cap = capacity(5, 16)
    straight = unwrap(times, times, plain, bits=32, capacity=cap)
    shift = 2**32 - int(plain[60])
    moved = unwrap(times, times, (plain + shift) % 2**32, bits=32, capacity=cap)
    assert (straight.wraps, moved.wraps) == (0, 1)
    assert moved.between(int(times[0]), int(times[-1])) == straight.between(int(times[0]), int(times[-1]))
    assert straight.between(int(times[0]), int(times[-1]))[0] == plain[-1] - plain[0] == 110_015_372
    assert np.median(moved.rates(0, int(times[-1]))) == pytest.approx(37.0e6, rel=0.01)


@given(
    start=st.integers(0, 2**32 - 1),
    steps=st.lists(st.integers(0, int(GEN5 * 0.02)), min_size=1, max_size=60),
)
def test_any_load_that_the_link_carries_is_counted_exactly_at_50_hz(start, steps):
    raw = (start + np.cumsum([0, *steps])) % 2**32
    found = series(raw, bits=32, capacity=GEN5)
    assert found.increase.tolist() == [float(step) for step in steps]
    assert found.between(0, len(steps) * 20 * MS)[0] == float(sum(steps))
