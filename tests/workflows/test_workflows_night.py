from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / ".github" / "scripts"
STANDIN = Path(__file__).parent / "night_results.py"


def command(state: Path, kind: str, *options: str, night: str = "1-1", minutes: str = "1") -> list[str]:
    results = state / "nights" / night / "results"
    words = ["--state", str(state), "--night", night, "--minutes", minutes, "--free-gib", "0.001", *options]
    return [sys.executable, str(SCRIPTS / "night.py"), *words, "--", sys.executable, str(STANDIN), kind, str(results)]


def run(words: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **more)


def record(state: Path, night: str = "1-1") -> dict[str, object]:
    return json.loads((state / "nights" / night / "night.json").read_text())


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def until(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize(("kind", "code"), [("ok", 0), ("regressed", 1), ("crash", 6)])
def test_the_exit_code_of_the_measurement_is_kept(tmp_path, kind, code):
    assert run(command(tmp_path, kind)).returncode == code
    assert record(tmp_path)["status"] == "finished"
    assert record(tmp_path)["exit_code"] == code


@pytest.mark.parametrize("kind", ["hang", "stubborn"])
def test_a_cancelled_night_is_6_and_leaves_no_process(tmp_path, kind):
    night = subprocess.Popen(command(tmp_path, kind), stdout=subprocess.PIPE, text=True)
    pids = tmp_path / "nights" / "1-1" / "results" / "pids"
    until(pids.exists)
    begin = time.monotonic()
    night.send_signal(signal.SIGINT)
    out, _ = night.communicate(timeout=30)
    assert night.returncode == 6
    assert time.monotonic() - begin < 9.5, "the runner kills ten seconds after it cancels"
    assert record(tmp_path)["status"] == "cancelled"
    assert "::error" in out
    until(lambda: all(gone(int(pid)) for pid in pids.read_text().split()))


def test_the_deadline_comes_before_the_jobs_own(tmp_path):
    found = run(command(tmp_path, "hang", minutes="0.02"))
    assert found.returncode == 6
    assert record(tmp_path)["status"] == "deadline"
    assert "deadline" in found.stdout


def test_a_night_never_writes_into_another_ones_folder(tmp_path):
    assert run(command(tmp_path, "ok")).returncode == 0
    again = run(command(tmp_path, "ok"))
    assert again.returncode == 6
    assert "exists already" in again.stdout


def test_no_room_on_the_disk_stops_the_night_before_it_starts(tmp_path):
    found = run(command(tmp_path, "ok", "--free-gib", "1e9"))
    assert found.returncode == 6
    assert "GiB are free" in found.stdout
    assert not (tmp_path / "nights" / "1-1").exists()


def test_a_disk_that_takes_nothing_is_6_and_no_traceback(tmp_path):
    def no_writes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    found = run(command(tmp_path, "ok"), preexec_fn=no_writes)
    assert found.returncode == 6
    assert "::error title=night not started::" in found.stdout
    assert "Traceback" not in found.stderr


def test_two_nights_do_not_share_the_host(tmp_path):
    first = subprocess.Popen(command(tmp_path, "hang"), stdout=subprocess.DEVNULL)
    try:
        until((tmp_path / "nights" / "1-1" / "results" / "pids").exists)
        second = run(command(tmp_path, "ok", night="2-1"))
        assert second.returncode == 6
        assert "taken by night 1-1" in second.stdout
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=30)
    assert run(command(tmp_path, "ok", night="3-1")).returncode == 0


@pytest.mark.parametrize("scenario", ["", "$(touch x)", "a;b", "A"])
def test_scenario_names_are_names(tmp_path, scenario):
    words = command(tmp_path, "ok")
    words = words[: words.index("--")]
    found = run([*words, "--scenario", scenario] if scenario else words)
    assert found.returncode == 6
    assert "::error" in found.stdout


def test_a_night_that_was_killed_is_seen_as_one_that_never_ended(tmp_path):
    night = subprocess.Popen(command(tmp_path, "hang"))
    pids = tmp_path / "nights" / "1-1" / "results" / "pids"
    until(pids.exists)
    night.kill()
    night.wait(timeout=10)
    assert record(tmp_path)["status"] == "running"
    for pid in pids.read_text().split():
        subprocess.run(["kill", "-9", pid], check=True)
