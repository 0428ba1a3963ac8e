"""Say whether this machine is fit to measure on: GPUs, links, clocks, neighbours, disk, software, leftovers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tpgate.host import doctor, topology
from tpgate.host.doctor import Finding
from tpgate.server import leftovers
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
    unfit = sum(row.state == "unfit" for row in rows)
    unknown = sum(row.state == "unknown" for row in rows)
    answer = f"UNFIT to measure on, for {unfit} reason{'s' if unfit > 1 else ''}" if unfit else "fit to measure on"
    tail = f" ({unknown} not measured)" if unknown else ""
    return "\n".join([*lines, "", f"This machine is {answer}{tail}."]) + "\n"


def _wanted(count: int) -> list[Finding]:
    if count <= 0:
        return []
    present, reason = topology.count_gpus()
    text = f"{present} usable, {count} wanted" + (f" ({reason})" if reason else "")
    return [Finding("GPUs", "wanted", text, "ok" if present >= count else "unfit")]


def _leftovers(*, end: bool) -> list[Finding]:
    """What earlier launches left behind, listed by process id; ended only on request."""
    rows = leftovers.find()
    if not rows:
        return [Finding("leftovers", "processes", "none")]
    advice = "end them: tpgate doctor --end-leftovers"
    if not end:
        return [Finding("leftovers", "process", row.describe(), "unfit", advice) for row in rows]
    staying = leftovers.end(rows)
    found = []
    for row in rows:
        if row in staying:
            text = f"{row.describe()}: still there after SIGKILL"
            found.append(Finding("leftovers", "process", text, "unfit", "it may be stuck in the driver: reboot"))
        else:
            found.append(Finding("leftovers", "process", f"{row.describe()}: ended"))
    return found
