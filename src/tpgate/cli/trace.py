"""Break down profiler traces: where the time went on every rank, and where the difference between two captures is."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tpgate.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from tpgate.trace.summary import Summary


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER", help="traces of one capture, one a rank"
    )
    parser.add_argument(
        "--tokens-per-step", type=float, metavar="N", help="requests a decode step, where not annotated"
    )
    parser.add_argument("--diff", type=Path, metavar="OTHER", help="file or folder of the capture to compare with")
    parser.add_argument("--taxonomy", type=Path, metavar="FILE", help="rules to put in front of the built-in ones")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="kernels to list (default 15)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def execute(args: argparse.Namespace) -> int:
    """Print the breakdown, or with ``--diff`` the difference from OTHER (before) to the paths (now).

    Raises:
        TraceError: A file is no trace, is cut off, or holds no GPU event.
        ConfigError: A path does not exist, or the rules are wrong.
    """
    import msgspec

    from tpgate.trace.diff import compare
    from tpgate.trace.show import diff_lines, summary_lines

    now = _summary(args.paths, args)
    if args.diff is None:
        plain = msgspec.to_builtins(now)
        lines = summary_lines(now, args.top)
    else:
        before = _summary([args.diff], args)
        diff = compare(before, now)
        plain = {"before": msgspec.to_builtins(before), "now": msgspec.to_builtins(now), "diff": asdict(diff)}
        lines = diff_lines(diff, args.top)
    text = json.dumps(plain, indent=1) if args.json else "\n".join(lines)
    sys.stdout.write(text + "\n")
    return 0


def _summary(paths: list[Path], args: argparse.Namespace) -> Summary:
    from tpgate.trace.reader import read
    from tpgate.trace.summary import summarise
    from tpgate.trace.taxonomy import default, load

    taxonomy = load(args.taxonomy) if args.taxonomy else default()
    traces = [read(path) for path in _files(paths)]
    for trace in traces:
        if not len(trace):
            held = ", ".join(f"{count} {name}" for name, count in sorted(trace.categories.items())) or "no event at all"
            raise TraceError(
                f"{trace.path}: no GPU event; it holds {held}",
                expected="kernels of a GPU; a CPU engine has none",
                next_step="profile with the activity GPU",
            )
        if trace.defects.cut_off:
            sys.stderr.write(f"tpgate trace: warning: {trace.path} is cut off; its end is missing from every figure\n")
    return summarise(traces, taxonomy=taxonomy, batch=args.tokens_per_step, batch_source="--tokens-per-step")


def _files(paths: list[Path]) -> list[Path]:
    from tpgate.trace.reader import trace_files

    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file", expected="a trace file, or a folder of them")
        files = trace_files(path) if path.is_dir() else [path]
        if not files:
            raise ConfigError(f"{path}: no .json or .json.gz file in this folder", expected="one trace a rank")
        found += files
    return found
