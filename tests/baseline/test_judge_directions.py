"""Every metric of the table, both ways: a run made 2.5 times worse is red, one made better is a gain."""

from __future__ import annotations

import pytest
from forge import QUIET, TODAY, baseline, level, scaled, series

from tpgate.baseline.judge import judge
from tpgate.measure.definitions import METRICS
from tpgate.stats.verdict import Verdict
from tpgate.units import Better

DIRECTED = sorted(name for name, one in METRICS.items() if one.better is not Better.NEITHER)
WATCHED = sorted(name for name, one in METRICS.items() if one.better is Better.NEITHER)
GATE = 0.05


def _gate(name: str) -> dict[str, float]:
    """A tolerance that the metric's own noise floor can resolve."""
    return {name: max(GATE, 6 * METRICS[name].noise_floor)}


def _cells(name: str) -> list[str]:
    return ["scenario"] if METRICS[name].source == "scenario" else ["c1", "c4"]


def _stored(name: str):
    values = scaled(QUIET, level(name) / 1000)
    return baseline(name, {"c1": values, "c4": values, "scenario": values}, _gate(name))


def _judged(name: str, factor: float):
    value = level(name) * factor
    fresh = series(name, {"c1": [value], "c4": [value], "scenario": [value]}, _gate(name), first=100)
    return judge(fresh, _stored(name), today=TODAY)


def _worse(name: str) -> float:
    return 1 / 2.5 if METRICS[name].better is Better.HIGHER else 2.5


@pytest.mark.parametrize("name", DIRECTED)
def test_every_metric_is_red_on_a_run_made_two_and_a_half_times_worse(name):
    judgement = _judged(name, _worse(name))
    assert {one.cell for one in judgement.comparisons} == set(_cells(name))
    assert {one.verdict for one in judgement.comparisons} == {Verdict.REGRESSED}
    assert all(one.effect > 0 for one in judgement.comparisons)
    assert judgement.verdict.exit_code == 1


@pytest.mark.parametrize("name", DIRECTED)
def test_every_metric_is_a_gain_on_a_run_made_better_and_asks_for_a_refresh(name):
    judgement = _judged(name, 1 / _worse(name))
    assert {one.verdict for one in judgement.comparisons} == {Verdict.IMPROVED}
    assert all(one.effect < 0 and "refresh" in one.reason for one in judgement.comparisons)
    assert judgement.verdict.exit_code == 0


@pytest.mark.parametrize("name", DIRECTED + WATCHED)
def test_every_metric_is_ok_on_an_unchanged_run(name):
    judgement = _judged(name, 1.0)
    assert judgement.verdict is Verdict.OK
    assert judgement.comparisons


@pytest.mark.parametrize("factor", [2.5, 0.4])
@pytest.mark.parametrize("name", WATCHED)
def test_a_metric_without_direction_is_red_both_ways_and_never_a_gain(name, factor):
    assert _judged(name, factor).verdict is Verdict.REGRESSED


def test_one_file_may_mix_directions():
    gates = {"output_tokens_per_second": GATE, "ttft_p50": GATE}
    from forge import launch, result

    from tpgate.baseline.assemble import assemble

    stored = assemble(
        [
            result(
                [launch(i, {"c1": {"output_tokens_per_second": v, "ttft_p50": v}}) for i, v in enumerate(QUIET)], gates
            )
        ]
    )
    slower = result([launch(99, {"c1": {"output_tokens_per_second": 500.0, "ttft_p50": 500.0}})], gates)
    found = {one.metric: one.verdict for one in judge(slower, stored, today=TODAY).comparisons}
    assert found == {"output_tokens_per_second": Verdict.REGRESSED, "ttft_p50": Verdict.IMPROVED}
