from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

SWEEP = Path(__file__).parents[2] / ".github" / "scripts" / "sweep.py"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
BREEDER = (
    "import os, signal, subprocess, sys, time\n"
    "def breed(*_):\n"
    "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
    "    os._exit(0)\n"
    "signal.signal(signal.SIGTERM, breed); print('up', flush=True); time.sleep(600)\n"
)


@pytest.fixture
def prefix():
    return f"test-{uuid.uuid4().hex}"


def sweep(prefix: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SWEEP), "--launch-prefix", prefix, "--seconds", "3", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def start(code: str, prefix: str, owner: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TPGATE_LAUNCH_ID": f"{prefix}-1", "TPGATE_LAUNCH_OWNER": owner}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "up\n"
    return process


def marked(prefix: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and prefix.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def finish(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(timeout=10)
    process.stdout.close()


@pytest.mark.parametrize("code", [STUBBORN, BREEDER], ids=["ignores-sigterm", "starts-another-while-it-is-ended"])
def test_leftovers_are_ended_those_born_during_the_sweep_included(prefix, code):
    process = start(code, prefix, "999999999:1")
    try:
        found = sweep(prefix)
        assert found.returncode == 0, found.stdout
        assert f"ending pid {process.pid}" in found.stdout
        process.wait(timeout=10)
        assert marked(prefix) == []
    finally:
        finish(process)


def test_a_measurement_whose_owner_lives_is_left_alone_and_the_job_ends(prefix):
    ticks = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    process = start(STUBBORN, prefix, f"{os.getpid()}:{ticks}")
    try:
        found = sweep(prefix)
        assert found.returncode == 6
        assert "another measurement is running" in found.stdout
        assert process.poll() is None
    finally:
        finish(process)


def test_a_pid_that_was_given_to_a_later_process_is_no_owner(prefix):
    process = start(STUBBORN, prefix, f"{os.getpid()}:1")
    try:
        assert sweep(prefix).returncode == 0
        process.wait(timeout=10)
    finally:
        finish(process)


def test_a_clear_host_is_said_quickly(prefix, tmp_path):
    begin = time.monotonic()
    found = sweep(prefix, "--check-owner", str(tmp_path))
    assert found.returncode == 0
    assert "clear" in found.stdout
    assert time.monotonic() - begin < 4


def test_files_of_another_user_are_named_with_the_command_that_mends_them(prefix, tmp_path):
    (tmp_path / "left.bin").write_text("")
    if os.getuid() != 0:
        pytest.skip("needs root to make a file of another user")
    os.chown(tmp_path / "left.bin", 12345, 12345)
    found = sweep(prefix, "--check-owner", str(tmp_path))
    assert found.returncode == 6
    assert f"sudo chown -R {os.getuid()}" in found.stdout
