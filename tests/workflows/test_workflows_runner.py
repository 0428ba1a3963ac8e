from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

GITHUB = Path(__file__).parents[2] / ".github"


@pytest.fixture
def hook(tmp_path):
    """The hook as it is installed, with a sudo and a sweep that only note what they were asked for."""
    folder = tmp_path / "opt"
    folder.mkdir()
    shutil.copy(GITHUB / "runner" / "job-started.sh", folder)
    (folder / "sweep.py").write_text(f"open({str(tmp_path / 'swept')!r}, 'w').close()\n")
    (folder / "sudo").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/sudo-calls\nexit "${{SUDO_CODE:-0}}"\n')
    (folder / "sudo").chmod(0o755)
    return folder / "job-started.sh"


def start(hook: Path, workspace: Path, **variables: str) -> int:
    environment = {"PATH": f"{hook.parent}:{os.environ['PATH']}", "GITHUB_WORKSPACE": str(workspace), **variables}
    return subprocess.run([str(hook)], env=environment, check=False, timeout=30, stdout=subprocess.DEVNULL).returncode


def test_a_clean_workspace_needs_no_root(hook, tmp_path):
    (tmp_path / "work").mkdir()
    assert start(hook, tmp_path / "work") == 0
    assert (tmp_path / "swept").exists()
    assert not (tmp_path / "sudo-calls").exists()


def test_a_workspace_that_does_not_exist_yet_is_fine(hook, tmp_path):
    assert start(hook, tmp_path / "none") == 0
    assert (tmp_path / "swept").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a file of another user")
def test_files_of_another_user_are_given_back_before_the_checkout(hook, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "left.bin").write_text("")
    os.chown(work / "left.bin", 12345, 12345)
    assert start(hook, work) == 0
    assert f"{os.getuid()}:{os.getgid()} {work}" in (tmp_path / "sudo-calls").read_text()
    assert start(hook, work, SUDO_CODE="1") != 0
