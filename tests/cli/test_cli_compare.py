"""`tpgate compare` works on stored files alone, with the verdicts and exit codes of the gate."""

from __future__ import annotations

import json

import pytest
from forge import QUIET, THROUGHPUT, baseline, launch, now, result, series

from tpgate.baseline.reading import render
from tpgate.cli import main


@pytest.fixture
def store(tmp_path):
    def write(name: str, value) -> str:
        folder = tmp_path / name
        folder.mkdir()
        file = folder / ("result.json" if hasattr(value, "result_id") else "llama-8b-tp1.json")
        file.write_text(render(value))
        return str(folder if hasattr(value, "result_id") else file)

    return write


@pytest.mark.parametrize(("factor", "code", "word"), [(1.0, 0, "OK"), (0.35, 1, "REGRESSED"), (1.5, 0, "IMPROVED")])
def test_a_stored_result_is_judged_offline(store, capsys, factor, code, word):
    assert main(["compare", store("a", baseline()), store("b", now(factor))]) == code
    assert word in capsys.readouterr().out


def test_a_stored_report_that_regressed_must_fail_and_its_json_says_so(store, capsys):
    assert main(["compare", store("a", baseline()), store("b", now(0.69)), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "REGRESSED"
    assert answer["result_id"] == "result-now"
    assert [one["verdict"] for one in answer["comparisons"]] == ["REGRESSED", "REGRESSED"]


def test_two_results_or_two_baselines_can_be_compared(store):
    first = store("a", series(THROUGHPUT, {"c1": QUIET, "c4": QUIET}))
    assert main(["compare", first, first]) == 0
    assert main(["compare", first, store("b", now(0.5))]) == 1
    halved = store("c", baseline(cells={"c1": [v / 2 for v in QUIET], "c4": QUIET}))
    assert main(["compare", store("d", baseline()), halved]) == 1
    assert main(["compare", halved, halved]) == 0


def test_another_identity_is_no_baseline_unless_it_is_asked_for(store, capsys):
    cells = {"c1": {THROUGHPUT: 500.0}, "c4": {THROUGHPUT: 500.0}}
    other = store("b", result([launch(99, cells, keys={"engine_version": "0.5.20"})]))
    first = store("a", baseline())
    assert main(["compare", first, other]) == 4
    assert "engine_version" in capsys.readouterr().out
    assert main(["compare", first, other, "--across", "engine_version"]) == 1
    assert main(["compare", first, other, "--across", "engine_versoin"]) == 2


def test_a_mistyped_path_or_an_empty_file_is_a_usage_error(store, tmp_path, capsys):
    good = store("b", now(1.0))
    assert main(["compare", str(tmp_path / "h20O.json"), good]) == 2
    assert "no such" in capsys.readouterr().err
    (tmp_path / "empty.json").write_text("{}")
    assert main(["compare", str(tmp_path / "empty.json"), good]) == 2


def test_a_result_that_is_void_is_no_reference(store, capsys):
    broken = store("a", result([launch(1, {"c1": {THROUGHPUT: 1.0}}, failure="server died")]))
    assert main(["compare", broken, store("b", now(1.0))]) == 2
    assert "server died" in capsys.readouterr().err
