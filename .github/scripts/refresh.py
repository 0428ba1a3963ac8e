"""Measure a scenario several times, take the launches into its baseline, and write what a pull request needs.

    refresh.py --results DIR --output DIR     with TPGATE_SCENARIO, TPGATE_LAUNCHES, TPGATE_REASON, TPGATE_ACCEPT

The baseline is changed in the working tree and copied to OUTPUT with the body of the pull request; nothing is pushed
from the measuring machine. TPGATE_ACCEPT holds one ``CELL:METRIC`` a line whose worse value is taken in for
TPGATE_REASON. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

INFRASTRUCTURE, USAGE = 6, 2
MEASURED = (0, 1, 4, 5)
"""Exit codes of a run that measured: whether it was better, worse or new is what the refresh is about."""
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
CHECK = re.compile(r"[a-z0-9.-]+:[a-z0-9_]+")


def tpgate(*words: str) -> list[str]:
    """Return a tpgate command, in this interpreter."""
    return [*os.environ.get("TPGATE_COMMAND", f"{sys.executable} -m tpgate").split(), *words]


def measure(scenario: str, launches: int, results: Path) -> int:
    """Measure once a launch; return 0, or the first exit code that is no measurement."""
    python = os.environ.get("TPGATE_SERVER_PYTHON")
    for number in range(launches):
        sys.stdout.write(f"launch {number + 1} of {launches}\n")
        sys.stdout.flush()
        words = ["run", scenario, "--results", str(results), "--max-launches", "1"]
        code = subprocess.run(tpgate(*words, *(["--server-python", python] if python else [])), check=False).returncode
        if code not in MEASURED:
            sys.stdout.write(f"::error title=refresh::launch {number + 1} ended with {code}: nothing is taken in\n")
            return code if code > 0 else INFRASTRUCTURE
    return 0


def body(scenario: str, reason: str, table: str) -> str:
    """Return the body of the pull request: why, the table of changes, and what a reviewer looks at."""
    source = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}"
    known = {name: os.environ.get(name, "") for name in re.findall(r"\{(\w+)\}", source)}
    link = source.format(**known) if all(known.values()) else "not known"
    quoted = "\n".join(f"> {line}" for line in reason.splitlines())
    return (
        f"New baseline of `{scenario}`.\n\nWhy:\n\n{quoted}\n\n{table.strip()}\n\n"
        f"Measured by {link}, commit {os.environ.get('GITHUB_SHA', 'not known')}.\n\n"
        "Before it is merged: is every worse value explained, is the environment the one that nights run on, and do "
        "the checks of this pull request run? (They do not where it was opened with the workflow's own token.)\n"
    )


def collect(output: Path, scenario: str, reason: str, table: str) -> int:
    """Copy the changed baselines to ``output``; a refresh that changed nothing, or anything else, is an error."""
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "--", "baselines"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    paths = [Path(line[3:]) for line in changed]
    bad = [path for path in paths if path.suffix != ".json"]
    if not paths or bad:
        sys.stdout.write(
            f"::error title=refresh::changed files are {[str(path) for path in paths]}, baselines expected\n"
        )
        return INFRASTRUCTURE
    for path in paths:
        target = output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (output / "body.md").write_text(body(scenario, reason, table), encoding="utf-8")
    return 0


def main(words: list[str]) -> int:
    """Measure, refresh, collect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(words)
    scenario = os.environ.get("TPGATE_SCENARIO", "")
    reason = os.environ.get("TPGATE_REASON", "").strip()
    launches = os.environ.get("TPGATE_LAUNCHES", "")
    accepted = os.environ.get("TPGATE_ACCEPT", "").split()
    if not NAME.fullmatch(scenario) or not launches.isdigit() or not 1 <= int(launches) <= 20 or len(reason) < 10:
        sys.stdout.write("::error title=refresh::scenario, launches (1 to 20) and a reason of a sentence are needed\n")
        return USAGE
    if not all(CHECK.fullmatch(name) for name in accepted):
        sys.stdout.write("::error title=refresh::accept holds something else than CELL:METRIC\n")
        return USAGE
    code = measure(scenario, int(launches), options.results)
    if code:
        return code
    folders = sorted(str(path.parent) for path in options.results.glob("*/result.json"))
    more = [word for name in accepted for word in ("--accept-regression", name, reason)]
    who = ["--who", os.environ["GITHUB_ACTOR"]] if os.environ.get("GITHUB_ACTOR") else []
    made = subprocess.run(
        tpgate("refresh", *folders, *more, *who, "--yes"), check=False, stdout=subprocess.PIPE, text=True
    )
    sys.stdout.write(made.stdout)
    return made.returncode or collect(options.output, scenario, reason, made.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
