"""The shape of the code: layers, sizes, imports, and a plugin that is cheap to load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "tpgate"
MODULES = sorted(SRC.rglob("*.py"))
CODE = sorted(
    path
    for folder in (
        "src",
        "tests",
        "perf_tests",
        "benchmarks",
        "tests_kernels",
        "tests_engine",
        "tests_browser",
        "tests_faults",
    )
    for path in (ROOT / folder).rglob("*.py")
)
LAYERS = {
    "errors": 0,
    "units": 0,
    "redaction": 0,
    "specs": 1,
    "catalog": 2,
    "host": 2,
    "server": 2,
    "load": 2,
    "trace": 2,
    "kernels": 2,
    "measure": 3,
    "stats": 4,
    "baseline": 5,
    "report": 6,
    "campaign": 7,
    "selftest": 8,
    "plugin": 9,
    "cli": 9,
}
SIBLINGS = {"host", "server", "load", "trace", "kernels"}
RUNS_ELSEWHERE = {"server/cpu/shim", "server/faults"}
"""Folders whose files run inside the server's process, where SGLang and torch are."""
ONLY_IN = {"pynvml": "host/nvml.py", "torch": "kernels/", "triton": "kernels/"}


def part_of(path: Path) -> str:
    first = path.relative_to(SRC).parts[0]
    return first.removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module == "tpgate":
                found |= {f"tpgate.{alias.name}" for alias in node.names}
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def runs_elsewhere(path: Path) -> bool:
    return any(str(path.relative_to(SRC)).startswith(folder) for folder in RUNS_ELSEWHERE)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path):
    part = part_of(path)
    if part in {"__init__", "__main__"}:
        return
    mine = LAYERS[part]
    for name in imports_of(path):
        if not name.startswith("tpgate.") or name == "tpgate.stats.verdict":
            continue
        other = name.split(".")[1]
        if other not in LAYERS or other == part:
            continue
        assert LAYERS[other] <= mine, f"{name} is above {part}"
        assert not (part in SIBLINGS and other in SIBLINGS), f"{part} and {other} are siblings"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_and_foreign_imports_stay_in_their_place(path):
    if runs_elsewhere(path):
        return
    where = str(path.relative_to(SRC))
    for name in imports_of(path):
        top = name.split(".")[0]
        assert top != "sglang", "SGLang is a subprocess"
        if top in ONLY_IN:
            assert where.startswith(ONLY_IN[top]), f"{top} may be imported only in {ONLY_IN[top]}"


@pytest.mark.parametrize("part", ["stats", "units.py"])
def test_statistics_and_units_do_no_input_or_output(part):
    files = [SRC / part] if part.endswith(".py") else sorted((SRC / part).rglob("*.py"))
    assert files
    for path in files:
        forbidden = imports_of(path) & {"pathlib", "os", "io", "socket", "subprocess", "sqlite3", "json", "tempfile"}
        assert not forbidden, f"{name_of(path)} imports {forbidden}"
        assert "open(" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_no_file_over_300_lines_and_no_function_over_60(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"


def test_plugin_is_cheap_to_load():
    heavy = ["numpy", "scipy", "torch", "triton", "pynvml", "uvloop", "jinja2", "psutil", "sqlite3", "asyncio"]
    program = (
        "import sys, pytest; before = set(sys.modules); import tpgate.plugin, tpgate.plugin.fixtures; "
        f"print(sorted(set({heavy}) & (set(sys.modules) - before)), "
        "sorted(m for m in set(sys.modules) - before if m.startswith('tpgate')))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded, own = answer.split("] [")
    assert loaded.strip("[ \n") == ""
    assert set(own.strip("[]\n' ").replace("'", "").split(", ")) <= {
        "tpgate",
        "tpgate.plugin",
        "tpgate.plugin.fixtures",
        "tpgate.plugin.options",
    }


def test_the_project_speaks_of_itself_alone():
    words = ["/work/", "../shared", "TPGATE_GPU_BOX"]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".ini", ".yml", ".sh", ".txt"} and path != Path(__file__):
            text = path.read_text(encoding="utf-8")
            assert not [word for word in words if word in text], name
