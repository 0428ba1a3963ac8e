from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tpgate.errors import HostError
from tpgate.host.lease import default_folder, hold, holders

HOLDER = """
import os, sys, time
from pathlib import Path
from tpgate.host.lease import hold
context = hold(["gpu-GPU-1"], holder="tpgate llama", folder=Path(sys.argv[1]))
context.__enter__()
if sys.argv[2] == "fork" and os.fork() == 0:
    os.close(1)
    time.sleep(60)
print("held", flush=True)
sys.stdin.readline()
os._exit(0)
"""


def start(folder, how="plain"):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    return process


def finish(process):
    process.stdin.close()
    process.wait(timeout=10)
    process.stdout.close()


def test_a_second_run_is_refused_and_told_who_holds_it(tmp_path):
    other = start(tmp_path)
    try:
        with (
            pytest.raises(HostError) as caught,
            hold(["gpu-GPU-0", "gpu-GPU-1"], holder="me", folder=tmp_path),
        ):
            pass
        assert f"gpu-GPU-1 is leased by tpgate llama (process {other.pid}, since 20" in str(caught.value)
        assert f"kill {other.pid}" in caught.value.next_step
        with hold(["gpu-GPU-0"], holder="me", folder=tmp_path):  # what was taken before the refusal is free again
            assert {h.resource for h in holders(tmp_path)} == {"gpu-GPU-0", "gpu-GPU-1"}
    finally:
        finish(other)
    with hold(["gpu-GPU-1"], holder="me", folder=tmp_path):
        pass


def test_a_killed_holder_leaves_nothing_behind(tmp_path):
    other = start(tmp_path)
    other.kill()
    other.wait(timeout=10)
    assert json.loads((tmp_path / "gpu-GPU-1.lock").read_text())["pid"] == other.pid
    with hold(["gpu-GPU-1"], holder="me", folder=tmp_path):
        assert [h.pid for h in holders(tmp_path)] == [os.getpid()]
    other.stdin.close()
    other.stdout.close()


def test_a_fork_that_outlives_its_holder_does_not_keep_the_lease(tmp_path):
    other = start(tmp_path, "fork")
    try:
        finish(other)
        with hold(["gpu-GPU-1"], holder="me", folder=tmp_path):
            assert [h.holder for h in holders(tmp_path)] == ["me"]
    finally:
        os.killpg(other.pid, 9)


def test_a_process_with_a_reused_number_is_not_the_holder(tmp_path):
    with hold(["gpu-GPU-1"], holder="old", folder=tmp_path) as (path,):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"born": record["born"] - 1}))
        with hold(["gpu-GPU-1"], holder="new", folder=tmp_path):
            assert [h.holder for h in holders(tmp_path)] == ["new"]


def test_a_lease_ends_with_an_error_in_the_body(tmp_path):
    with pytest.raises(RuntimeError, match="boom"), hold(["cpu-engine"], holder="me", folder=tmp_path):
        raise RuntimeError("boom")
    assert holders(tmp_path) == []


def test_one_process_cannot_hold_a_resource_twice(tmp_path):
    with (
        hold(["cpu-engine"], holder="first", folder=tmp_path),
        pytest.raises(HostError, match="leased by first"),
        hold(["cpu-engine"], holder="second", folder=tmp_path),
    ):
        pass


def test_resources_become_safe_file_names(tmp_path):
    with hold(["gpu ../../x", "gpu ../../x"], holder="me", folder=tmp_path) as paths:
        assert [path.parent for path in paths] == [tmp_path]


def test_the_folder_of_this_host_is_shared_and_sticky(tmp_path, monkeypatch):
    monkeypatch.delenv("TPGATE_LEASE_FOLDER", raising=False)
    folder = default_folder()
    assert folder.name == "tpgate"
    if folder.stat().st_uid == os.getuid():
        assert folder.stat().st_mode & 0o7777 == 0o1777
    monkeypatch.setenv("TPGATE_LEASE_FOLDER", str(tmp_path / "shared" / "leases"))
    with hold(["cpu-engine"], holder="me") as (path,):
        assert path.parent == tmp_path / "shared" / "leases"
