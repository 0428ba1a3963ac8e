"""Leftovers are servers of dead owners; a server of a living run is never one."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys

import pytest
from server_launch import gone

from tpgate.server import census, leftovers


@pytest.fixture
def marked():
    """Start sleeping processes with the marks of a launch; end them afterwards."""
    started = []

    def start(launch_id, owner):
        environment = os.environ | {census.MARKER: launch_id, census.OWNER: owner}
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()


def owner_of(pid):
    return f"{pid}:{census.read(pid).started_ticks}"


def test_a_server_of_a_dead_owner_is_found_named_and_ended(marked):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    owner = owner_of(dead.pid)
    dead.wait()
    child = marked("cafe-1", owner)
    found = [leftover for leftover in leftovers.find() if leftover.launch_id == "cafe-1"]
    assert [leftover.process.pid for leftover in found] == [child.pid]
    text = found[0].describe()
    assert f"pid {child.pid} (" in text
    assert f"of user {pwd.getpwuid(os.getuid()).pw_name}, 0 min old, launch cafe-1" in text
    assert leftovers.end(found, grace_s=5) == []
    assert gone(child.pid)


def test_a_server_of_a_living_run_is_left_alone(marked):
    child = marked("cafe-2", owner_of(os.getpid()))
    assert child.pid not in {leftover.process.pid for leftover in leftovers.find()}


def test_a_pid_that_was_taken_over_is_not_the_owner(marked):
    child = marked("cafe-3", f"{os.getpid()}:1")
    assert child.pid in {leftover.process.pid for leftover in leftovers.find()}


def test_a_sweep_never_touches_the_caller_or_its_ancestors(monkeypatch):
    mine = census.lineage()
    assert {os.getpid(), os.getppid()} <= mine
    everything = census.table()
    monkeypatch.setattr(census, "environment_of", lambda _pid: {census.MARKER: "all"})
    found = set(census.members("all"))
    assert found
    assert not found & mine
    assert found <= set(everything) | set(census.table())
