from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / ".github" / "scripts"


def beat(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "heartbeat.py"), "--max-age-hours", "30", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=30)


def artifacts(*hours: float, name: str = "verdict-1-1") -> str:
    now = datetime.now(UTC)
    made = [{"name": name, "created_at": (now - timedelta(hours=age)).isoformat(timespec="seconds")} for age in hours]
    return json.dumps({"total_count": len(made), "artifacts": made})


def test_a_young_verdict_of_any_colour_is_a_beat():
    found = beat(artifacts(100, 20))
    assert found.returncode == 0
    assert "20.0 h old" in found.stdout


@pytest.mark.parametrize(
    "text",
    [
        artifacts(31),
        artifacts(),
        artifacts(2, name="night-1-1"),
        artifacts(-5),
        "",
        "[]",
        '{"message": "Bad credentials"}',
    ],
    ids=["too-old", "none", "a-night-without-a-verdict", "from-the-future", "empty", "list", "error-page"],
)
def test_no_young_verdict_is_red(text):
    found = beat(text)
    assert found.returncode == 6
    assert "::error title=heartbeat::" in found.stdout
    assert "Traceback" not in found.stderr


def test_nights_on_the_host_can_be_asked_as_well(tmp_path):
    night = tmp_path / "nights" / "1-1"
    night.mkdir(parents=True)
    assert beat("", "--state", str(tmp_path)).returncode == 6
    (night / "verdict.json").write_text("{}")
    assert beat("", "--state", str(tmp_path)).returncode == 0
    old = time.time() - 40 * 3600
    os.utime(night / "verdict.json", (old, old))
    assert beat("", "--state", str(tmp_path)).returncode == 6


def test_the_step_asks_the_api_and_keeps_its_failure(tmp_path):
    gh = tmp_path / "gh"
    gh.write_text(f"#!/bin/sh\ncat <<'EOF'\n{artifacts(3)}\nEOF\n")
    gh.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "o/n", "HOURS": "30"}
    words = [str(SCRIPTS / "heartbeat.sh")]
    assert subprocess.run(words, env=environment, check=False, timeout=30).returncode == 0
    gh.write_text("#!/bin/sh\necho '{\"artifacts\": []}'\nexit 4\n")
    assert subprocess.run(words, env=environment, check=False, timeout=30).returncode == 4


@pytest.mark.parametrize(
    ("result", "verdict", "code"),
    [
        ("success", "OK", 0),
        ("success", "IMPROVED", 0),
        ("failure", "OK", 6),
        ("failure", "REGRESSED", 1),
        ("failure", "VOID", 3),
        ("failure", "NO BASELINE", 4),
        ("failure", "INCONCLUSIVE", 5),
        ("success", "REGRESSED", 1),
        ("success", "", 6),
        ("failure", "", 6),
        ("cancelled", "", 6),
        ("cancelled", "OK", 6),
        ("failure", "NO VERDICT", 6),
        ("", "", 6),
    ],
)
def test_a_night_without_a_verdict_is_red(result, verdict, code):
    environment = {"PATH": os.environ["PATH"], "RESULT": result, "VERDICT": verdict}
    words = [str(SCRIPTS / "demand_verdict.sh")]
    found = subprocess.run(words, env=environment, check=False, timeout=30, stdout=subprocess.DEVNULL)
    assert found.returncode == code
