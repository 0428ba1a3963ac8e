"""The commands of the docs that need no GPU and no server are run, on stored results, as they stand in the text."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from forge import series

from tpgate.baseline.assemble import assemble
from tpgate.baseline.judge import judge

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
OFFLINE = ("compare", "report", "refresh", "history", "trace", "doctor")
VALUES = (1000.0, 1004.0, 997.0)


def lines() -> list[tuple[str, str]]:
    found = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]):
        for text in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["tpgate"] and words[1] in OFFLINE:
                    found.append((page.name, shlex.join(words)))
    return found


@pytest.fixture
def stored(tmp_path):
    """A folder with results A, B and C, and traces, under the names that the docs use."""
    for number, name in enumerate("ABC"):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        cells = {"c1": VALUES, "c4": VALUES}
        result = series("output_tokens_per_second", cells, first=10 * number, result_id=name)
        (folder / "result.json").write_bytes(msgspec.json.encode(result))
        (folder / "judgement.json").write_bytes(msgspec.json.encode(judge(result, assemble([result]))))
    for alias in ("A", "B", "RUN_FOLDER"):
        (tmp_path / alias).symlink_to(tmp_path / "results" / ("B" if alias == "B" else "A"))
    (tmp_path / "results" / "RESULT").symlink_to(tmp_path / "results" / "A")
    captures = sorted((ROOT / "tests" / "golden").glob("*.trace.json.gz"))
    traces = tmp_path / "results" / "A" / "launch-LAUNCH" / "traces" / "c64"
    traces.mkdir(parents=True)
    shutil.copy(captures[0], traces)
    for name, capture in (("FILE", captures[0]), ("NOW", captures[-1]), ("BEFORE", captures[0])):
        (tmp_path / f"{name}.trace.json.gz").symlink_to(capture)
    (tmp_path / "mine.toml").write_text('[[rule]]\ncategory = "other"\nmatch = "^mine$"\nwhy = "an example"\n')
    return tmp_path


def concrete(line: str) -> list[str]:
    words = []
    for word in shlex.split(line):
        if word.startswith("["):
            continue
        word = re.sub(r"(…|\.\.\.)$", "", word)
        if word in ("FILE_OR_FOLDER", "FILE", "NOW", "BEFORE"):
            word = f"{word.split('_')[0]}.trace.json.gz"
        if word not in ("]", ""):
            words.append(word)
    return words[1:]


@pytest.mark.parametrize(("page", "line"), lines(), ids=[f"{n}:{page}" for n, (page, _) in enumerate(lines())])
def test_the_command_runs_as_it_stands(page, line, stored):
    if "--accept-regression" in line:
        expected, words = 2, "did not become worse"  # nothing did, and a reason for nothing is refused
    else:
        expected, words = 0, ""
    if " history " in line and "--add" not in line:
        add = [sys.executable, "-m", "tpgate", "history", "--add", "results/A"]
        subprocess.run(add, cwd=stored, check=True, capture_output=True)
    answer = subprocess.run(
        [sys.executable, "-m", "tpgate", *concrete(line)], cwd=stored, capture_output=True, text=True, check=False
    )
    said = answer.stdout + answer.stderr
    assert answer.returncode == expected, said
    assert words in said
    assert "Traceback" not in said
