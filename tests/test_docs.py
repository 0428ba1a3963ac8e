"""What the docs say can be typed: commands exist, options exist, links lead somewhere, examples parse."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tpgate import catalog
from tpgate.cli import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "baselines").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def command_lines() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for text in blocks(page, "sh"):
            joined = text.replace("\\\n", " ")
            found += [(page.name, line.strip()) for line in joined.splitlines() if line.strip().startswith("tpgate ")]
    return found


COMMAND_LINES = command_lines()


@pytest.fixture(scope="module")
def helps():
    def read(command):
        answer = subprocess.run(
            [sys.executable, "-m", "tpgate", command, "--help"], capture_output=True, text=True, check=True
        )
        return answer.stdout

    return {command: read(command) for command in COMMANDS}


@pytest.mark.parametrize(
    ("page", "line"), COMMAND_LINES, ids=[f"{n}:{line}" for n, (_, line) in enumerate(COMMAND_LINES)]
)
def test_every_command_and_option_that_is_shown_exists(page, line, helps):
    words = shlex.split(line, comments=True)
    assert words[1] in COMMANDS
    for word in words[2:]:
        if word.startswith("--"):
            assert word.split("=")[0] in helps[words[1]], f"{page}: {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


def test_every_tox_environment_that_is_named_exists():
    known = set(re.findall(r"^\[testenv:(\w+)\]", (ROOT / "tox.ini").read_text(encoding="utf-8"), re.MULTILINE)) | {
        "py"
    }
    for page in PAGES:
        named = set(re.findall(r"tox run -e (\w+)", page.read_text(encoding="utf-8")))
        assert named <= known, page.name


def test_ci_runs_the_commands_that_the_readme_gives():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    ran = set(re.search(r"for environment in (.*); do", script).group(1).split())
    assert {"py", "lint", "demo", "cpu"} <= ran
    assert "tox run -e" in script


def test_the_quickstart_scenarios_load_and_are_one_and_the_same(tmp_path):
    page = ROOT / "docs" / "quickstart.md"
    (tmp_path / "a.py").write_text(blocks(page, "python")[0])
    (tmp_path / "a.toml").write_text(blocks(page, "toml")[0])
    python, toml = catalog.load(tmp_path / "a.py"), catalog.load(tmp_path / "a.toml")
    assert python == toml


def test_every_pytest_option_that_is_named_exists():
    program = [sys.executable, "-m", "pytest", "--help"]
    text = subprocess.run(program, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    for page in PAGES:
        for option in set(re.findall(r"--tpgate-[a-z-]+", page.read_text(encoding="utf-8"))):
            assert option in text, f"{page.name}: {option}"


def test_every_gate_of_the_shipped_scenarios_has_a_test():
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "perf_tests").glob("test_*.py"))
    for scenario in catalog.load(ROOT / catalog.DEFAULT_PATH).values():
        for gate in scenario.gates:
            assert f'@pytest.mark.gates("{gate.metric}")' in tests, f"{scenario.name}: {gate.metric}"


def test_the_project_file_is_valid():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"tpgate": "tpgate.plugin"}
