from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / ".github" / "scripts"
REASON = "the new attention kernel is slower at C=1; accepted in the review of 1 December"
TPGATE = """
import pathlib, sys
words = sys.argv[1:]
with open("calls", "a") as stream:
    stream.write(" ".join(words) + "\\n")
if words[0] == "run":
    folder = pathlib.Path(words[words.index("--results") + 1])
    number = len(list(folder.glob("*"))) if folder.exists() else 0
    (folder / f"r{number}").mkdir(parents=True)
    (folder / f"r{number}" / "result.json").write_text("{}")
    sys.exit(int(pathlib.Path("code").read_text()))
if pathlib.Path("refuse").exists():
    sys.exit(1)
target = pathlib.Path("baselines/1x-h200")
target.mkdir(parents=True, exist_ok=True)
(target / "llama-8b-tp1.json").write_text("{}\\n")
print("| c64 | tpot_p50 | 6.91 ms | 7.20 ms | +4.2 % |")
"""
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.org",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
}


def git(folder: Path, *words: str) -> str:
    found = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **GIT}, capture_output=True, text=True, check=True, timeout=30
    )
    return found.stdout


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    (folder / "baselines").mkdir(parents=True)
    (folder / "baselines" / "README.md").write_text("raw runs\n")
    (folder / "tool.py").write_text(TPGATE)
    (folder / "code").write_text("4")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "baselines")
    git(folder, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(folder, "push", "--quiet", "origin", "main")
    return folder


def refresh(checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        **GIT,
        "TPGATE_COMMAND": f"{sys.executable} tool.py",
        "TPGATE_SCENARIO": "llama-8b-tp1",
        "TPGATE_LAUNCHES": "3",
        "TPGATE_REASON": REASON,
        "GITHUB_ACTOR": "octocat",
        **variables,
    }
    words = ["--results", str(checkout.parent / "results"), "--output", str(checkout.parent / "refreshed")]
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "refresh.py"), *words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_launches_are_measured_then_taken_in_and_handed_over(checkout):
    found = refresh(checkout, TPGATE_ACCEPT="c64:tpot_p50")
    assert found.returncode == 0, found.stdout + found.stderr
    calls = (checkout / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["run", "run", "run", "refresh"]
    assert calls[-1].count("results/r") == 3
    assert f"--accept-regression c64:tpot_p50 {REASON} --who octocat --yes" in calls[-1]
    handed = checkout.parent / "refreshed"
    assert sorted(str(path.relative_to(handed)) for path in handed.rglob("*") if path.is_file()) == [
        "baselines/1x-h200/llama-8b-tp1.json",
        "body.md",
    ]
    text = (handed / "body.md").read_text()
    assert f"> {REASON}" in text
    assert "| c64 | tpot_p50 |" in text


@pytest.mark.parametrize("code", [2, 3, 6])
def test_a_launch_that_measured_nothing_takes_nothing_in(checkout, code):
    (checkout / "code").write_text(str(code))
    assert refresh(checkout).returncode == code
    assert not (checkout.parent / "refreshed").exists()


def test_a_refused_refresh_is_red(checkout):
    (checkout / "refuse").write_text("")
    assert refresh(checkout).returncode == 1
    assert not (checkout.parent / "refreshed").exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"TPGATE_SCENARIO": "$(touch x)"},
        {"TPGATE_LAUNCHES": "0"},
        {"TPGATE_LAUNCHES": "many"},
        {"TPGATE_REASON": "  "},
        {"TPGATE_ACCEPT": "--yes"},
    ],
)
def test_inputs_are_checked_before_anything_is_measured(checkout, variables):
    assert refresh(checkout, **variables).returncode == 2
    assert not (checkout / "calls").exists()


def open_request(checkout: Path, handed: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    tools = checkout.parent / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "gh").write_text(f'#!/bin/sh\necho "$@" >> {checkout.parent}/gh-calls\n')
    (tools / "gh").chmod(0o755)
    environment = {
        **GIT,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(checkout.parent),
        "REFRESHED": str(handed),
        "TPGATE_SCENARIO": "llama-8b-tp1",
        "GITHUB_RUN_ID": "77",
        "GITHUB_RUN_ATTEMPT": "1",
        "GH_TOKEN": "not-a-token",
        **variables,
    }
    words = [str(SCRIPTS / "pull_request.sh")]
    return subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def handed(tmp_path):
    folder = tmp_path / "handed"
    (folder / "baselines" / "1x-h200").mkdir(parents=True)
    (folder / "baselines" / "1x-h200" / "llama-8b-tp1.json").write_text("{}\n")
    (folder / "body.md").write_text("why\n")
    return folder


def test_a_branch_is_pushed_and_main_is_not_touched(checkout, handed):
    before = git(checkout, "rev-parse", "origin/main")
    found = open_request(checkout, handed)
    assert found.returncode == 0, found.stdout + found.stderr
    remote = checkout.parent / "remote.git"
    assert git(remote, "rev-parse", "main") == before
    changed = git(remote, "diff", "--name-only", "main", "refresh/llama-8b-tp1-77-1").split()
    assert changed == ["baselines/1x-h200/llama-8b-tp1.json"]
    calls = (checkout.parent / "gh-calls").read_text()
    assert "pr create --head refresh/llama-8b-tp1-77-1" in calls


def test_without_an_app_or_token_nothing_is_opened_and_the_reason_is_said(checkout, handed):
    found = open_request(checkout, handed, GH_TOKEN="")
    assert found.returncode == 6
    assert "starts no checks" in found.stdout
    assert not (checkout.parent / "gh-calls").exists()


@pytest.mark.parametrize("name", ["tox.ini", "baselines/run.sh", ".github/workflows/ci.yml"])
def test_files_beside_the_baselines_are_refused(checkout, handed, name):
    (handed / name).parent.mkdir(parents=True, exist_ok=True)
    (handed / name).write_text("x")
    assert open_request(checkout, handed).returncode == 6
    assert git(checkout.parent / "remote.git", "branch", "--list", "refresh/*") == ""


def test_a_link_among_the_baselines_is_refused(checkout, handed):
    (handed / "baselines" / "x.json").symlink_to("/etc/hostname")
    assert open_request(checkout, handed).returncode == 6


def test_unchanged_baselines_open_nothing(checkout, handed):
    assert open_request(checkout, handed).returncode == 0
    git(checkout, "switch", "--quiet", "main")
    git(checkout, "merge", "--quiet", "refresh/llama-8b-tp1-77-1")
    assert open_request(checkout, handed, GITHUB_RUN_ID="78").returncode == 6
