"""The ``tpgate`` command: one module a subcommand, imported only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from tpgate import __version__
from tpgate.errors import BaselineError, ConfigError, TpgateError
from tpgate.stats.verdict import INFRASTRUCTURE_ERROR, USAGE_ERROR

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

COMMANDS: dict[str, str] = {
    "doctor": "say whether this machine is fit to measure on",
    "run": "measure a scenario and judge it, without pytest",
    "compare": "judge a stored result against a baseline or another result",
    "refresh": "take measured launches into a baseline",
    "report": "write a report of a stored result",
    "trace": "break down a profiler trace",
    "ab": "compare two builds or settings in pairs on this host",
    "history": "list past results and test them for drift",
    "selftest": "inject faults and demand that the gate turns red",
}
"""Subcommand to its one-line help. Module ``tpgate.cli.<name>`` has ``configure(parser)`` and ``execute(args)``."""


def _overview() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tpgate",
        description="A performance-regression gate for tensor-parallel LLM serving with SGLang.",
        epilog="exit codes: 0 OK or IMPROVED, 1 REGRESSED, 2 usage, 3 VOID, 4 NO BASELINE, 5 INCONCLUSIVE, 6 the "
        "server, host or tool broke",
    )
    parser.add_argument("--version", action="version", version=f"tpgate {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    return parser


def _executed(module: ModuleType, arguments: argparse.Namespace) -> int:
    """Run a subcommand; a reader that went away (``| head``) is no error of the command."""
    try:
        code = int(module.execute(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INFRASTRUCTURE_ERROR
    return code


def _write_anything() -> None:
    """Let output that the terminal's encoding cannot show be shown in part, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (see the epilog of ``tpgate --help``)."""
    _write_anything()
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in COMMANDS:
        _overview().parse_args(words or ["--help"])
        return USAGE_ERROR
    name = words[0]
    module = importlib.import_module(f"tpgate.cli.{name}")
    parser = argparse.ArgumentParser(prog=f"tpgate {name}", description=module.__doc__)
    module.configure(parser)
    arguments = parser.parse_args(words[1:])
    try:
        return _executed(module, arguments)
    except KeyboardInterrupt:
        sys.stderr.write(f"tpgate {name}: interrupted; what was measured so far is kept in the result folder\n")
        return INTERRUPTED
    except (ConfigError, BaselineError) as error:
        sys.stderr.write(f"tpgate {name}: {error}\n")
        return USAGE_ERROR
    except TpgateError as error:
        sys.stderr.write(f"tpgate {name}: {error}\n")
        return INFRASTRUCTURE_ERROR
    except OSError as error:
        sys.stderr.write(f"tpgate {name}: {error}\n  next: see that there is room, and the right to write\n")
        return INFRASTRUCTURE_ERROR
