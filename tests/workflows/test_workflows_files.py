from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

GITHUB = Path(__file__).parents[2] / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.yml"))
GPU_FILES = [path for path in FILES if "self-hosted" in path.read_text(encoding="utf-8")]


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps_of(path: Path) -> list[dict[str, Any]]:
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_the_ones_that_are_meant():
    assert [path.name for path in FILES] == ["ci.yml", "heartbeat.yml", "nightly.yml", "refresh.yml"]
    assert [path.name for path in GPU_FILES] == ["nightly.yml", "refresh.yml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_permitted_that_is_not_named(path):
    document = load(path)
    assert document["permissions"] == {}
    for job in document["jobs"].values():
        assert "permissions" in job
        assert "write" not in job["permissions"].values()
        assert job["timeout-minutes"] <= 240


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version_beside_it(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_scripts_hold_no_expression_no_pipe_and_hide_no_exit_code(path):
    for step in steps_of(path):
        assert "continue-on-error" not in step
        script = step.get("run", "")
        assert "${{" not in script
        assert "|" not in script.replace("||", "")
        assert "|| true" not in script
        for name in re.findall(r"\.github/scripts/[a-z_]+\.(?:py|sh)", script):
            assert (GITHUB.parent / name).is_file()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_checkout_keeps_no_credentials(path):
    for step in steps_of(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.name)
def test_the_gpu_host_runs_no_code_of_a_pull_request(path):
    triggers = load(path)[True]
    assert set(triggers) <= {"schedule", "workflow_dispatch"}


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.name)
def test_a_night_waits_for_another_and_is_never_cancelled_by_it(path):
    assert load(path)["concurrency"] == {"group": "gpu-host", "cancel-in-progress": False, "queue": "max"}


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.name)
def test_the_host_is_swept_first_and_the_inner_deadline_is_the_earlier_one(path):
    job = load(path)["jobs"]["measure"]
    scripts = [step.get("run", "") for step in job["steps"]]
    sweep = next(index for index, script in enumerate(scripts) if "sweep.py" in script)
    night = next(index for index, script in enumerate(scripts) if "night.py" in script)
    assert sweep < night
    minutes = int(re.search(r"--minutes (\d+)", scripts[night])[1])
    assert minutes + 20 <= job["timeout-minutes"]
    assert job["steps"][-1]["if"] == "always()"
    assert "sweep.py" in scripts[-1]


def test_whatever_a_night_wrote_is_kept_even_when_it_failed():
    job = load(GITHUB / "workflows" / "nightly.yml")["jobs"]["measure"]
    after = [step for step in job["steps"] if "verdict.py" in step.get("run", "") or "upload-artifact" in str(step)]
    assert len(after) == 3
    assert all(step["if"].startswith("always()") for step in after)
    assert all(step["with"]["if-no-files-found"] == "error" for step in after if "with" in step)


def test_a_hosted_job_looks_at_the_night_whatever_became_of_it():
    job = load(GITHUB / "workflows" / "nightly.yml")["jobs"]["verdict"]
    assert job["needs"] == "measure"
    assert job["if"].startswith("always()")
    assert job["steps"][-1]["run"] == ".github/scripts/demand_verdict.sh"


def test_only_the_refresh_opens_pull_requests_and_never_with_the_workflows_own_token():
    text = (GITHUB / "workflows" / "refresh.yml").read_text(encoding="utf-8")
    assert "github.token" not in text
    assert "GITHUB_TOKEN" not in text
    assert "create-github-app-token" in text


@pytest.mark.parametrize("path", sorted((GITHUB / "scripts").glob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_stop_at_the_first_failure(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert path.stat().st_mode & 0o111


def test_the_page_for_runners_names_what_the_workflows_use():
    page = (GITHUB.parent / "docs" / "nightly.md").read_text(encoding="utf-8")
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    for name in set(re.findall(r"(?:vars|secrets)\.([A-Z_]+)", text)):
        assert f"`{name}`" in page, name
    for name in set(re.findall(r"\]\(\.\./([^)#]+)\)", page)):
        assert (GITHUB.parent / name).exists(), name
    minutes = re.search(r"--minutes (\d+)", text)[1]
    assert f"a deadline of {minutes} minutes" in page
