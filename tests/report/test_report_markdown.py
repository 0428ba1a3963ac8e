from __future__ import annotations

import pytest
from report_results import judgement_of
from report_samples import GRAPHS, judgement, regressed, throughput

from tpgate.report.markdown import BUDGET, code, escape, render, render_all
from tpgate.stats.verdict import Verdict

HOSTILE = (
    "<script>alert(1)</script> [x](javascript:alert(1)) @someone #1 ![i](http://e.example/p.png) | `a` \r\n::error::"
)


def test_the_worst_row_is_first_and_the_head_says_the_verdict():
    lines = render(judgement_of(), reproduce="tpgate run llama-8b-tp1 --cell c64").splitlines()
    assert lines[0] == "## 🔴 llama-8b-tp1: REGRESSED"
    rows = [line for line in lines if line.startswith("| c")]
    assert rows[1].startswith("| c16 | `tpot_p50` | 5.30 ms/token | 19.0 ms/token | +257.4 % |")
    assert "tpgate run llama-8b-tp1 --cell c64" in lines


def test_hostile_text_takes_no_effect():
    text = render(judgement(throughput("c64", 2794.7, reason=HOSTILE, cell=HOSTILE), scenario=HOSTILE))
    assert "<script" not in text.replace("\\<script", "")
    assert "](javascript" not in text.replace("\\]\\(javascript", "")
    assert "\\@someone" in text
    assert "http://" not in text
    rows = [line for line in text.splitlines() if line.startswith("|") and "2795" in line]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 10


def test_code_with_backticks_stays_one_piece_of_code():
    assert code("a`b``c") == "``` a`b``c ```"
    assert code("plain") == "`plain`"
    assert escape("a_b*c") == "a\\_b\\*c"


@pytest.mark.parametrize("budget", [600, 5_000, BUDGET])
def test_the_budget_is_kept_and_what_is_left_out_is_said(budget):
    many = [
        throughput("c64", 7861.2 * (0.5 + index / 10_000), cell=f"c{index}", reason="é" * 400) for index in range(3000)
    ]
    text = render(judgement(*many), budget=budget)
    assert len(text.encode()) <= budget
    assert "REGRESSED" in text
    if budget > 600:
        assert "more rows and the notes were left out" in text


def test_several_scenarios_come_worst_first():
    fine = judgement(throughput("c1", GRAPHS["c1"]), scenario="fine")
    text = render_all([fine, regressed()])
    assert text.index("REGRESSED") < text.index("fine")


def test_no_baseline_names_the_keys():
    apart = judgement(
        throughput("c1", 205.0, verdict=Verdict.NO_BASELINE, baseline=None, effect=None, reason="another key"),
        differences=(("gpu", "NVIDIA H100", "NVIDIA H200"),),
    )
    assert "**Kept apart from the baseline by**" in render(apart)
    assert "- `gpu`: `NVIDIA H100` → `NVIDIA H200`" in render(apart)
