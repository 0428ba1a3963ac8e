"""Say whether this machine is fit to measure on: GPUs, links, clocks, neighbours, disk, software, leftovers."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from tpgate.errors import HostError
from tpgate.host import doctor, topology
from tpgate.host.doctor import Finding
from tpgate.stats.verdict import INFRASTRUCTURE_ERROR

_MARKS = {"ok": "ok", "note": "note", "unfit": "UNFIT", "unknown": "?"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tpgate doctor``."""
    add = parser.add_argument
    add("--json", action="store_true", help="print the findings as one JSON document")
    add("--python", default=sys.executable, help="interpreter that has SGLang (default: this one)")
    add(
        "--results",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="where results will be written; its disk is looked at",
    )
    add("--gpus", type=int, default=0, metavar="N", help="unfit with fewer than N usable GPUs")
    add("--no-load", action="store_true", help="copy nothing: the link is read at rest only")
    add(
        "--calibrate",
        action="store_true",
        help="compare PCIe counters with copies of known size each way and keep the measured ceilings",
    )
    add(
        "--end-leftovers",
        action="store_true",
        help="end the processes that earlier launches left behind (without it they are only listed)",
    )


def execute(args: argparse.Namespace) -> int:
    """Print the page, or JSON, and return 0 where the machine is fit, else 6."""
    found = doctor.examine(
        python=args.python, folder=args.results, load_link=not args.no_load, calibration=args.calibrate
    )
    found += _wanted(args.gpus)
    found += _leftovers(end=args.end_leftovers)
    fit = doctor.is_fit(found)
    if args.json:
        document = {"fit": fit, "findings": [asdict(finding) for finding in found]}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        sys.stdout.write(page(found))
    return 0 if fit else INFRASTRUCTURE_ERROR


def page(findings: Iterable[Finding]) -> str:
    """Return the findings as a page of text, one section after the other, with the answer at its end."""
    rows = list(findings)
    lines: list[str] = []
    section = None
    for finding in sorted(rows, key=lambda row: [other.section for other in rows].index(row.section)):
        if finding.section != section:
            lines += ["", finding.section] if lines else [finding.section]
            section = finding.section
        lines.append(f"  {_MARKS[finding.state]:<5}  {finding.name}: {finding.value}")
        if finding.advice:
            lines.append(f"         -> {finding.advice}")
    unfit = [row for row in rows if row.state == "unfit"]
    unknown = sum(row.state == "unknown" for row in rows)
    tail = f"; {unknown} things could not be measured" if unknown else ""
    answer = f"UNFIT to measure on: {len(unfit)} findings" if unfit else "fit to measure on"
    return "\n".join([*lines, "", f"This machine is {answer}{tail}."]) + "\n"


def _wanted(count: int) -> list[Finding]:
    if count <= 0:
        return []
    present, reason = topology.count_gpus()
    text = f"{present} usable, {count} wanted" + (f" ({reason})" if reason else "")
    return [Finding("GPUs", "wanted", text, "ok" if present >= count else "unfit")]


def _leftovers(*, end: bool) -> list[Finding]:
    """What earlier launches left behind, as the server part tells it; ended only on request."""
    module = _server_module()
    if module is None:
        return [Finding("leftovers", "processes", "not measured, because this build has no census", "unknown")]
    rows = list(module.find())
    if not rows:
        return [Finding("leftovers", "processes", "none")]
    found = []
    for row in rows:
        text = str(row.describe() if hasattr(row, "describe") else row)
        if end:
            try:
                module.end(row)
            except HostError as error:
                found.append(Finding("leftovers", "process", f"{text}: {error.what}", "unfit", error.next_step))
                continue
            found.append(Finding("leftovers", "process", f"{text}: ended"))
        else:
            advice = "end it: tpgate doctor --end-leftovers"
            found.append(Finding("leftovers", "process", text, "unfit", advice))
    return found


def _server_module() -> ModuleType | None:
    name = "tpgate.server.leftovers"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
