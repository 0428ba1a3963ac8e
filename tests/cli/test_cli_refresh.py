"""`tpgate refresh`: worst change first, nothing worse without a reason, nothing written unless told."""

from __future__ import annotations

import json

import pytest
from forge import QUIET, THROUGHPUT, baseline, scaled, series

from tpgate.baseline.reading import load_baseline, render
from tpgate.cli import main

WHERE = "nvidia-h200-x1/llama-8b-tp1.json"


@pytest.fixture
def site(tmp_path):
    (tmp_path / "baselines").mkdir()

    def write(name: str, factor: float = 1.0, first: int = 50) -> str:
        values = scaled(QUIET, factor)
        folder = tmp_path / name
        folder.mkdir()
        value = series(THROUGHPUT, {"c1": values, "c4": values}, first=first, result_id=name)
        (folder / "result.json").write_text(render(value))
        return str(folder)

    write.folder = tmp_path / "baselines"
    return write


def _run(site, *words: str) -> int:
    return main(["refresh", *words, "--baselines", str(site.folder)])


def _pin(site) -> None:
    path = site.folder / WHERE
    path.parent.mkdir()
    path.write_text(render(baseline()))


def test_nothing_is_written_until_it_is_told(site, capsys):
    one = site("r1")
    assert _run(site, one) == 0
    assert "nothing was written: add --yes" in capsys.readouterr().out
    assert not (site.folder / WHERE).exists()
    assert _run(site, one, "--yes") == 0
    assert len(load_baseline(site.folder / WHERE, in_store=True).launches) == len(QUIET)


def test_the_written_file_is_stable_text(site):
    _run(site, site("r1"), "--yes")
    text = (site.folder / WHERE).read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_a_worse_value_is_refused_with_the_command_that_would_take_it(site, capsys):
    _pin(site)
    before = (site.folder / WHERE).read_text()
    assert _run(site, site("r1", 0.9), "--yes") == 1
    said = capsys.readouterr()
    assert f"--accept-regression c1:{THROUGHPUT}" in said.err
    assert "| **worse** |" in said.out
    assert "control: before a worse value is accepted" in said.out
    assert "at commit c0ffee" in said.out
    assert (site.folder / WHERE).read_text() == before


def test_a_worse_value_is_taken_in_with_reasons_and_who(site, capsys):
    _pin(site)
    words = [site("r1", 0.9), "--yes", "--who", "ann"]
    for cell in ("c1", "c4"):
        words += ["--accept-regression", f"{cell}:{THROUGHPUT}", "safer sampling, see review 77"]
    assert _run(site, *words) == 0
    stored = load_baseline(site.folder / WHERE)
    assert {(one.cell, one.who, one.reason) for one in stored.accepted} == {
        (cell, "ann", "safer sampling, see review 77") for cell in ("c1", "c4")
    }
    assert "accepted worse: c1" in capsys.readouterr().out


def test_an_accept_that_names_no_check_is_a_usage_error(site):
    _pin(site)
    assert _run(site, site("r1", 0.9), "--accept-regression", THROUGHPUT, "a good long reason") == 2


def test_a_broken_stored_baseline_is_not_overwritten(site):
    path = site.folder / WHERE
    path.parent.mkdir()
    path.write_text("{}")
    assert _run(site, site("r1"), "--yes") == 2
    assert path.read_text() == "{}"
