from __future__ import annotations

import json

import pytest
from report_results import RESULT_ID, write_folder

from tpgate.cli import main
from tpgate.cli.report import FORMATS


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "results" / RESULT_ID)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_written_from_a_stored_result(form, folder, tmp_path):
    target = tmp_path / "out" / "report"
    assert main(["report", str(folder), "--format", form, "--output", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert "llama-8b-tp1" in text
    assert text.endswith("\n")


def test_a_report_of_a_red_result_exits_0_and_shows_the_red(folder, capsys):
    assert main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "REGRESSED  (exit code 1)" in out
    assert "tpgate run llama-8b-tp1 --cell c16" in out
    assert "\x1b" not in out


def test_a_result_without_a_judgement_has_no_verdict_to_print(tmp_path, capsys):
    folder = write_folder(tmp_path / RESULT_ID, judged=False)
    assert main(["report", str(folder)]) == 2
    assert "tpgate compare" in capsys.readouterr().err
    assert main(["report", str(folder), "--format", "html"]) == 0
    assert "NOT JUDGED" in capsys.readouterr().out


def test_an_output_that_cannot_be_written_is_a_usage_error(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["report", str(folder), "--output", str(tmp_path / "file" / "x")]) == 2
    assert "--output" in capsys.readouterr().err


def test_a_named_folder_of_baselines_must_hold_the_file(folder, tmp_path, capsys):
    (tmp_path / "baselines").mkdir()
    assert main(["report", str(folder), "--format", "html", "--baselines", str(tmp_path / "baselines")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_json_on_standard_output_is_json(folder, capsys):
    assert main(["report", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["judgement"]["verdict"] == "REGRESSED"
