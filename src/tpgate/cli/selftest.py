"""Inject faults into a server and demand that the gate turns red, and only then."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tpgate import catalog
from tpgate.errors import ConfigError
from tpgate.selftest.run import Plan, Report, run, selected
from tpgate.selftest.scenario import BUILT_IN, STANDIN, find
from tpgate.selftest.table import detection_table, gate_lines, silence_lines, sweep_lines
from tpgate.server.faults.table import choose

FAILED = 1
"""Exit code of a self-test in which anything was not as it must be."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tpgate selftest``."""
    add = parser.add_argument
    names = ", ".join(BUILT_IN)
    add("scenario", metavar="SCENARIO", nargs="?", default=STANDIN.name, help=f"{names}, or one of the scenario file")
    add("--scenarios", metavar="FILE", type=Path, default=catalog.DEFAULT_PATH, help="scenario file (%(default)s)")
    add("--fault", metavar="NAME", action="append", default=[], help="only this fault (NAME or NAME:SIZE); repeatable")
    add("--quick", action="store_true", help="one size a fault, none that waits for a deadline, one launch each")
    add("--list", action="store_true", help="list the faults and what must catch them, and stop")
    add("--results", metavar="DIR", type=Path, default=None, help="keep the results there (else they are dropped)")
    add("--server-python", metavar="PATH", default=sys.executable, help="Python that has SGLang (this one)")
    add("--silent-launches", metavar="N", type=int, default=3, help="launches without a fault (%(default)s)")
    add("--max-launches", metavar="N", type=int, default=None, help="launches a fault, at most (4; 1 with --quick)")
    add("--processes", metavar="N", type=int, default=1, help="client processes (%(default)s)")
    add("--no-profile", action="store_true", help="take no traces: nothing is attributed")
    add("-q", "--quiet", action="store_true", help="only the table at the end")


def execute(arguments: argparse.Namespace) -> int:
    """Run the self-test, print the detection table and return 0 only if everything was as it must be."""
    cases = selected(choose(tuple(arguments.fault)), quick=arguments.quick)
    if arguments.list:
        for case in cases:
            caught = " or ".join(case.caught_by[:3]) or "—"
            sys.stdout.write(f"{case.name:32} {case.expected:12} {case.category or '—':14} {caught}\n")
        return 0
    most = arguments.max_launches if arguments.max_launches is not None else 1 if arguments.quick else 4
    for name, count in (("--silent-launches", arguments.silent_launches), ("--max-launches", most)):
        if count < 1:
            raise ConfigError(f"{name} {count}", expected="1 or more")
    with tempfile.TemporaryDirectory(prefix="tpgate-selftest-") as scratch:
        plan = Plan(
            scenario=find(arguments.scenario, arguments.scenarios),
            cases=cases,
            results=(arguments.results or Path(scratch)) / "results",
            python=arguments.server_python,
            silent_launches=arguments.silent_launches,
            max_launches=most,
            profile=not arguments.no_profile,
            processes=arguments.processes,
            demand_every_gate=not arguments.fault and not arguments.no_profile,
        )
        report = run(plan, _silent if arguments.quiet else _say, _silent if arguments.quiet else _note)
    return _finish(report)


def _finish(report: Report) -> int:
    lines = ["", *detection_table(report.rows), "", *silence_lines(report.silence), *sweep_lines(report.probes)]
    lines += gate_lines(report.silent)
    if report.left_out:
        lines.append(f"not possible on this server: {', '.join(report.left_out)}")
    if report.repeated:
        lines.append(f"{report.repeated} measurement(s) were repeated because other work disturbed the client")
    wrong = sum(not row.ok for row in report.rows)
    lines.append(f"{len(report.rows) - wrong} of {len(report.rows)} faults were seen as they must be")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if report.ok else FAILED


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _silent(text: str) -> None:
    """Say nothing."""
