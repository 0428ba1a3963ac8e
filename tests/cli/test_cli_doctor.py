from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from tpgate.cli import doctor as command
from tpgate.cli import main
from tpgate.host.doctor import Finding
from tpgate.server import leftovers
from tpgate.server.census import MARKER, OWNER

GOOD = [Finding("machine", "CPU", "x"), Finding("GPUs", "NVML", "not measured, because none", "unknown")]
BAD = [*GOOD, Finding("fitness", "mig", "MIG is on", "unfit", "turn it off")]


@pytest.fixture
def found(monkeypatch):
    def place(findings):
        monkeypatch.setattr(command.doctor, "examine", lambda **_: list(findings))
        monkeypatch.setattr(command.leftovers, "find", list)

    return place


def test_a_fit_machine_ends_with_0_and_counts_what_was_not_measured(found, capsys):
    found(GOOD)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "This machine is fit to measure on (1 not measured)." in text
    assert "  ?      NVML: not measured, because none" in text


def test_an_unfit_machine_ends_with_6_and_says_what_to_do(found, capsys):
    found(BAD)
    assert main(["doctor"]) == 6
    text = capsys.readouterr().out
    assert "  UNFIT  mig: MIG is on\n         -> turn it off" in text
    assert "UNFIT to measure on, for 1 reason (1 not measured)." in text


def test_json_holds_the_same(found, capsys):
    found(BAD)
    assert main(["doctor", "--json"]) == 6
    document = json.loads(capsys.readouterr().out)
    assert document["fit"] is False
    assert document["findings"][2] == {
        "section": "fitness", "name": "mig", "value": "MIG is on", "state": "unfit", "advice": "turn it off",
    }  # fmt: skip


def test_too_few_gpus_are_unfit(found, monkeypatch, capsys):
    found(GOOD)
    monkeypatch.setattr(command.topology, "count_gpus", lambda: (1, "CUDA_VISIBLE_DEVICES shows 1 of 2"))
    assert main(["doctor", "--gpus", "2"]) == 6
    assert "1 usable, 2 wanted (CUDA_VISIBLE_DEVICES shows 1 of 2)" in capsys.readouterr().out
    assert main(["doctor", "--gpus", "1"]) == 0


def test_one_section_stands_together(found, capsys):
    found([Finding("a", "1", "x"), Finding("b", "2", "x"), Finding("a", "3", "x")])
    main(["doctor"])
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")][:3] == ["a", "", "b"]


@pytest.fixture
def leftover():
    """A process that bears the mark of a launch whose owner is gone."""
    marks = {MARKER: "20260101T000000Z-test", OWNER: "999999999:1"}
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, **marks})
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def test_leftovers_are_listed_and_ended_only_on_request(monkeypatch, capsys, leftover):
    monkeypatch.setattr(command.doctor, "examine", lambda **_: [])
    mine = leftovers.find
    monkeypatch.setattr(command.leftovers, "find", lambda: [r for r in mine() if r.process.pid == leftover.pid])
    assert main(["doctor"]) == 6
    assert f"pid {leftover.pid} (" in capsys.readouterr().out
    assert psutil.pid_exists(leftover.pid)
    assert main(["doctor", "--end-leftovers"]) == 0
    assert ": ended" in capsys.readouterr().out
    assert leftover.poll() is not None or psutil.Process(leftover.pid).status() == psutil.STATUS_ZOMBIE


def test_a_leftover_that_cannot_be_ended_is_unfit(monkeypatch, capsys):
    row = SimpleNamespace(describe=lambda: "pid 7 (x)")
    monkeypatch.setattr(command.doctor, "examine", lambda **_: [])
    monkeypatch.setattr(command.leftovers, "find", lambda: [row])
    monkeypatch.setattr(command.leftovers, "end", lambda rows: rows)
    assert main(["doctor", "--end-leftovers"]) == 6
    assert "still there after SIGKILL" in capsys.readouterr().out


def test_this_machine_is_looked_at_for_real(capsys):
    assert main(["doctor", "--json", "--no-load"]) in (0, 6)
    document = json.loads(capsys.readouterr().out)
    assert {"machine", "disk", "software", "leases", "GPUs"} <= {row["section"] for row in document["findings"]}
