from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from night_results import write

from tpgate.stats.verdict import Verdict

SCRIPTS = Path(__file__).parents[2] / ".github" / "scripts"


def make(folder: Path, *, status: str = "finished", exit_code: int | None = 0) -> Path:
    folder.mkdir(exist_ok=True)
    night = {"night": "1-1", "status": status, "exit_code": exit_code, "commit": "4f1c0de"}
    (folder / "night.json").write_text(json.dumps(night))
    return folder


def judge(folder: Path, *words: str, summary: str | None = None) -> tuple[int, str, str, dict[str, str]]:
    """Return (exit code, standard output, summary, step outputs)."""
    target, output = folder / "summary.md", folder / "output"
    options = ["--night", str(folder), "--summary", summary or str(target), "--output", str(output), *words]
    found = subprocess.run(
        [sys.executable, str(SCRIPTS / "verdict.py"), *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in found.stderr, found.stderr
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines()) if output.exists() else {}
    return found.returncode, found.stdout, target.read_text() if target.exists() else "", outputs


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.OK, 0),
        (Verdict.IMPROVED, 0),
        (Verdict.REGRESSED, 1),
        (Verdict.VOID, 3),
        (Verdict.NO_BASELINE, 4),
        (Verdict.INCONCLUSIVE, 5),
    ],
)
def test_one_cell_of_twenty_decides_the_colour(tmp_path, verdict, code):
    folder = make(tmp_path / "night")
    write(folder / "results", "llama-8b-tp1", [*[Verdict.OK] * 19, verdict])
    found, out, summary, outputs = judge(folder, "--scenario", "llama-8b-tp1")
    assert found == code
    assert outputs == {"decided": "true", "verdict": str(verdict)}
    assert f"llama-8b-tp1: {verdict}" in summary
    assert "4f1c0de" in summary
    assert ("::error" in out or "::warning" in out) is (code != 0)
    assert json.loads((folder / "verdict.json").read_text()) == {"verdict": str(verdict), "exit_code": code}


def test_a_stored_regression_turns_the_step_red_though_the_command_said_0(tmp_path):
    folder = make(tmp_path / "night", exit_code=0)
    write(folder / "results", "good", [Verdict.OK] * 3)
    write(folder / "results", "bad", [Verdict.OK, Verdict.REGRESSED])
    code, out, summary, _ = judge(folder)
    assert code == 1
    assert "::error title=bad c1 output_tokens_per_second REGRESSED::" in out
    assert summary.index("bad: REGRESSED") < summary.index("good: OK")


def test_a_command_that_failed_stays_failed_though_the_files_are_green(tmp_path):
    folder = make(tmp_path / "night", exit_code=2)
    write(folder / "results", "good", [Verdict.OK])
    code, out, _, outputs = judge(folder)
    assert code == 2
    assert outputs["decided"] == "false"
    assert "NO VERDICT" in out


@pytest.mark.parametrize("status", ["running", "cancelled", "deadline"])
def test_a_night_that_did_not_end_is_no_green(tmp_path, status):
    folder = make(tmp_path / "night", status=status, exit_code=6)
    write(folder / "results", "good", [Verdict.OK])
    code, out, _, outputs = judge(folder)
    assert code == 6
    assert status in out
    assert outputs["decided"] == "false"
    assert not (folder / "verdict.json").exists()


def test_a_cancelled_night_with_a_regression_is_still_a_regression(tmp_path):
    folder = make(tmp_path / "night", status="cancelled", exit_code=6)
    write(folder / "results", "bad", [Verdict.REGRESSED])
    assert judge(folder)[0] == 1


def test_a_night_that_never_started_is_6(tmp_path):
    code, out, _, _ = judge(tmp_path)
    assert code == 6
    assert "never started" in out


def test_an_expected_scenario_without_a_verdict_is_6(tmp_path):
    folder = make(tmp_path / "night")
    write(folder / "results", "good", [Verdict.OK])
    code, out, _, _ = judge(folder, "--scenario", "good", "--scenario", "llama-8b-tp4")
    assert code == 6
    assert "llama-8b-tp4: expected" in out


@pytest.mark.parametrize("how", ["judged", "complete"])
def test_a_result_without_judgement_or_end_is_6(tmp_path, how):
    folder = make(tmp_path / "night")
    write(folder / "results", "good", [Verdict.OK])
    write(folder / "results", "odd", [Verdict.OK], **{how: False})
    assert judge(folder)[0] == 6


@pytest.mark.parametrize("name", ["judgement.json", "result.json"])
def test_a_file_that_was_cut_off_is_6(tmp_path, name):
    folder = make(tmp_path / "night")
    path = write(folder / "results", "good", [Verdict.OK]) / name
    path.write_bytes(path.read_bytes()[:-20])
    assert judge(folder)[0] == 6


def test_a_full_disk_under_the_summary_does_not_turn_a_verdict_green(tmp_path):
    folder = make(tmp_path / "night")
    write(folder / "results", "good", [Verdict.OK])
    code, out, _, _ = judge(folder, summary="/dev/full")
    assert code == 6
    assert "No space left" in out
    write(folder / "results", "bad", [Verdict.REGRESSED])
    assert judge(folder, summary="/dev/full")[0] == 1


def test_summary_and_annotations_keep_to_their_budgets(tmp_path):
    folder = make(tmp_path / "night", status="deadline")
    for number in range(30):
        write(folder / "results", f"s{number}", [Verdict.REGRESSED] * 100)
    _, out, summary, _ = judge(folder, *(word for n in range(40) for word in ("--scenario", f"missing-{n}")))
    assert sum(line.startswith("::") for line in out.splitlines()) <= 10
    assert len(summary.encode()) <= 1024 * 1024


def test_pages_are_written_beside_the_results(tmp_path):
    folder = make(tmp_path / "night")
    path = write(folder / "results", "good", [Verdict.OK])
    words = [sys.executable, str(SCRIPTS / "pages.py"), "--night", str(folder)]
    assert subprocess.run(words, check=False, timeout=60).returncode == 0
    assert "good" in (path / "report.html").read_text()
    (path / "result.json").write_text("{")
    assert subprocess.run(words, check=False, timeout=60, stderr=subprocess.DEVNULL).returncode == 6
