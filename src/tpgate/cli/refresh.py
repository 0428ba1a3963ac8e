"""Take measured launches into a baseline, show what changes (worst first), and write it only when told to."""

from __future__ import annotations

import argparse
import getpass
import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec

from tpgate import catalog
from tpgate.baseline.diff import table
from tpgate.baseline.key import hardware_of
from tpgate.baseline.reading import load_baseline, load_result
from tpgate.baseline.refresh import Plan, plan
from tpgate.baseline.schema import Baseline
from tpgate.baseline.store import CHECKED_IN, BaselineStore, locked
from tpgate.errors import ConfigError
from tpgate.measure.promises import promises
from tpgate.measure.result import Result
from tpgate.stats.verdict import Verdict


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tpgate refresh``."""
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT", help="result folder or result.json")
    parser.add_argument("--baselines", type=Path, default=CHECKED_IN, help="folder of baselines (default: baselines)")
    parser.add_argument(
        "--accept-regression",
        nargs=2,
        action="append",
        default=[],
        metavar=("CELL:METRIC", "REASON"),
        help="take in this worse value; the reason is stored with who and when",
    )
    parser.add_argument("--who", default=None, help="who accepts (default: the user's name)")
    parser.add_argument(
        "--scenarios",
        type=Path,
        default=None,
        metavar="FILE",
        help="take the promises from this file instead of the results: gates changed since, nothing that was measured",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--yes", action="store_true", help="write the baseline")
    group.add_argument("--dry-run", action="store_true", help="only show what would change (the default)")


def _reasons(rows: list[list[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, reason in rows:
        cell, colon, metric_name = name.partition(":")
        if not (cell and colon and metric_name):
            raise ConfigError(f"--accept-regression {name!r}", expected='CELL:METRIC "reason", such as c64:ttft_p50')
        if name in found:
            raise ConfigError(f"--accept-regression {name} is given twice", expected="one reason a check")
        found[name] = reason
    return found


def with_promises(results: list[Result], path: Path) -> list[Result]:
    """Return results with the gates that their scenario has in ``path`` now.

    Raises:
        ConfigError: The file has no such scenario, or it drives another model, server or load now.
    """
    known = catalog.load(path)
    changed = []
    for result in results:
        scenario = catalog.find(known, result.scenario, path)
        if scenario.digest() != result.scenario_digest:
            raise ConfigError(
                f"{path}: {result.scenario} has the digest {scenario.digest()}, {result.result_id} was measured with "
                f"{result.scenario_digest}",
                expected="the same model, server options and loads",
                next_step="measure it again",
            )
        changed.append(msgspec.structs.replace(result, gates=promises(scenario)))
    return changed


def _control_hint(old: Baseline, results: list[Path]) -> str:
    commit = next((one.commit for one in reversed(old.launches) if one.commit), None)
    where = f"at commit {commit}" if commit else "with the version of the old baseline"
    return (
        f"control: before a worse value is accepted, measure the old version again {where} on this host "
        f"(tpgate run {old.scenario}) and compare: tpgate compare CONTROL {results[-1]}. If the control is as slow, "
        "the host or image changed and not the code."
    )


def _show(made: Plan, path: Path) -> None:
    kind = "added to the stored ones" if made.merged else "as the whole content"
    lines = [
        f"### Baseline {made.baseline.hardware}/{made.baseline.scenario}",
        "",
        f"`{path}`: {len(made.baseline.launches)} launches on {made.baseline.days} day(s), the new ones {kind}.",
        "",
        *table(made.changes, made.accepted),
        "",
        *(f"- {note}" for note in made.notes),
    ]
    lines += [
        f"- accepted worse: {one.cell}:{one.metric} by {one.who} on {one.when}: {one.reason}"
        for one in made.baseline.accepted
        if f"{one.cell}:{one.metric}" in made.accepted
    ]
    sys.stdout.write("\n".join(lines).rstrip() + "\n")


def execute(args: argparse.Namespace) -> int:
    """Run ``tpgate refresh``: 0 when written or shown, 1 when a worse value lacks a reason, 2 on bad input."""
    results = [load_result(path) for path in args.results]
    if args.scenarios is not None:
        results = with_promises(results, args.scenarios)
    reasons = _reasons(args.accept_regression)
    store = BaselineStore((args.baselines,))
    identity = results[0].launches[0].identity
    path = store.path(hardware_of(identity), results[0].scenario)
    with locked(path) if args.yes else nullcontext():
        return _refresh(args, results, reasons, store, path)


def _refresh(
    args: argparse.Namespace, results: list[Result], reasons: dict[str, str], store: BaselineStore, path: Path
) -> int:
    old = load_baseline(path, in_store=True) if path.exists() else None
    made = plan(old, results, reasons=reasons, who=args.who or getpass.getuser())
    _show(made, path)
    if (made.unexplained or made.accepted) and old is not None:
        sys.stdout.write(f"\n{_control_hint(old, args.results)}\n")
    if made.unexplained:
        names = ", ".join(one.name for one in made.unexplained)
        example = made.unexplained[0].name
        sys.stderr.write(
            f"refused: worse without a reason: {names}\n"
            f'  next: mend it, or accept each one: --accept-regression {example} "what made it worse, with a link"\n'
        )
        return Verdict.REGRESSED.exit_code
    if not args.yes:
        sys.stdout.write("\nnothing was written: add --yes\n")
        return 0
    sys.stdout.write(f"\nwritten: {store.write(made.baseline)}\n")
    return 0
