"""Compare two builds or settings in pairs on this host: base and head are launched in turn, A B B A.

A side is one or more words: NAME=VALUE (a server argument), env:NAME=VALUE (a variable of the server), python:PATH (an
interpreter with SGLang), sglang:VERSION (PATH is ENVIRONMENTS/VERSION/bin/python), fault:NAME (an injected fault of
`tpgate selftest --list`) or a URL of a running server. Exit codes are those of `git bisect run`: 0 good, 1 bad, 125
cannot be told, 129 a wrong option, which ends the bisection.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tpgate import catalog
from tpgate.campaign.paired import Duel, fight
from tpgate.errors import ConfigError, TpgateError
from tpgate.measure.definitions import metric
from tpgate.measure.session import Settings
from tpgate.report.terminal import render
from tpgate.selftest.scenario import find
from tpgate.server.faults.inject import Injection, injection_of
from tpgate.server.faults.table import choose
from tpgate.specs import Scalar, ServerSpec
from tpgate.stats.verdict import Verdict

SKIP = 125
"""Exit code by which `git bisect run` passes a commit over."""
ABORT = 129
"""Exit code by which `git bisect run` ends: every commit would give it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tpgate ab``."""
    setattr(parser, "error", lambda message: _abort(parser, message))  # noqa: B010 - argparse's own hook
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("scenario", metavar="SCENARIO", help="name of a scenario")
    add("--base", metavar="WORD", action="append", default=[], help="what the base is launched with (repeatable)")
    add("--head", metavar="WORD", action="append", default=[], help="what the head is launched with (repeatable)")
    add("--rounds", metavar="N", type=int, default=2, help="rounds of four launches, at most (%(default)s)")
    add("--environments", metavar="DIR", type=Path, default=None, help="one virtual environment a version, by its name")
    add("--scenarios", metavar="FILE", type=Path, default=catalog.DEFAULT_PATH, help="scenario file (%(default)s)")
    add("--cell", metavar="CELL", action="append", default=[], help="drive only this cell (repeatable)")
    add("--results", metavar="DIR", type=Path, default=Path("results"), help="folder for results (%(default)s)")
    add("--server-python", metavar="PATH", default=sys.executable, help="Python that has SGLang (this one)")
    add("--processes", metavar="N", type=int, default=1, help="client processes (%(default)s)")
    add("--no-profile", action="store_true", help="take no traces: nothing is attributed")
    add("-q", "--quiet", action="store_true", help="no progress")
    add("-v", "--verbose", action="count", default=0, help="show where every part of a step went")


def execute(arguments: argparse.Namespace) -> int:
    """Run the duel, print its table and return the exit code for a bisection."""
    try:
        duel = _duel(arguments)
    except ConfigError as error:
        sys.stderr.write(f"tpgate ab: {error}\n")
        return ABORT
    try:
        judgement, folder = fight(duel)
    except TpgateError as error:
        sys.stderr.write(f"tpgate ab: {error}\n")
        return SKIP
    width = shutil.get_terminal_size((110, 24)).columns
    lines = render(judgement, color=sys.stdout.isatty(), width=width, verbosity=max(1, arguments.verbose))
    sys.stdout.write("\n".join([*lines, f"results: {folder}"]) + "\n")
    return exit_code(judgement.verdict)


def exit_code(verdict: Verdict) -> int:
    """Return 0 for what passes, 1 for a regression, 125 for what cannot be told."""
    if verdict.passes:
        return 0
    return 1 if verdict is Verdict.REGRESSED else SKIP


def _abort(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.print_usage(sys.stderr)
    parser.exit(ABORT, f"{parser.prog}: {message}\n")


def _duel(arguments: argparse.Namespace) -> Duel:
    scenario = find(arguments.scenario, arguments.scenarios)
    for name in arguments.cell:
        scenario.cell(name)
    if arguments.rounds < 1:
        raise ConfigError(f"--rounds {arguments.rounds}", expected="1 or more")
    if arguments.no_profile:
        gates = tuple(gate for gate in scenario.gates if metric(gate.metric).source != "trace")
        scenario = replace(scenario, gates=gates, profile_cells=())
    plain = Settings(
        python=arguments.server_python,
        cells=tuple(arguments.cell),
        profile=not arguments.no_profile,
        processes=arguments.processes,
    )
    base, head = (
        side(plain, words, arguments.environments, scenario.server) for words in (arguments.base, arguments.head)
    )
    if base == head and not arguments.base:
        raise ConfigError(
            "--base and --head are the same",
            expected="words that differ, such as --head disable_cuda_graph=true",
            next_step="give both the same words on purpose (--base X --head X) to see what noise looks like",
        )
    return Duel(
        scenario=scenario,
        base=base,
        head=head,
        results=arguments.results,
        rounds=arguments.rounds,
        progress=_silent if arguments.quiet else _say,
    )


def side(
    plain: Settings, words: list[str], environments: Path | None = None, server: ServerSpec | None = None
) -> Settings:
    """Return how one side is launched.

    Args:
        plain: What both sides share.
        words: What this side differs by.
        environments: Folder with one virtual environment a version of SGLang.
        server: The scenario's server, into which a fault is put.

    Raises:
        ConfigError: A word is not understood, or names what does not exist.
    """
    options: dict[str, Scalar] = {}
    variables: dict[str, str] = {}
    made = plain
    for word in words:
        kind, _, rest = word.partition(":")
        name, equals, value = rest.partition("=")
        if kind in ("http", "https"):
            made = replace(made, attach_url=word)
        elif kind == "python":
            made = replace(made, python=_interpreter(Path(rest), word))
        elif kind == "sglang":
            made = replace(made, python=_of_version(rest, environments, word))
        elif kind == "fault" and rest and server is not None:
            injection = _injection(rest, server)
            options |= dict(injection.options)
            variables |= dict(injection.environment)
        elif kind == "env" and equals and name:
            variables[name] = value
        elif "=" in word and word.partition("=")[0].isidentifier():
            name, _, value = word.partition("=")
            options[name] = _scalar(value)
        else:
            raise ConfigError(
                f"side {word!r} is not understood",
                expected="NAME=VALUE, env:NAME=VALUE, python:PATH, sglang:VERSION, fault:NAME or a URL",
            )
    if made.attach_url and (options or variables or made.python != plain.python):
        raise ConfigError(f"side {made.attach_url}: a running server takes no further words", expected="the URL alone")
    return replace(made, extra=tuple(sorted(options.items())), extra_environment=tuple(sorted(variables.items())))


def _injection(name: str, server: ServerSpec) -> Injection:
    """Return what injects the largest size of a fault.

    Raises:
        ConfigError: There is no such fault, or not on this server.
    """
    found = injection_of(choose((name,))[-1], server)
    if found is None:
        raise ConfigError(f"side 'fault:{name}': not possible on this server", expected="another, of --list")
    return found


def _interpreter(path: Path, word: str) -> str:
    if not path.is_file():
        raise ConfigError(f"side {word!r}: {path} does not exist", expected="a Python interpreter that has SGLang")
    return str(path)


def _of_version(version: str, environments: Path | None, word: str) -> str:
    if environments is None:
        raise ConfigError(f"side {word!r}", expected="--environments DIR, which holds one environment a version")
    folder = environments / version
    path = folder / "bin" / "python"
    if not path.is_file():
        raise ConfigError(
            f"side {word!r}: {path} does not exist",
            expected="a virtual environment with that version",
            next_step=f"python -m venv {folder} && {folder}/bin/pip install sglang=={version}",
        )
    return str(path)


def _scalar(text: str) -> Scalar:
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _silent(text: str) -> None:
    """Say nothing."""
