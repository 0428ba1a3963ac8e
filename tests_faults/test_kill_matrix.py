"""SIGINT, SIGTERM and SIGKILL of the run, of the server and of its supervisor, at every stage of a run.

Afterwards no process, port or lease of the run is held, and what was measured so far can be read. A stage is known from
the lines that the run writes, and warm-up from the server's own count of steps.
"""

from __future__ import annotations

import os
import re
import signal

import pytest
from fault_run import until

from tpgate.stats.verdict import INFRASTRUCTURE_ERROR, Verdict

STAGES = {
    "start-up": r"starting the server",
    "ready": r"the server is ready",
    "warm-up": r"the server is ready",
    "cell": r"c2: started",
    "profile": r"c2: profiling",
    "teardown": r"stopping the server",
}
NAMES = {"supervisor": "tpgate.server.supervisor", "server": "tpgate.server.standin"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def reach(run, stage):
    run.until(STAGES[stage])
    if stage == "warm-up":
        run.wait_for_steps(3)


def check_what_was_kept(project, stage):
    """What had been measured by that stage is in the result, whole."""
    kept = project.check_results_are_readable() if list(project.results.glob("*/result.json")) else []
    runs = {cell for result in kept for launch in result.launches for cell in launch.runs}
    assert runs >= {"start-up": set(), "ready": set(), "warm-up": set(), "cell": {"c1"}}.get(stage, {"c1", "c2"})
    return kept


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("way", ["cli", "pytest"])
def test_the_run_is_killed(project, way, stage, number):
    run = getattr(project, way)()
    reach(run, stage)
    os.kill(run.process.pid, number)
    status, text = run.finish()
    project.check_nothing_is_held()
    check_what_was_kept(project, stage)
    assert not re.search(r"^Traceback", text, re.MULTILINE), text
    if number == signal.SIGINT:
        assert status == {"cli": 130, "pytest": 2}[way], text
        assert {"cli": "tpgate run: interrupted", "pytest": "KeyboardInterrupt"}[way] in text
    else:
        assert status == -number, text


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("whom", NAMES)
def test_the_server_is_killed(project, whom, stage, number):
    run = project.cli()
    reach(run, stage)
    os.kill(project.one(NAMES[whom]).pid, number)
    status, text = run.finish()
    project.check_nothing_is_held()
    check_what_was_kept(project, stage)
    assert not re.search(r"^Traceback", text, re.MULTILINE), text
    said = " ".join(text.split())
    if stage == "start-up":
        assert status == INFRASTRUCTURE_ERROR, text
        assert "the server did not start: the server ended with status" in said
    elif stage == "teardown":
        assert status == Verdict.NO_BASELINE.exit_code, text
    elif stage == "profile" and status == Verdict.NO_BASELINE.exit_code:
        assert number != signal.SIGKILL, "told to end, it may still write its traces: the measurement is whole then"
        assert "profile_killed_server: the server ended with status" in said
    else:
        assert status == Verdict.VOID.exit_code, text
        assert "the server ended with status" in said


@pytest.mark.parametrize("stage", ["warm-up", "cell", "teardown"])
def test_the_next_run_starts_clean_after_a_kill_and_the_earlier_results_stay(project, stage):
    first = project.cli()
    reach(first, stage)
    first.process.kill()
    first.finish()
    second = project.cli("--no-profile", "--cell", "c1")
    status, text = second.finish()
    assert status == Verdict.NO_BASELINE.exit_code, text
    project.check_nothing_is_held()
    results = project.check_results_are_readable()
    assert [result.complete for result in results][-1:] == [True]
    assert len(project.result_folders()) == 2


def test_a_second_run_while_the_first_one_lives_is_refused_and_names_it(project):
    first = project.cli()
    reach(first, "ready")
    status, text = project.cli().finish()
    assert status == INFRASTRUCTURE_ERROR, text
    assert f"process {first.process.pid}" in text
    assert first.finish()[0] == Verdict.NO_BASELINE.exit_code, "the first one is not disturbed"


@pytest.mark.parametrize("stage", ["warm-up", "cell", "profile"])
def test_ctrl_c_in_a_terminal_reaches_client_processes_too(project, stage):
    run = project.cli("--processes", "2")
    reach(run, stage)
    os.killpg(run.process.pid, signal.SIGINT)
    status, text = run.finish()
    project.check_nothing_is_held()
    check_what_was_kept(project, stage)
    assert status == 130, text
    assert not re.search(r"^Traceback", text, re.MULTILINE), text


@pytest.mark.parametrize("stage", ["start-up", "cell", "teardown"])
def test_an_impatient_second_ctrl_c_cuts_no_clean_up_short(project, stage):
    run = project.cli()
    reach(run, stage)
    for _ in range(3):
        os.kill(run.process.pid, signal.SIGINT)
    status, text = run.finish()
    project.check_nothing_is_held()
    check_what_was_kept(project, stage)
    assert status in (130, -signal.SIGINT), text


def test_a_client_process_that_is_killed_ends_the_run_with_its_reason(project):
    run = project.cli("--processes", "2")
    run.until(STAGES["cell"])

    def workers():
        return [pid for pid, one in project.processes().items() if "tpgate.load.worker" in one.title]

    assert until(workers)
    os.kill(workers()[0], signal.SIGKILL)
    status, text = run.finish()
    project.check_nothing_is_held()
    check_what_was_kept(project, "cell")
    assert "client process" in text
    assert status in (INFRASTRUCTURE_ERROR, Verdict.VOID.exit_code), text
