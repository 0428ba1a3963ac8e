"""Write a report of a stored result: for a terminal, a page, or another tool. Works offline and measures nothing."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from tpgate.baseline.reading import load_baseline, write_atomically
from tpgate.errors import ConfigError
from tpgate.report import html, markdown, terminal
from tpgate.report.exports import EXPORTS
from tpgate.report.folder import Bands, Stored, read_folder
from tpgate.report.past import history, past_results
from tpgate.report.rows import worst_first
from tpgate.stats.verdict import Judgement, Verdict

FORMATS = ("terminal", "html", "markdown", *EXPORTS)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tpgate report``."""
    add = parser.add_argument
    add("folder", metavar="RUN_FOLDER", type=Path, help="result folder, which holds result.json")
    add("--format", choices=FORMATS, default="terminal", help="form of the report (%(default)s)")
    add("--output", metavar="FILE", type=Path, default=None, help="file to write (standard output)")
    add("--baselines", metavar="DIR", type=Path, default=None, help="folder of baselines that bands are drawn from")
    add("--history", metavar="DIR", type=Path, default=None, help="folder of past results (the result's neighbours)")
    add("-q", "--quiet", action="store_true", help="terminal: only what does not pass")
    add("-v", "--verbose", action="count", default=0, help="terminal: watched metrics and every reason as well")


def execute(arguments: argparse.Namespace) -> int:
    """Write the report and return 0: a report says what was decided and decides nothing itself."""
    stored = read_folder(arguments.folder)
    text = _text(stored, arguments)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        try:
            write_atomically(arguments.output, text)
        except OSError as error:
            raise ConfigError(
                f"--output {arguments.output}: {error.strerror}", expected="a file that can be written"
            ) from None
    return 0


def _text(stored: Stored, arguments: argparse.Namespace) -> str:
    if arguments.format == "html":
        past = past_results(arguments.history or stored.folder.resolve().parent, stored.result)
        extras = html.Extras(
            bands=_bands(stored, arguments.baselines),
            history=history(past),
            reproduce=_reproduce(stored.judgement) if stored.judgement else None,
        )
        return html.render(stored, extras)
    if arguments.format in EXPORTS:
        return EXPORTS[arguments.format](stored)
    judgement = _judged(stored, arguments.format)
    if arguments.format == "markdown":
        return markdown.render(judgement, reproduce=_reproduce(judgement))
    to_terminal = arguments.output is None and sys.stdout.isatty()
    lines = terminal.render(
        judgement,
        color=to_terminal and not os.environ.get("NO_COLOR"),
        width=shutil.get_terminal_size((100, 24)).columns if to_terminal else 100,
        verbosity=-1 if arguments.quiet else arguments.verbose,
        reproduce=_reproduce(judgement),
    )
    return "\n".join(lines) + "\n"


def _judged(stored: Stored, form: str) -> Judgement:
    if stored.judgement is None:
        raise ConfigError(
            f"{stored.folder}: holds no judgement.json, so there is no verdict to show as {form}",
            expected="a judged result",
            next_step=f"tpgate compare {stored.folder}",
        )
    return stored.judgement


def _reproduce(judgement: Judgement) -> str | None:
    """The command that measures the worst cell again, where something does not pass."""
    if judgement.verdict.passes or not judgement.comparisons:
        return None
    cell = worst_first(judgement.comparisons)[0].cell
    command = f"tpgate run {judgement.scenario}"
    return command if cell == "scenario" else f"{command} --cell {cell}"


def _bands(stored: Stored, folder: Path | None) -> Bands:
    """The baseline's values; none where the result was compared with no baseline, or its file is not at hand."""
    judgement = stored.judgement
    if judgement is None or judgement.baseline_path is None or judgement.verdict is Verdict.NO_BASELINE:
        return {}
    named = Path(judgement.baseline_path)
    path = folder / Path(*named.parts[-2:]) if folder is not None else named
    if not path.exists():
        if folder is not None:
            raise ConfigError(
                f"--baselines {folder}: {path} does not exist", expected="the folder that was judged with"
            )
        return {}
    baseline = load_baseline(path)
    bands: Bands = {}
    for launch in baseline.launches:
        for cell, metrics in launch.values.items():
            for name, value in metrics.items():
                bands.setdefault(cell, {}).setdefault(name, []).append(value)
    return bands
