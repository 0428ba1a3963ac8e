"""Judge one stored result or baseline against another, offline, with the verdicts and exit codes of the gate."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import msgspec

from tpgate.baseline.assemble import as_result, assemble
from tpgate.baseline.judge import judge
from tpgate.baseline.reading import load_either
from tpgate.baseline.schema import Baseline
from tpgate.errors import ConfigError
from tpgate.measure.result import Identity, Result
from tpgate.report.terminal import render


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tpgate compare``."""
    add = parser.add_argument
    add("before", type=Path, metavar="A", help="what is compared with: a baseline file, result.json or result folder")
    add("now", type=Path, metavar="B", help="what is judged: a result.json, result folder or baseline file")
    add(
        "--across",
        metavar="FIELD",
        action="append",
        default=[],
        help="compare although this identity field differs, such as engine_version; may be given several times",
    )
    add("--json", action="store_true", help="print the judgement as JSON instead of the table")
    add("-v", "--verbose", action="count", default=0, help="show metrics that are not gated as well")
    add("-q", "--quiet", action="store_true", help="show only what does not pass")


def _without_fields(identity: Identity, fields: frozenset[str]) -> Identity:
    keys = {name: value for name, value in identity.keys.items() if name not in fields}
    moved = {name: value for name, value in identity.keys.items() if name in fields}
    return Identity(keys=keys, notes=identity.notes | moved)


def across(before: Baseline, now: Result, fields: frozenset[str]) -> tuple[Baseline, Result]:
    """Return both sides with ``fields`` moved from the keys, which must match, to the notes, which are shown.

    Raises:
        ConfigError: A field is a key of neither side.
    """
    known = set(before.identity.keys).union(*(launch.identity.keys for launch in now.launches))
    for name in sorted(fields - known):
        raise ConfigError(f"--across {name}: no such identity field", expected=f"one of {', '.join(sorted(known))}")
    launches = tuple(
        msgspec.structs.replace(launch, identity=_without_fields(launch.identity, fields)) for launch in now.launches
    )
    return (
        msgspec.structs.replace(before, identity=_without_fields(before.identity, fields)),
        msgspec.structs.replace(now, launches=launches),
    )


def execute(args: argparse.Namespace) -> int:
    """Run ``tpgate compare`` and return the exit code of the worst verdict."""
    first, second = load_either(args.before), load_either(args.now)
    before = first if isinstance(first, Baseline) else assemble([first], pinned=False)
    now = as_result(second) if isinstance(second, Baseline) else second
    before, now = across(before, now, frozenset(args.across))
    judgement = judge(now, before, path=args.before)
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(judgement), indent=2).decode() + "\n")
    else:
        lines = render(
            judgement,
            color=sys.stdout.isatty(),
            width=shutil.get_terminal_size((120, 40)).columns,
            verbosity=-1 if args.quiet else args.verbose,
        )
        sys.stdout.write("\n".join(lines) + "\n")
    return judgement.verdict.exit_code
