"""`tpgate history`: lists, drift, change of level, export."""

from __future__ import annotations

import csv

import pytest
from forge import QUIET, THROUGHPUT, baseline, scaled, series

from tpgate.baseline.reading import render
from tpgate.cli import main


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "baselines" / "nvidia-h200-x1" / "llama-8b-tp1.json"
    path.parent.mkdir(parents=True)
    path.write_text(render(baseline()))

    def run(*words: str) -> int:
        places = ["--file", str(tmp_path / "h.sqlite"), "--baselines", str(tmp_path / "baselines")]
        return main(["history", *words, *places])

    def add(factor: float, first: int) -> int:
        values = scaled(QUIET, factor)
        file = tmp_path / f"{first}.json"
        file.write_text(render(series(THROUGHPUT, {"c1": values, "c4": values}, first=first, result_id=str(first))))
        return run("--add", str(file))

    run.add = add
    run.folder = tmp_path
    return run


def test_it_lists_every_launch_once(site, capsys):
    site.add(1.0, 100)
    site.add(1.0, 100)
    capsys.readouterr()
    assert site() == 0
    assert f"{len(QUIET)} launches" in capsys.readouterr().out


def test_a_steady_history_is_steady_and_a_drifted_one_is_named(site, capsys):
    site.add(1.0, 100)
    assert site("--drift") == 0
    site.add(0.96, 400)
    capsys.readouterr()
    assert site("llama-8b-tp1", "--drift", "--metric", THROUGHPUT) == 1
    out = capsys.readouterr().out
    assert f"DRIFT   c1:{THROUGHPUT}" in out


def test_an_unknown_scenario_or_metric_or_an_absent_file_is_a_usage_error(site, capsys):
    assert site() == 2
    assert "no history yet" in capsys.readouterr().err
    site.add(1.0, 100)
    assert site("lama-8b") == 2
    assert site("--drift", "--metric", "tokens_per_fortnight") == 2


def test_the_series_are_exported_for_otava(site):
    site.add(1.0, 100)
    target = site.folder / "otava.csv"
    assert site("llama-8b-tp1", "--otava", str(target)) == 0
    rows = list(csv.reader(target.read_text().splitlines()))
    assert rows[0][0] == "time"
    assert len(rows) == len(QUIET) + 1
