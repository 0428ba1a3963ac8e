"""Servers that misbehave in the middle of a run: found within a deadline, named, and never taken for a measurement."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from fault_run import MARK, Project

from tpgate import catalog
from tpgate.campaign import Campaign, measure
from tpgate.errors import ServerError
from tpgate.host import lease
from tpgate.server import ports
from tpgate.server.faults.table import CASES, choose
from tpgate.specs import pairs

SECONDS = 30.0
"""In which every fault is found: the whole run, from start to release, with deadlines of 2 s for a stall."""
IN_A_CELL = [case for case in CASES if case.expected == "VOID" and case.caught_by and not case.traced]
IN_A_TRACE = [case for case in CASES if case.expected == "VOID" and case.traced]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Measure the quick scenario with server options; afterwards nothing of the servers may be held."""
    project = Project(tmp_path / "project")
    monkeypatch.setenv(lease.FOLDER_VARIABLE, str(project.leases))
    monkeypatch.setenv(MARK, project.mark)
    project.scenarios('scenario("quick")')
    said = []

    def go(options, *, startup_timeout_s=20.0, cells=(), foreign=None):
        scenario = catalog.load(project.folder / "perf_tests" / "scenarios.py")["quick"]
        scenario = replace(
            scenario,
            server=replace(scenario.server, startup_timeout_s=startup_timeout_s),
            settings=pairs(client_lag_limit=50.0, stall_timeout_s=2.0, profile_deadline_s=4.0),
        )
        campaign = Campaign(
            scenario=scenario,
            results=project.results,
            baselines=project.folder / "baselines",
            python=sys.executable,
            progress=said.append,
            cells=cells,
            max_launches=1,
            extra=options,
        )
        began = time.monotonic()
        said.clear()
        try:
            return measure(campaign)
        finally:
            assert time.monotonic() - began < SECONDS, said
            mine = {pid: one for pid, one in project.processes().items() if pid != os.getpid()}
            assert not [one.describe() for one in mine.values() if "tpgate.server" in one.title]
            assert lease.holders(project.leases) == []
            assert all(ports.is_free(port) for port in project.ports() if port != foreign)

    return go


def doubts_of(outcome):
    (launch,) = outcome.result.launches
    return {cell: {doubt.check for doubt in run.doubts if doubt.fatal} for cell, run in launch.runs.items()}


@pytest.mark.parametrize("case", IN_A_CELL, ids=lambda case: case.name)
def test_a_fault_in_a_cell_makes_it_void_and_is_named(run, case):
    outcome = run(case.standin)
    found = doubts_of(outcome)
    assert outcome.judgement.verdict == "VOID"
    assert set(case.caught_by) & set().union(*found.values()), found
    text = " ".join(comparison.reason for comparison in outcome.judgement.comparisons)
    assert "void" in text or "was not measured" in text


def test_what_was_measured_before_a_death_stands_and_the_rest_is_not_driven(run):
    outcome = run(pairs(fault_die_after_requests=36))
    found = doubts_of(outcome)
    assert found["c1"] == set()
    assert "c2" not in found or found["c2"]
    assert "status 17" in outcome.result.launches[0].failure


def test_cells_after_a_bad_one_are_still_driven(run):
    outcome = run(pairs(fault_drop_every=5))
    assert set(doubts_of(outcome)) >= {"c1", "c2"}
    assert outcome.result.launches[0].failure is None


@pytest.mark.parametrize("case", IN_A_TRACE, ids=lambda case: case.name)
def test_a_fault_in_a_trace_voids_what_comes_from_traces_alone(run, case):
    outcome = run(case.standin)
    verdicts = {comparison.metric: str(comparison.verdict) for comparison in outcome.judgement.comparisons}
    assert verdicts == {"output_tokens_per_second": "NO BASELINE", "attention_share": "VOID"}


@pytest.mark.parametrize("fault", ["trickle", "full-log"])
def test_what_moves_no_number_is_borne(run, fault):
    (case,) = choose((fault,))
    found = doubts_of(run(case.standin))
    assert set().union(*found.values()) == set(), found


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("never-ready", "no token within the time allowed"),
        ("exits-at-start", "the server ended with status 3"),
        ("fewer-ranks", "tp_size is 1, asked for 2"),
    ],
)
def test_a_server_that_cannot_be_measured_is_refused_at_its_start(run, fault, reason):
    (case,) = choose((fault,))
    with pytest.raises(ServerError, match=rf"(?s)the server did not start: .*{reason}"):
        run(case.standin, startup_timeout_s=3.0)


@pytest.fixture
def rival():
    """Another server that answers /health with 200, and its port."""
    argv = [sys.executable, "-m", "tpgate.server.standin", "--port", "0", "--tp", "2", "--version", "0.1.0"]
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
    port = int(process.stdout.readline().rsplit(":", 1)[1])
    yield process, port
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_port_that_another_server_took_is_left_to_it(run, rival, monkeypatch):
    process, taken = rival
    real, given = ports.free, []

    def free(count=1):
        given.append(taken)
        return [taken, *real(count - 1)] if len(given) == 1 else real(count)

    monkeypatch.setattr(ports, "free", free)
    outcome = run((), cells=("c1",), foreign=taken)
    assert doubts_of(outcome)["c1"] == set()
    assert process.poll() is None


def test_a_port_that_is_always_taken_is_named_and_its_server_is_never_measured(run, rival, monkeypatch):
    process, taken = rival
    real = ports.free
    monkeypatch.setattr(ports, "free", lambda count=1: [taken, *real(count - 1)])
    monkeypatch.setattr(ports, "is_free", lambda port, real=ports.is_free: port == taken or real(port))
    with pytest.raises(ServerError, match=rf"(?s)(address already in use|port {taken} is answered by)"):
        run((), cells=("c1",), startup_timeout_s=5.0, foreign=taken)
    assert process.poll() is None
