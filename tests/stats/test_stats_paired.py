from __future__ import annotations

import math
import random

import pytest

from tpgate.stats.interval import Interval
from tpgate.stats.paired import PairedEffect, decide, log_worsening, paired_effect
from tpgate.stats.verdict import Verdict
from tpgate.units import Better

QUIET = (1.0, 1.002, 0.999, 1.001)


def times(values, factor):
    return [value * factor for value in values]


@pytest.mark.parametrize(
    ("better", "factor", "effect"),
    [
        (Better.LOWER, 1.1, 0.1),
        (Better.LOWER, 0.8, -0.2),
        (Better.HIGHER, 0.8, 0.2),
        (Better.HIGHER, 1.25, -0.25),
        (Better.NEITHER, 1.1, 0.1),
    ],
)
def test_effect_is_a_fraction_of_the_base_and_positive_is_worse(better, factor, effect):
    found = paired_effect(QUIET, times(QUIET, factor), better, noise_floor=0.005)
    assert found.effect == pytest.approx(effect)
    assert found.interval.low < effect < found.interval.high
    assert (found.pairs, found.measured) == (4, False)


def test_drift_of_the_host_drops_out_of_the_pairs():
    base = [1.0, 1.1, 1.2, 1.3]
    found = paired_effect(base, times(base, 1.05), Better.LOWER, noise_floor=0.005)
    assert found.effect == pytest.approx(0.05)
    assert found.interval.high - found.interval.low < 0.03


def test_one_wild_pair_does_not_move_the_estimate_much_but_widens_the_interval():
    calm = paired_effect(QUIET, times(QUIET, 1.02), Better.LOWER, noise_floor=0.005)
    wild = paired_effect(QUIET, [1.02, 1.022, 1.019, 1.6], Better.LOWER, noise_floor=0.005)
    assert wild.effect < 0.30
    assert wild.interval.high - wild.interval.low > 5 * (calm.interval.high - calm.interval.low)


def test_student_interval_by_hand():
    logs = [0.02, 0.10]
    head = [math.exp(x) for x in logs]
    found = paired_effect([1.0, 1.0], head, Better.LOWER, noise_floor=0.001, confidence=0.95)
    half = 12.7062 * (0.08 / math.sqrt(2)) / math.sqrt(2)
    assert found.measured
    assert found.interval.high == pytest.approx(math.exp(0.06 + half) - 1, rel=1e-3)


def test_a_single_pair_assumes_twice_the_floor():
    one = paired_effect([1.0], [1.0], Better.LOWER, noise_floor=0.01)
    two = paired_effect([1.0] * 2, [1.0] * 2, Better.LOWER, noise_floor=0.01)
    assert one.interval.high > 2 * two.interval.high


@pytest.mark.parametrize(
    ("base", "head"), [([], []), ([1.0], []), ([0.0], [1.0]), ([1.0], [math.nan]), ([1.0], [math.inf])]
)
def test_what_is_no_pair_is_an_error(base, head):
    with pytest.raises(ValueError, match=r"no (pairs|ratio)"):
        paired_effect(base, head, Better.LOWER, noise_floor=0.01)


def test_interval_covers_as_often_as_it_says():
    source = random.Random(7)
    hits = 0
    for _ in range(600):
        base = [math.exp(source.gauss(0, 0.02)) for _ in range(4)]
        head = [math.exp(0.05 + source.gauss(0, 0.02)) for _ in range(4)]
        found = paired_effect(base, head, Better.LOWER, noise_floor=1e-6, confidence=0.95)
        hits += found.interval.low <= math.exp(0.05) - 1 <= found.interval.high
    assert 0.92 <= hits / 600 <= 0.98


def test_direction():
    assert log_worsening(1, 2, Better.LOWER) == -log_worsening(1, 2, Better.HIGHER) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("effect", "low", "high", "better", "verdict"),
    [
        (0.06, 0.01, 0.11, Better.LOWER, Verdict.REGRESSED),
        (0.06, -0.01, 0.13, Better.LOWER, Verdict.INCONCLUSIVE),
        (0.05, 0.03, 0.07, Better.LOWER, Verdict.INCONCLUSIVE),
        (0.03, 0.02, 0.04, Better.LOWER, Verdict.OK),
        (0.00, -0.05, 0.05, Better.LOWER, Verdict.OK),
        (0.00, -0.06, 0.06, Better.LOWER, Verdict.INCONCLUSIVE),
        (-0.06, -0.10, -0.02, Better.HIGHER, Verdict.IMPROVED),
        (-0.04, -0.06, -0.02, Better.HIGHER, Verdict.OK),
        (-0.06, -0.20, 0.08, Better.HIGHER, Verdict.INCONCLUSIVE),
        (-0.06, -0.10, -0.02, Better.NEITHER, Verdict.REGRESSED),
        (0.06, 0.02, 0.10, Better.NEITHER, Verdict.REGRESSED),
        (0.01, -0.02, 0.04, Better.NEITHER, Verdict.OK),
        (-0.04, -0.07, -0.01, Better.NEITHER, Verdict.INCONCLUSIVE),
    ],
)
def test_size_and_separation_decide(effect, low, high, better, verdict):
    found = PairedEffect(effect, Interval(low, high, 0.99), 4, True)
    assert decide(found, better, 0.05)[0] is verdict


def test_an_interval_that_two_noisy_pairs_leave_open_is_not_printed_to_the_digit():
    _, said = decide(PairedEffect(0.1, Interval(-0.9, 3658.2, 0.99), 2, True), Better.LOWER, 0.05)
    assert "99% interval -90.0% to over +1000%, 2 pairs" in said
