import pytest


def test_a_missing_gpu_is_an_error_that_says_what_is_missing_and_never_a_skip(project, calls):
    one = project(scenarios='scenario("big", "cuda", 4096),')
    result = one.runpytest_subprocess("perf_tests", "-m", "gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*need up to 4096 GPU(s), this machine shows *Nothing was run*"])
    assert calls() == []


def test_a_missing_gpu_is_an_error_for_any_test_that_is_marked_so(pytester):
    pytester.makepyfile("import pytest\n\n@pytest.mark.gpu(count=4096)\ndef test_kernel():\n    pass\n")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_scenarios_without_gpus_stay_out_of_the_gpu_selection(project):
    result = project().runpytest_subprocess("perf_tests", "-m", "gpu")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_workers_are_refused_before_anything_is_started(project, calls):
    pytest.importorskip("xdist")
    result = project().runpytest_subprocess("perf_tests", "-n", "2")
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*cannot be spread over workers*", "*expected: pytest without -n*"])
    assert calls() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tpgate-baselines", "baselnies"], "--tpgate-baselines baselnies: no such folder"),
        (["--tpgate-scenario", "tinny"], "no scenario 'tinny'"),
        (["--tpgate-scenarios", "scenarois.py"], "scenarois.py does not exist"),
        (["--tpgate-max-launches", "0"], "not a whole number from 1 to 20"),
    ],
)
def test_a_mistyped_option_ends_the_run_before_anything_is_started(project, calls, arguments, words):
    result = project().runpytest_subprocess("perf_tests", *arguments)
    assert result.ret not in (0, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert words in result.stdout.str() + result.stderr.str()
    assert calls() == []


def test_a_test_without_a_promise_is_an_error(project):
    result = project(tests="def test_nothing(serving):\n    pass\n").runpytest_subprocess("perf_tests")
    assert result.ret not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "without a 'gates' marker" in result.stdout.str()


def test_an_unknown_metric_in_a_marker_is_an_error(project):
    tests = 'import pytest\n\n@pytest.mark.gates("tokens")\ndef test_nothing(serving, cell):\n    pass\n'
    result = project(tests=tests).runpytest_subprocess("perf_tests")
    assert result.ret not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "unknown metric 'tokens'" in result.stdout.str()


def test_collecting_only_starts_and_checks_nothing(project, calls):
    one = project(scenarios='scenario("big", "cuda", 4096),')
    result = one.runpytest_subprocess("perf_tests", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_throughput*big-c1*"])
    assert calls() == []


def test_another_project_sees_nothing_of_the_plugin(pytester):
    pytester.makepyfile("def test_own():\n    pass\n")
    result = pytester.runpytest_subprocess()
    assert result.ret == 0
    assert "tpgate:" not in result.stdout.str()


def test_a_named_scenario_deselects_tests_of_anything_else(project, calls):
    one = project(scenarios='scenario("a"), scenario("b"),')
    one.makepyfile(
        **{"perf_tests/test_kernels": "import pytest\n\n@pytest.mark.gpu(count=4096)\ndef test_kernel():\n    pass\n"}
    )
    result = one.runpytest_subprocess("perf_tests", "--tpgate-scenario", "b")
    result.assert_outcomes(passed=3, deselected=1)
    assert calls() == [("b", [])]
