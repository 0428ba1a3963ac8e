from __future__ import annotations

import re

import pytest
from report_samples import ADVICE, GRAPHS, fine, judgement, regressed, throughput
from table_picture import PICTURE, picture

from tpgate.report.terminal import render
from tpgate.stats.verdict import Verdict

ABSENT = {"now": None, "effect": None}
COMMAND = "tpgate run llama-8b-tp1 --cell c1"


def text_of(*args: object, **kwargs: object) -> str:
    return "\n".join(render(*args, **kwargs))


def test_a_row_says_cell_metric_baseline_now_change_tolerance_mde_verdict():
    line = next(line for line in render(regressed()) if "c64" in line and "output_tokens_per_second " in line)
    assert re.split(r"\s{2,}", line.strip()) == [
        "c64", "output_tokens_per_second", "7861 tok/s", "2795 tok/s", "-64.4 %", "5.0 %", "2.1 %", "REGRESSED",
    ]  # fmt: skip


def test_the_worst_row_comes_first():
    mixed = judgement(
        throughput("c1", GRAPHS["c1"]),
        throughput("c16", GRAPHS["c16"] * 0.80),
        throughput("c64", GRAPHS["c64"] * 0.50),
    )
    cells = [line.split()[0] for line in render(mixed) if " tok/s " in line]
    assert cells == ["c64", "c16", "c1"]


def test_a_void_cell_without_values_shows_a_dash_and_never_a_zero():
    void = throughput("c64", 1.0, verdict=Verdict.VOID, **ABSENT, reason="3 of 512 requests failed")
    line = next(line for line in render(judgement(void)) if line.startswith("  c64"))
    assert "—" in line
    assert " 0" not in line
    assert "VOID" in line


def test_a_change_just_past_the_bar_is_not_printed_as_the_bar():
    edge = throughput("c64", 7861.2 * 0.9496, effect=0.0504)
    assert "-5.040 %" in text_of(judgement(edge))


def test_the_heading_says_verdict_exit_code_and_what_was_compared():
    text = text_of(regressed(provisional=True))
    assert "llama-8b-tp1  REGRESSED  (exit code 1)" in text
    assert "6 REGRESSED of 6 checks" in text
    assert "3 launches now against a provisional baseline of 10 launches over 4 days" in text


def test_reproduce_is_shown_for_a_red_judgement_only():
    assert COMMAND in text_of(regressed(), reproduce=COMMAND)
    assert COMMAND not in text_of(fine(), reproduce=COMMAND)


def test_attribution_validity_differences_and_warnings_follow_the_table():
    text = text_of(regressed(doubts=(("c64", "foreign_process", "pid 4242 holds 3 GiB on GPU 0", ADVICE),)))
    order = [text.index(word) for word in ("change", "idle between", "580.105.08", "foreign_process", "fewer than 14")]
    assert order == sorted(order)
    assert ADVICE in " ".join(text.split())


def test_keys_that_kept_the_two_apart_are_called_so():
    apart = judgement(
        throughput("c1", 205.0, verdict=Verdict.NO_BASELINE, baseline=None, reason="no baseline of this key"),
        differences=(("keys.gpu", "NVIDIA H100", "NVIDIA H200"),),
    )
    text = text_of(apart)
    assert "kept apart from the baseline by" in text
    assert "keys.gpu: NVIDIA H100 -> NVIDIA H200" in text


def test_quiet_shows_nothing_that_passes():
    mixed = judgement(throughput("c1", GRAPHS["c1"]), throughput("c64", 2794.7))
    quiet = [line for line in render(mixed, verbosity=-1) if "tok/s" in line]
    assert len(quiet) == 1
    assert "c64" in quiet[0]
    assert not any("tok/s" in line for line in render(fine(), verbosity=-1))


def test_verbose_adds_watched_metrics_and_the_reason_of_what_passes():
    assert "watched, not gated" not in text_of(regressed())
    assert "output_tokens_per_second_early" in text_of(regressed(), verbosity=1)
    assert "fewer tokens a second" not in text_of(fine())
    assert "fewer tokens a second" in text_of(fine(), verbosity=1)


def test_colour_only_where_asked_and_columns_stay_aligned():
    plain = render(regressed())
    painted = render(regressed(), color=True)
    assert not any("\x1b" in line for line in plain)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted] == plain
    assert any("\x1b[1;31mREGRESSED" in line for line in painted)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_every_line_keeps_to_the_width(width):
    lines = render(regressed(), width=width)
    limit = max(width, 32)
    too_long = [line for line in lines[1:] if len(line) > limit and len(line.split()) > 1]
    assert too_long == []
    assert any("REGRESSED" in line for line in lines[2:])


def test_escape_sequences_in_names_never_reach_the_terminal():
    hostile = throughput("c64", 2794.7, reason="kernel \x1b]0;owned\x07 \x1b[2J\u202e took it")
    text = text_of(judgement(hostile, scenario="a\x1b[31mb"))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_picture_in_the_readme_shows_what_the_code_prints():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "python tests/report/table_picture.py"
