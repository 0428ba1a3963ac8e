from __future__ import annotations

import re

from report_samples import GRAPHS, fine, judgement, regressed, throughput

from tpgate.report.annotations import annotate, escape_message, escape_property
from tpgate.stats.verdict import Verdict


def test_percent_cr_and_lf_are_escaped():
    assert escape_message("50 %\r\n::error::") == "50 %25%0D%0A::error::"
    assert escape_property("a:b,c%") == "a%3Ab%2Cc%25"


def test_what_passes_is_not_annotated():
    assert annotate([fine()]) == []


def test_at_most_ten_worst_first_and_the_rest_is_counted():
    void = judgement(
        *(throughput("c64", 7861.2, verdict=Verdict.VOID, cell=f"v{n}") for n in range(9)), scenario="void"
    )
    lines = annotate([void, regressed()])
    assert len(lines) == 10
    assert all("REGRESSED" in line for line in lines[:6])
    assert lines[-1].startswith("::error title=6 more::")


def test_an_inconclusive_check_is_a_warning_and_a_missing_baseline_an_error():
    mixed = judgement(
        throughput("c1", GRAPHS["c1"], verdict=Verdict.INCONCLUSIVE),
        throughput("c64", GRAPHS["c64"], verdict=Verdict.NO_BASELINE),
    )
    assert [re.match("::([a-z]+) ", line)[1] for line in annotate([mixed])] == ["error", "warning"]


def test_a_name_cannot_start_another_command():
    hostile = throughput("c64", 2794.7, reason="x\n::set-output name=a::b", metric="m\r\n::stop-commands::t")
    (line,) = annotate([judgement(hostile)])
    assert "\n" not in line
    assert "\r" not in line
    assert line.index("::error ") == 0


def test_a_red_judgement_without_comparisons_is_still_said():
    empty = judgement(throughput("c1", 1.0))
    bare = type(empty)(result_id="r", scenario="s", verdict=Verdict.VOID, comparisons=())
    assert annotate([bare]) == ["::error title=s VOID::nothing was compared"]
