"""Whether another launch is wanted."""

from __future__ import annotations

import pytest
from forge import QUIET, THROUGHPUT, TODAY, baseline, launch, now, result, run, series

from tpgate.baseline.adaptive import next_launch


def _ask(fresh, stored=None, **more):
    return next_launch(fresh, stored or baseline(), today=TODAY, **more)


def test_one_launch_is_enough_when_all_is_well():
    assert not _ask(now(1.0)).more
    assert not _ask(now(1.2)).more


def test_a_suspicious_launch_is_repeated_and_the_suspects_are_named():
    wish = _ask(now({"c1": 1.0, "c4": 0.9}))
    assert wish.more
    assert wish.suspects == (f"c4:{THROUGHPUT}",)
    assert "launch 2 of at most 4" in wish.reason


def test_it_stops_when_it_is_decided_either_way():
    assert _ask(now(0.9, count=2)).more
    assert not _ask(now(0.9, count=3)).more
    cleared = series(THROUGHPUT, {"c1": [900.0, 1000.0, 1000.0], "c4": [1000.0] * 3}, first=100)
    assert not _ask(cleared).more


def test_the_caps_on_launches_and_on_minutes_hold():
    assert not _ask(now(0.9, count=2), most=2).more
    wish = _ask(now(0.9), minutes_left=3.0, launch_minutes=5.0)
    assert not wish.more
    assert wish.suspects
    assert "3.0 GPU minutes left" in wish.reason


def test_a_void_launch_or_an_absent_baseline_is_no_reason_to_try_again():
    runs = {cell: run(cell, {THROUGHPUT: 500.0}, doubt="throttled") for cell in ("c1", "c4")}
    assert not _ask(result([launch(99, {}, runs=runs)])).more
    assert not next_launch(now(0.5), None).more
    other = result([launch(99, {"c1": {THROUGHPUT: 500.0}, "c4": {THROUGHPUT: 500.0}}, keys={"gpu_count": 4})])
    assert not _ask(other).more


@pytest.mark.parametrize(("factor", "more"), [(0.85, False), (0.2, True)])
def test_a_blind_check_is_repeated_only_for_a_loss_beyond_doubt(factor, more):
    wild = [1000 * (1 + 0.08 * (value - 1000) / 3) for value in QUIET]
    assert _ask(now(factor), baseline(cells={"c1": wild, "c4": wild})).more is more
