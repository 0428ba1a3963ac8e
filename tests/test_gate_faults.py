"""The kinds of faults that performance gates have shipped, and the tests that keep each out of this one.

A kind without a test, or a test that is gone, fails here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ASSERTING = frozenset({"raises", "assert_outcomes", "fnmatch_lines"})
KINDS: dict[str, tuple[str, ...]] = {
    "a metric is judged in the wrong direction, so that it can never fail": (
        "tests/baseline/test_judge_directions.py::test_every_metric_is_red_on_a_run_made_two_and_a_half_times_worse",
        "tests/selftest/test_selftest_sweep.py::test_a_gate_in_the_wrong_direction_is_found",
    ),
    "a baseline that cannot be read counts as no regression": (
        "tests/baseline/test_baseline_store.py::test_a_broken_file_raises_and_is_never_taken_for_no_regression",
        "tests/campaign/test_campaign_run.py::test_a_broken_baseline_file_costs_no_launch",
    ),
    "a metric that is no longer measured passes, and so does a renamed scenario": (
        "tests/baseline/test_judge_contract.py::test_a_metric_that_the_harness_stopped_emitting_is_void",
        "tests/baseline/test_judge_contract.py::test_a_metric_that_is_missing_with_a_reason_is_void_and_says_it",
        "tests/baseline/test_judge_contract.py::test_a_renamed_scenario_has_no_baseline",
    ),
    "a cell that never ran left no file and counts as nothing": (
        "tests/baseline/test_judge_contract.py::test_a_cell_that_never_ran_is_void_though_it_left_no_file",
    ),
    "a new cell without a baseline passes": (
        "tests/baseline/test_judge_contract.py::test_a_new_cell_has_no_baseline_and_the_others_keep_theirs",
    ),
    "what a baseline lacks, and its age, are not looked at before GPU time is spent": (
        "tests/campaign/test_campaign_run.py::test_what_a_baseline_cannot_judge_is_said_before_the_first_launch",
        "tests/baseline/test_judge_contract.py::test_an_old_baseline_and_one_that_holds_more_are_said",
    ),
    "the step of the workflow reads text and never goes red": (
        "tests/workflows/test_workflows_verdict.py::test_a_stored_regression_turns_the_step_red_though_the_command_said_0",
        "tests/cli/test_cli_compare.py::test_a_stored_report_that_regressed_must_fail_and_its_json_says_so",
    ),
    "an advisory result is printed as passed": (
        "tests/baseline/test_judge_contract.py::test_a_metric_that_nobody_gates_is_shown_and_does_not_pass_for_a_gate",
        "tests/plugin/test_plugin_verdicts.py::test_a_metric_that_the_scenario_does_not_gate_is_an_error_and_never_passes",
        "tests/campaign/test_campaign_run.py::test_an_experiment_is_judged_against_the_plain_baseline_and_labelled",
    ),
    "the direction is fixed inside a test helper, so that no test sees the other one": (
        "tests/selftest/test_selftest_sweep.py::test_every_metric_turns_red_when_worse_and_says_so_when_better",
        "tests/baseline/test_judge_directions.py::test_every_metric_is_a_gain_on_a_run_made_better_and_asks_for_a_refresh",
    ),
    "one direction for a whole file": ("tests/baseline/test_judge_directions.py::test_one_file_may_mix_directions",),
    "a baseline of zero, NaN or infinity is divided by": (
        "tests/baseline/test_baseline_reading.py::test_zero_or_negative_throughput_is_refused_at_load",
        "tests/baseline/test_baseline_reading.py::test_a_number_that_is_none_is_refused",
        "tests/baseline/test_judge_contract.py::test_a_value_that_no_comparison_can_rest_on_is_void",
        "tests/stats/test_stats_compare.py::test_nothing_is_judged_on_nan_or_on_nothing",
    ),
    "values of different units are divided": (
        "tests/baseline/test_judge_contract.py::test_a_value_in_another_unit_is_void_and_never_divided",
        "tests/baseline/test_baseline_reading.py::test_a_wrong_unit_or_direction_is_refused",
    ),
    "a tolerance in percent holds a fraction, or the other way round": (
        "tests/baseline/test_judge_contract.py::test_a_tolerance_in_percent_is_out_of_range",
        "tests/baseline/test_baseline_reading.py::test_a_tolerance_is_a_fraction_and_its_range_is_checked",
    ),
    "values are rounded before they are compared": (
        "tests/stats/test_stats_compare.py::test_the_change_is_compared_unrounded",
        "tests/stats/test_stats_compare.py::test_a_change_of_exactly_the_tolerance_is_accepted",
    ),
    "a severe tier cannot be reached": (
        "tests/stats/test_stats_compare.py::test_every_tier_is_reached_at_its_own_edge",
    ),
    "a mistyped path to a baseline is passed over": (
        "tests/baseline/test_baseline_reading.py::test_a_mistyped_path_is_an_error_and_not_an_empty_baseline",
        "tests/baseline/test_baseline_store.py::test_a_mistyped_folder_of_baselines_is_an_error",
        "tests/plugin/test_plugin_preflight.py::test_a_mistyped_option_ends_the_run_before_anything_is_started",
    ),
    "an empty baseline passes": ("tests/baseline/test_baseline_reading.py::test_an_empty_object_is_no_baseline",),
    "a breach is softened because another statistic is missing": (
        "tests/baseline/test_judge_contract.py::test_a_gated_p99_that_broke_is_red_though_another_metric_is_missing",
        "tests/baseline/test_judge_panel.py::test_a_share_without_its_time_per_token_stays_red",
    ),
    "cells are looked up by position": (
        "tests/baseline/test_judge_contract.py::test_cells_are_found_by_name_and_not_by_position",
    ),
    "baseline and run are computed in different ways": (
        "tests/baseline/test_judge_contract.py::test_a_metric_computed_in_another_way_has_no_baseline",
        "tests/baseline/test_baseline_refresh.py::test_a_baseline_that_its_own_source_does_not_pass_is_refused",
    ),
    "broken nights are averaged into a baseline": (
        "tests/baseline/test_baseline_refresh.py::test_a_result_that_is_not_whole_and_sound_never_becomes_a_baseline",
        "tests/baseline/test_baseline_refresh.py::test_outlier_launches_are_listed_for_the_reviewer",
        "tests/stats/test_stats_compare.py::test_broken_nights_in_a_baseline_do_not_move_its_median",
    ),
    "a refresh takes in worse values beside better ones": (
        "tests/baseline/test_baseline_refresh.py::test_a_worse_value_is_named_and_refused_even_where_others_became_better",
        "tests/cli/test_cli_refresh.py::test_a_worse_value_is_refused_with_the_command_that_would_take_it",
    ),
    "a worse baseline can never be corrected": (
        "tests/cli/test_cli_refresh.py::test_a_worse_value_is_taken_in_with_reasons_and_who",
        "tests/baseline/test_baseline_refresh.py::test_a_worse_value_with_a_reason_is_taken_in_and_stored_with_who_and_when",
    ),
    "a baseline that is too slow hides a loss": (
        "tests/baseline/test_judge_directions.py::test_every_metric_is_a_gain_on_a_run_made_better_and_asks_for_a_refresh",
    ),
    "a failed measurement writes a baseline": (
        "tests/baseline/test_baseline_refresh.py::test_a_result_that_is_not_whole_and_sound_never_becomes_a_baseline",
        "tests/campaign/test_campaign_run.py::test_launches_that_cannot_become_a_baseline_are_judged_and_never_recorded",
        "tests/workflows/test_workflows_refresh.py::test_a_launch_that_measured_nothing_takes_nothing_in",
    ),
    "a filtered run shrinks what is promised": (
        "tests/baseline/test_baseline_refresh.py::test_a_filtered_run_never_shrinks_what_is_promised",
        "tests/campaign/test_campaign_run.py::test_one_cell_alone_is_judged_alone",
    ),
    "a server that crashed in its last cell still writes a baseline": (
        "tests/baseline/test_baseline_refresh.py::test_a_result_that_is_not_whole_and_sound_never_becomes_a_baseline",
        "tests/baseline/test_judge_contract.py::test_an_unfinished_or_mixed_result_is_void",
    ),
    "files of different schemas are read alike": (
        "tests/baseline/test_baseline_reading.py::test_another_schema_version_is_refused_before_anything_else",
        "tests/baseline/test_baseline_reading.py::test_an_unknown_key_is_refused_anywhere",
    ),
    "a second loss stacks on a known one": (
        "tests/baseline/test_judge_panel.py::test_a_second_loss_on_top_of_a_waived_one_is_red",
        "tests/baseline/test_judge_panel.py::test_a_waived_check_passes_and_is_shown_as_waived",
        "tests/campaign/test_campaign_paired.py::test_pairs_are_judged_by_size_and_separation",
    ),
    "one median over the limit is an alarm, though the samples overlap": (
        "tests/stats/test_stats_compare.py::test_one_launch_in_a_wide_overlap_is_not_red",
        "tests/campaign/test_campaign_run.py::test_a_suspicion_that_does_not_hold_passes_and_is_labelled",
    ),
    "a lucky run makes the next one look slow": (
        "tests/stats/test_stats_compare.py::test_a_lucky_run_in_the_history_does_not_make_the_next_one_slow",
    ),
    "a report shows an earlier run's numbers": (
        "tests/report/test_report_folder.py::test_a_judgement_of_another_result_is_refused",
        "tests/workflows/test_workflows_night.py::test_a_night_never_writes_into_another_ones_folder",
        "tests/campaign/test_campaign_run.py::test_the_judgement_is_stored_beside_the_result",
    ),
    "a regression was found and the exit code is 0": (
        "tests/baseline/test_judge_panel.py::test_latency_is_judged_cell_by_cell_and_one_red_cell_of_twenty_ends_with_one",
        "tests/plugin/test_plugin_verdicts.py::test_every_verdict_but_ok_and_improved_fails_the_build",
        "tests/stats/test_stats_compare.py::test_the_worst_verdict_wins_whatever_the_order",
    ),
    "no fault turns a gate red, and nobody notices": (
        "tests/selftest/test_selftest_run.py::test_a_fault_that_is_not_caught_and_a_gate_that_nothing_turns_red_fail_it",
        "tests/cli/test_cli_selftest.py::test_anything_else_fails_it_and_says_what",
    ),
}
"""Kind of fault to the tests that would go red."""


@cache
def _tests_of(path: str) -> frozenset[str]:
    """Return the names of the tests at the top of a file that assert something."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and any(
            isinstance(part, ast.Assert) or (isinstance(part, ast.Attribute) and part.attr in ASSERTING)
            for part in ast.walk(node)
        )
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_has_tests_that_exist(kind):
    assert KINDS[kind]
    for name in KINDS[kind]:
        path, _, function = name.partition("::")
        assert function in _tests_of(path), name
