"""Measure a scenario and judge it against its baseline, without pytest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tpgate import catalog
from tpgate.campaign import Campaign, Outcome, measure
from tpgate.errors import ConfigError
from tpgate.host.revision import revision
from tpgate.report.terminal import render
from tpgate.specs import Scalar


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tpgate run``."""
    add = parser.add_argument
    add("scenario", metavar="SCENARIO", help="name of a scenario")
    add("--scenarios", metavar="FILE", type=Path, default=catalog.DEFAULT_PATH, help="scenario file (%(default)s)")
    add("--baselines", metavar="DIR", type=Path, default=None, help="folder of baselines (baselines)")
    add("--results", metavar="DIR", type=Path, default=Path("results"), help="folder for results (%(default)s)")
    add("--server-python", metavar="PATH", default=sys.executable, help="Python that has SGLang (this one)")
    add("--url", metavar="URL", default=None, help="measure a server that already runs")
    add("--cell", metavar="CELL", action="append", default=[], help="drive only this cell; may be given several times")
    add("--max-launches", metavar="N", type=int, default=4, help="launches at most on suspicion (%(default)s)")
    add(
        "--max-minutes", metavar="MIN", type=float, default=None, help="minutes that further launches may take (no cap)"
    )
    add("--processes", metavar="N", type=int, default=1, help="client processes (%(default)s)")
    add("--record", action="store_true", help="where there is no baseline, first record a provisional local one")
    add("--no-profile", action="store_true", help="take no profiler traces")
    add(
        "--server-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="server argument on top of the scenario's, such as disable_cuda_graph=true; it is an experiment: the "
        "result is judged against the scenario's own baseline and can never be taken into one",
    )
    add("-q", "--quiet", action="store_true", help="no progress")
    add("-v", "--verbose", action="count", default=0, help="show metrics that are not gated as well")


def execute(arguments: argparse.Namespace) -> int:
    """Measure, print the table, and return the exit code of the worst verdict."""
    scenarios = catalog.load(arguments.scenarios)
    scenario = catalog.find(scenarios, arguments.scenario, arguments.scenarios)
    for name in arguments.cell:
        scenario.cell(name)
    if arguments.max_launches < 1:
        raise ConfigError(f"--max-launches {arguments.max_launches}", expected="1 or more")
    baselines = arguments.baselines
    if baselines is not None and not baselines.is_dir():
        raise ConfigError(
            f"--baselines {baselines}: no such folder", expected="a folder", next_step="create it, or mend the name"
        )
    campaign = Campaign(
        scenario=scenario,
        results=arguments.results,
        baselines=baselines or Path("baselines"),
        python=arguments.server_python,
        progress=_silent if arguments.quiet else _say,
        cells=tuple(arguments.cell),
        attach_url=arguments.url,
        max_launches=arguments.max_launches,
        max_minutes=arguments.max_minutes,
        record=arguments.record,
        profile=not arguments.no_profile,
        processes=arguments.processes,
        commit=revision(Path.cwd()),
        extra=tuple(sorted(_option(text) for text in arguments.server_option)),
    )
    outcome = measure(campaign)
    _write(outcome, -1 if arguments.quiet else arguments.verbose)
    return outcome.judgement.verdict.exit_code


def _write(outcome: Outcome, verbosity: int) -> None:
    lines = render(
        outcome.judgement,
        color=sys.stdout.isatty(),
        width=_width(),
        verbosity=verbosity,
        reproduce=outcome.reproduce,
    )
    for line in (*lines, *outcome.notes, f"results: {outcome.folder}"):
        sys.stdout.write(f"{line}\n")


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((110, 24)).columns


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _silent(text: str) -> None:
    """Say nothing."""


def _option(text: str) -> tuple[str, Scalar]:
    name, sep, value = text.partition("=")
    if not sep or not name.isidentifier():
        raise ConfigError(f"--server-option {text!r}", expected="NAME=VALUE, such as disable_cuda_graph=true")
    if value in {"true", "false"}:
        return name, value == "true"
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value
