"""Decide what colour a night has, from the files it wrote; write the summary, the annotations and verdict.json.

    verdict.py --night FOLDER [--scenario NAME]... [--summary FILE] [--output FILE]

The exit code comes from the worst verdict of all scenarios, never from text that a tool printed. A night that did not
end, a scenario without a judgement, a result that was cut short or no result at all is no verdict: exit code 6.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tpgate.errors import TpgateError
from tpgate.report.annotations import annotate
from tpgate.report.folder import RESULT_FILE, Stored, read_folder
from tpgate.report.markdown import BUDGET, escape, render_all
from tpgate.stats.verdict import INFRASTRUCTURE_ERROR, Judgement, worst


def read_night(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return night.json and what is wrong with it."""
    try:
        night = json.loads((folder / "night.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, [f"{folder}/night.json is missing: the night never started"]
    except (OSError, ValueError) as error:
        return {}, [f"{folder}/night.json cannot be read: {error}"]
    if not isinstance(night, dict):
        return {}, [f"{folder}/night.json holds no object"]
    if night.get("status") == "finished" and isinstance(night.get("exit_code"), int):
        return night, []
    return night, [f"the night's status is {night.get('status')!r}: it did not run to its end"]


def read_results(folder: Path, expected: list[str]) -> tuple[list[Stored], list[str]]:
    """Return the results below ``folder`` and what is missing or cannot be used."""
    stored, problems = [], []
    for path in sorted(folder.glob(f"*/{RESULT_FILE}")):
        try:
            found = read_folder(path)
        except TpgateError as error:
            problems.append(str(error))
            continue
        stored.append(found)
        name = found.result.scenario
        if found.judgement is None:
            problems.append(f"{name}: measured, but without a verdict (no judgement.json in {path.parent.name})")
        if not found.result.complete:
            problems.append(f"{name}: the result was cut short ({path.parent.name})")
    if not stored:
        problems.append(f"no result lies in {folder}")
    seen = {item.result.scenario for item in stored if item.judgement is not None}
    problems += [f"{name}: expected, and no verdict was given" for name in expected if name not in seen]
    return stored, problems


def decide(judgements: list[Judgement], problems: list[str], exit_code: int | None) -> tuple[str, int]:
    """Return (word, exit code). The worst counts; a failing command stays failing whatever the files say."""
    verdict = worst([judgement.verdict for judgement in judgements]) if judgements else None
    if verdict is not None and not verdict.passes:
        return str(verdict), verdict.exit_code
    if problems or verdict is None:
        return "NO VERDICT", INFRASTRUCTURE_ERROR
    if exit_code != 0:
        return "NO VERDICT", exit_code or INFRASTRUCTURE_ERROR
    return str(verdict), 0


def summary(word: str, judgements: list[Judgement], problems: list[str], night: dict[str, Any]) -> str:
    """Return the step summary, within its budget: which night and commit, what is wrong, and the tables."""
    title = f"# Night {escape(night.get('night', 'unknown'))}: {word}"
    facts = f"commit {escape(night.get('commit') or 'unknown')}, exit code of the command: {night.get('exit_code')}"
    lines = [title, "", facts, "", *(f"- {escape(problem)}" for problem in problems), ""]
    head = "\n".join(lines).encode()[: BUDGET // 4].decode(errors="ignore")
    return head + "\n" + render_all(judgements, budget=BUDGET * 3 // 4 - 100)


def main(words: list[str]) -> int:
    """Decide, say it in every place where people look, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--night", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME")
    parser.add_argument("--summary", type=Path, default=None, metavar="FILE")
    parser.add_argument("--output", type=Path, default=None, metavar="FILE", help="step outputs")
    options = parser.parse_args(words)
    expected = options.scenario + os.environ.get("TPGATE_SCENARIOS", "").split()
    night, problems = read_night(options.night)
    stored, more = read_results(options.night / "results", expected)
    problems += more
    judgements = [item.judgement for item in stored if item.judgement is not None]
    word, code = decide(judgements, problems, night.get("exit_code"))
    for problem in problems[:3]:
        first = " ".join(problem.split())
        sys.stdout.write(f"::error title=no verdict::{first.replace('%', '%25')}\n")
    for line in annotate(judgements, limit=10 - min(len(problems), 3)):
        sys.stdout.write(line + "\n")
    decided = bool(judgements) and word != "NO VERDICT"
    try:
        publish(options, word, code, decided, summary(word, judgements, problems, night))
    except OSError as error:
        sys.stdout.write(f"::error title=verdict not written::{error.filename}: {error.strerror}\n")
        return code or INFRASTRUCTURE_ERROR
    sys.stdout.write(f"{word}, exit code {code}\n")
    return code


def publish(options: argparse.Namespace, word: str, code: int, decided: bool, text: str) -> None:
    """Write summary, verdict.json (only where something was decided) and the step's outputs."""
    if options.summary is not None:
        with options.summary.open("a", encoding="utf-8") as stream:
            stream.write(text)
    if decided:
        part = options.night / ".verdict.json.part"
        part.write_text(json.dumps({"verdict": word, "exit_code": code}) + "\n", encoding="utf-8")
        part.replace(options.night / "verdict.json")
    if options.output is not None:
        with options.output.open("a", encoding="utf-8") as stream:
            stream.write(f"decided={'true' if decided else 'false'}\nverdict={word}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
