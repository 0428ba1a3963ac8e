"""`git bisect run` over a real repository, each step a real `tpgate ab` of two scripted servers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCENARIO = """
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, pairs

SCENARIOS = (
    Scenario(
        name="bisected",
        server=ServerSpec(
            ModelSpec.dummy("standin", {"vocab_size": 2048, "hidden_size": 1024, "num_hidden_layers": 4}),
            tensor_parallel=2,
            device="cpu",
            options=pairs(step_ms=4.0, per_request_ms=0.1, layers=4, vocabulary=2048),
            startup_timeout_s=30,
            engine="standin",
        ),
        cells=(LoadSpec(concurrency=2, requests=10, warmup_requests=2, input_tokens=8, output_tokens=16),),
        gates=(Gate("attention_time_per_token", 0.5),),
        profile_cells=("c2",),
        profile_steps=4,
        settings=pairs(client_lag_limit=50.0),
    ),
)
"""
HISTORY = (
    ("good", "fault_attention_slower=0.0"),
    ("rename a file", "fault_attention_slower=0.0"),
    ("break the start", "fault_exit_at_start=1"),
    ("mend the start", "fault_attention_slower=0.0"),
    ("attend twice", "fault_attention_slower=2.0"),
)
"""Commits in order, and what the server of each is like."""
STEP = (
    "{python} -m tpgate ab bisected --scenarios {folder}/scenarios.py --results {folder}/results --rounds 1 --quiet"
    " --base fault_attention_slower=0.0 --head $(cat server.words); code=$?;"
    ' echo "$(cat server.words) $code" >> {folder}/steps; exit $code'
)


@pytest.fixture
def git(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    who = {f"GIT_{role}_{field}": "t@localhost" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    environment = os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def run(*words: str, fails: bool = False) -> str:
        done = subprocess.run(
            ["git", *words], cwd=repository, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert bool(done.returncode) is fails, done.stdout + done.stderr
        return done.stdout.strip()

    run("init", "--quiet", "--initial-branch", "main")
    for number, (subject, words) in enumerate(HISTORY):
        (repository / "server.words").write_text(words)
        (repository / "number").write_text(str(number))
        run("add", ".")
        run("commit", "--quiet", "--message", subject)
    return run


def test_a_bisection_finds_the_commit_and_passes_over_one_that_does_not_start(git, tmp_path):
    (tmp_path / "scenarios.py").write_text(SCENARIO)
    git("bisect", "start", "main", "main~4")
    said = git("bisect", "run", "sh", "-c", STEP.format(python=sys.executable, folder=tmp_path))
    steps = [line.split() for line in (tmp_path / "steps").read_text().splitlines()]
    assert "is the first bad commit" in said, said
    assert git("log", "-1", "--format=%s", "refs/bisect/bad") == "attend twice"
    assert {("fault_exit_at_start=1", "125"), ("fault_attention_slower=0.0", "0")} <= {tuple(step) for step in steps}


def test_a_wrong_option_ends_the_bisection_and_blames_no_commit(git, tmp_path):
    git("bisect", "start", "main", "main~4")
    said = git("bisect", "run", sys.executable, "-m", "tpgate", "ab", "selftest", "--haed", "a=1", fails=True)
    assert "first bad commit" not in said
