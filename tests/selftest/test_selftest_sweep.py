"""Every gated metric of every cell, changed on paper: the direction table, the bars and the families hold together."""

from __future__ import annotations

import msgspec
import pytest
from forge import launch, level, result

from tpgate.baseline.assemble import assemble
from tpgate.measure.definitions import METRICS, metric
from tpgate.selftest.sweep import SIZES, sweep
from tpgate.selftest.table import sweep_lines
from tpgate.stats.verdict import Verdict
from tpgate.units import Better

WOBBLE = (0.999, 1.0, 1.001)


def healthy(names, cells=("c1", "c4")):
    def made(factors, first):
        return [
            launch(first + i, {cell: {name: level(name) * factor for name in names} for cell in cells})
            for i, factor in enumerate(factors)
        ]

    gates = dict.fromkeys(names, 0.05)
    return result(made((1.0,), 100), gates), assemble([result(made(WOBBLE, 0), gates, result_id="base")])


@pytest.mark.parametrize("name", [name for name in METRICS if metric(name).source != "scenario"])
def test_every_metric_turns_red_when_worse_and_says_so_when_better(name):
    probes = sweep(*healthy([name]))
    assert all(probe.ok for probe in probes), [probe for probe in probes if not probe.ok]
    both = metric(name).better is not Better.NEITHER
    assert len(probes) == 2 * len(SIZES) * (2 if both else 1)
    assert {probe.verdict for probe in probes} == (
        {Verdict.REGRESSED, Verdict.IMPROVED} if both else {Verdict.REGRESSED}
    )


def test_a_gate_in_the_wrong_direction_is_found(monkeypatch):
    """The sweep asks the table of directions how to worsen; a judge that reads another one must not stay hidden."""
    now, base = healthy(["tpot_p50"])
    monkeypatch.setattr("tpgate.selftest.sweep.metric", lambda name: metric("output_tokens_per_second"))
    assert not all(probe.ok for probe in sweep(now, base))


def test_a_blunt_gate_is_found(monkeypatch):
    now, base = healthy(["tpot_p50"])
    monkeypatch.setattr("tpgate.selftest.sweep.SIZES", (0.5,))
    probes = sweep(now, base)
    assert probes
    assert not any(probe.ok for probe in probes)
    assert any(line.startswith("  WRONG c1:tpot_p50") for line in sweep_lines(probes))


def test_a_metric_that_is_not_there_is_left_to_the_verdict():
    now, base = healthy(["tpot_p50"])
    broken = msgspec.structs.replace(now, launches=(launch(100, {"c1": {"tpot_p50": None}, "c4": {"tpot_p50": 0.01}}),))
    assert {probe.cell for probe in sweep(broken, base)} == {"c4"}
