"""Every way out of the run that started a server ends the server, its workers and its port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server_launch import gone, until

from tpgate.server import ports

PARENT = Path(__file__).with_name("server_parent.py")


def run_parent(tmp_path, how, mode="orphan"):
    argv = [sys.executable, str(PARENT), mode, str(tmp_path), how]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("how", "number", "status"),
    [
        ("waits", signal.SIGKILL, -signal.SIGKILL),
        ("waits", signal.SIGTERM, -signal.SIGTERM),
        ("waits", signal.SIGINT, -signal.SIGINT),
        ("with", signal.SIGINT, -signal.SIGINT),
        ("crashes", None, -signal.SIGABRT),
        ("leaves", None, 0),
    ],
)
def test_nothing_outlives_the_run(tmp_path, how, number, status):
    parent = run_parent(tmp_path, how)
    line = parent.stdout.readline()
    assert line, parent.stderr.read()
    session, supervisor, port = map(int, line.split())
    orphan = int((tmp_path / "orphan").read_text())
    if number is not None:
        os.kill(parent.pid, number)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode == status, errors
    assert until(lambda: all(map(gone, (session, supervisor, orphan))), 25)
    assert ports.is_free(port)


def test_a_second_ctrl_c_does_not_cut_the_end_short(tmp_path):
    parent = run_parent(tmp_path, "with", mode="stubborn")
    session, supervisor, _ = map(int, parent.stdout.readline().split())
    os.kill(parent.pid, signal.SIGINT)
    assert not until(lambda: gone(session), 0.3), "it ignores SIGTERM, so its end takes a while"
    os.kill(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode == -signal.SIGINT, errors
    assert gone(session)
    assert gone(supervisor)
