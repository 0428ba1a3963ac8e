"""The stand-in's traces through the whole chain of readers: what comes out is the truth that was put in."""

from __future__ import annotations

import pytest

from tpgate.measure.attribution import values_of
from tpgate.selftest.assess import PARTS, category_of
from tpgate.selftest.scenario import STANDIN
from tpgate.server.faults.inject import injection_of
from tpgate.server.faults.table import CASES
from tpgate.server.flags import render_standin
from tpgate.server.standin.profile import Profile
from tpgate.server.standin.settings import parse
from tpgate.server.standin.steps import Step, decode_step
from tpgate.stats.verdict import Comparison, Verdict
from tpgate.trace.reader import read
from tpgate.trace.summary import summarise
from tpgate.trace.taxonomy import default

BATCH = 8
PLACED = [case for case in CASES if case.category]


def settings_of(case=None):
    extra = () if case is None else injection_of(case, STANDIN.server).options
    return parse(render_standin(STANDIN.server, host="127.0.0.1", port=1, extra=extra))[0]


def traced(settings, folder):
    """Return (metric values of the traces of some decode steps, true seconds by part of one step)."""
    profile = Profile.of({"output_dir": str(folder), "num_steps": 4, "profile_id": "x"})
    at = 10**12
    for number in range(1, 5):
        parts = decode_step(settings, BATCH, number, 1000)
        end = at + round(sum(parts.values()) * 1e9)
        profile.take(Step("decode", at, end, BATCH, parts))
        at = end
    traces = [read(path) for path in profile.write(settings)]
    summary = summarise(traces, taxonomy=default(), batch=float(BATCH), batch_source="known")
    return values_of(summary, settings.tp), parts


def test_categories_are_the_parts_that_were_laid_out(tmp_path):
    values, parts = traced(settings_of(), tmp_path)
    assert values["attention_time_per_token"].value == pytest.approx(parts["attention"] / BATCH, rel=1e-3)
    assert values["gemm_time_per_token"].value == pytest.approx(parts["gemm"] / BATCH, rel=1e-3)
    moe = parts["moe"] + parts["routing"]
    assert values["moe_time_per_token"].value == pytest.approx(moe / BATCH, rel=1e-3)
    together = values["kernel_time_per_token"].value + values["idle_time_per_token"].value
    assert together == pytest.approx(sum(parts.values()) / BATCH, rel=0.02)
    assert values["unclassified_share"].value == 0
    assert values["communication_wait_time_per_token"].value > 0


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.name)
def test_every_fault_is_attributed_where_it_was_injected(case, tmp_path):
    healthy, _ = traced(settings_of(), tmp_path / "healthy")
    faulty, _ = traced(settings_of(case), tmp_path / "faulty")
    rows = [
        Comparison(
            cell="c8",
            metric=name,
            unit="s/token",
            better="lower",
            verdict=Verdict.OK,
            reason="",
            baseline=healthy[name].value,
            now=faulty[name].value,
        )
        for name in PARTS
    ]
    assert category_of(rows) == case.category
