"""Pairs of launches: what they say about two sides, and when a duel ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from forge import THROUGHPUT, launch, result, run, series

from tpgate.campaign import paired
from tpgate.campaign.paired import ORDER, Duel, attribution, fight, judge_pairs
from tpgate.measure.session import Settings
from tpgate.selftest.scenario import STANDIN
from tpgate.stats.verdict import Verdict

QUIET = (1000.0, 1003.0, 998.0, 1001.0)


def sides(factor, name=THROUGHPUT, values=QUIET, cells=("c1", "c4")):
    base = series(name, dict.fromkeys(cells, values))
    head = series(name, {cell: [value * factor for value in values] for cell in cells}, first=50)
    return base, head


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(0.85, Verdict.REGRESSED), (1.0, Verdict.OK), (1.2, Verdict.IMPROVED), (0.955, Verdict.INCONCLUSIVE)],
)
def test_pairs_are_judged_by_size_and_separation(factor, verdict):
    judgement = judge_pairs(*sides(factor))
    assert judgement.verdict is verdict
    assert {row.verdict for row in judgement.comparisons} == {verdict}
    assert (judgement.baseline_launches, judgement.launches) == (4, 4)


def test_a_common_drift_of_the_host_is_not_held_against_the_head():
    judgement = judge_pairs(*sides(0.99, values=(1000.0, 900.0, 800.0, 700.0)))
    assert judgement.verdict is Verdict.OK


def test_a_side_that_is_void_is_named_and_outweighs_a_regression():
    base, _ = sides(1.0)
    head = result(
        [launch(9, {}, runs={"c1": run("c1", {}, doubt="prefix_cache"), "c4": run("c4", {THROUGHPUT: 500.0})})]
    )
    judgement = judge_pairs(base, head)
    assert judgement.verdict is Verdict.VOID
    assert judgement.comparisons[1].verdict is Verdict.REGRESSED
    assert judgement.comparisons[0].reason.startswith("head: launch launch-9 is void: prefix_cache")
    assert ("head c1", "prefix_cache", "seen", "look") in judgement.doubts


def test_a_failed_launch_is_void_even_where_values_are_there():
    base, head = sides(1.0)
    broken = result(
        [*head.launches[:3], launch(60, {"c1": {THROUGHPUT: 1e3}, "c4": {THROUGHPUT: 1e3}}, failure="died")]
    )
    assert judge_pairs(base, broken).verdict is Verdict.VOID


def test_identities_may_differ_and_are_shown():
    base, _ = sides(1.0)
    head = series(THROUGHPUT, {"c1": QUIET, "c4": QUIET})
    other = [
        launch(i, {c: {THROUGHPUT: QUIET[i]} for c in ("c1", "c4")}, keys={"engine_version": "0.6"}) for i in range(4)
    ]
    judgement = judge_pairs(base, result(other))
    assert judgement.verdict is Verdict.OK
    assert judgement.differences == (("engine_version", "0.5.15", "0.6"),)
    assert judge_pairs(base, head).differences == ()


def test_time_that_grew_is_named_largest_first():
    names = ("attention_time_per_token", "moe_time_per_token", "norm_time_per_token")

    def made(values):
        return result(
            [
                launch(i, {"c1": dict(zip(names, values, strict=True)) | {"tpot_p50": 0.01 * values[0] / 1e-4}})
                for i in range(4)
            ],
            {"tpot_p50": 0.05},
        )

    judgement = judge_pairs(made((1e-4, 1e-4, 1e-5)), made((2e-4, 1.3e-4, 1.01e-5)))
    assert judgement.verdict is Verdict.REGRESSED
    (row,) = judgement.comparisons
    assert [line.split(" +")[0] for line in row.attribution] == ["attention", "moe"]
    assert attribution(()) == ()


class Servers:
    """Stands in for real launches: head is ``factor`` times as fast."""

    def __init__(self, monkeypatch, factors, failure=None):
        self.order, self.factors, self.failure = [], dict(factors), failure
        monkeypatch.setattr(paired, "measure_launch", self.measure)

    def measure(self, scenario, *, folder, settings, progress, save):
        side = folder.name
        self.order.append(side)
        factor = self.factors[side]
        value = 1000.0 * (factor.pop(0) if isinstance(factor, list) else factor)
        failure = self.failure if side == "head" else None
        cells = {load.cell: {THROUGHPUT: value} for load in scenario.cells}
        return launch(len(self.order), cells, launch_id=f"l{len(self.order)}", failure=failure)


@pytest.fixture
def duel(tmp_path):
    gates = tuple(gate for gate in STANDIN.gates if gate.metric == THROUGHPUT)
    plain = replace(STANDIN, gates=gates, profile_cells=())
    return Duel(plain, Settings(), Settings(extra=(("a", 1),)), tmp_path, 3, lambda _text: None)


def test_the_order_is_abba_and_a_clear_answer_ends_it(duel, monkeypatch):
    servers = Servers(monkeypatch, {"base": 1.0, "head": 0.8})
    judgement, folder = fight(duel)
    assert servers.order == list(ORDER)
    assert judgement.verdict is Verdict.REGRESSED
    assert {path.name for path in folder.iterdir()} == {"base", "head", "judgement.json"}
    assert (folder / "head" / "result.json").is_file()


def test_an_open_question_is_asked_again_until_the_rounds_are_spent(duel, monkeypatch):
    servers = Servers(monkeypatch, {"base": 1.0, "head": [0.95, 0.90, 0.99, 0.93, 0.99, 0.91]})
    judgement, _ = fight(duel)
    assert servers.order == list(ORDER) * 3
    assert judgement.verdict is Verdict.INCONCLUSIVE


def test_a_launch_that_fails_ends_it(duel, monkeypatch):
    servers = Servers(monkeypatch, {"base": 1.0, "head": 1.0}, failure="died")
    judgement, _ = fight(duel)
    assert servers.order == ["base", "head"]
    assert judgement.verdict is Verdict.VOID
