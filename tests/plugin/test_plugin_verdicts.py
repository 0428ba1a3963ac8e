import xml.etree.ElementTree as ElementTree

import pytest


def test_green_when_every_promise_is_kept_and_the_server_was_launched_once(project, calls):
    result = project().runpytest_subprocess("perf_tests", "-v")
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    names = ["*test_ttft*tiny-c4* PASSED*", "*test_throughput*tiny-c1* PASSED*", "*test_throughput*tiny-c4* PASSED*"]
    for name in names:
        result.stdout.fnmatch_lines([name])
    result.stdout.fnmatch_lines(["*= tpgate =*", "*results: results/r*"])
    assert calls() == [("tiny", [])]


@pytest.mark.parametrize("verdict", ["REGRESSED", "INCONCLUSIVE", "NO_BASELINE", "VOID"])
def test_every_verdict_but_ok_and_improved_fails_the_build(project, verdict):
    one = project(conftest=f'VERDICTS[("c4", "output_tokens_per_second")] = Verdict.{verdict}\n')
    result = one.runpytest_subprocess("perf_tests")
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*{verdict.replace('_', ' ')}: output_tokens_per_second in c4: as scripted*"])


def test_a_gain_passes(project):
    one = project(conftest='VERDICTS[("c4", "output_tokens_per_second")] = Verdict.IMPROVED\n')
    assert one.runpytest_subprocess("perf_tests").ret == 0


def test_a_server_that_does_not_start_is_an_error_told_once_and_tried_once(project, calls):
    one = project(conftest='BROKEN.add("tiny")\n')
    result = one.runpytest_subprocess("perf_tests")
    result.assert_outcomes(errors=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the server did not start*", "*next: read the log*", "*tiny: not measured*"])
    assert len(calls()) == 1


def test_interleaved_scenarios_are_launched_once_each(project, calls):
    one = project(scenarios='scenario("a"), scenario("b"),')
    one.runpytest_subprocess("perf_tests", "-p", "no:randomly").assert_outcomes(passed=6)
    assert sorted(name for name, _ in calls()) == ["a", "b"]


def test_one_selected_cell_is_measured_alone_and_all_of_them_as_a_whole(project, calls):
    one = project()
    one.runpytest_subprocess("perf_tests", "-k", "throughput and c1").assert_outcomes(passed=1, deselected=2)
    one.runpytest_subprocess("perf_tests", "-k", "throughput").assert_outcomes(passed=2, deselected=1)
    assert calls() == [("tiny", ["c1"]), ("tiny", [])]


def test_verdicts_are_properties_in_junit(project):
    one = project(conftest='VERDICTS[("c4", "ttft_p50")] = Verdict.REGRESSED\n')
    one.runpytest_subprocess("perf_tests", "--junit-xml=junit.xml")
    cases = ElementTree.parse(one.path / "junit.xml").iter("testcase")
    properties = {case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases}
    found = properties["test_ttft[tiny-c4]"]
    assert (found["verdict"], found["metric"], found["cell"]) == ("REGRESSED", "ttft_p50", "c4")
    assert float(found["now"]) == 90.0


def test_a_metric_that_the_scenario_does_not_gate_is_an_error_and_never_passes(project):
    tests = """
import pytest

@pytest.mark.gates("ttft_p50")
def test_wrong(serving, cell, perf):
    perf.check(serving.run(cell), "e2e_p50")
"""
    result = project(tests=tests).runpytest_subprocess("perf_tests")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*scenario tiny does not gate e2e_p50 in c4*"])


def test_quiet_output_has_no_progress(project):
    result = project().runpytest_subprocess("perf_tests", "-q")
    assert "tpgate: tiny" not in result.stdout.str()
