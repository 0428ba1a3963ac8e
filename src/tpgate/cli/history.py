"""List measured launches, and test their history for slow drift and changes of level; apart from the gate."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from tpgate.baseline.history import HISTORY_FILE, History, PastLaunch, Point, otava_rows
from tpgate.baseline.reading import load_baseline, load_result
from tpgate.baseline.schema import Baseline
from tpgate.baseline.store import CHECKED_IN, LOCAL, BaselineStore
from tpgate.errors import ConfigError
from tpgate.measure.definitions import metric
from tpgate.stats.drift import Drift, change_points, drift
from tpgate.units import format_change, format_value


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tpgate history``."""
    add = parser.add_argument
    add("scenario", nargs="?", metavar="SCENARIO", help="only this scenario")
    add("--file", type=Path, default=HISTORY_FILE, help="history file (%(default)s)")
    add(
        "--add", type=Path, nargs="+", default=[], metavar="RESULT", help="append results; what is there stays as it is"
    )
    add("--drift", action="store_true", help="test every check for drift; exits 1 where one drifts")
    add("--metric", action="append", default=[], metavar="METRIC", help="only this metric; may be given several times")
    add("--baselines", type=Path, default=CHECKED_IN, help="folder of the pinned baselines (%(default)s)")
    add("--otava", type=Path, metavar="FILE", help="write the series as CSV that Apache Otava imports")


def _list(launches: list[PastLaunch]) -> list[str]:
    lines = [f"{'recorded':20}  {'scenario':22}  {'hardware':18}  {'commit':10}  {'verdict':12}  launch"]
    lines += [
        f"{one.recorded_at[:19]:20}  {one.scenario:22}  {one.hardware:18}  {(one.revision or '—')[:10]:10}  "
        f"{one.verdict or '—':12}  {one.launch_id}"
        for one in launches
    ]
    return [*lines, f"{len(launches)} launches"]


def _pinned(store: BaselineStore, hardware: str, scenario: str) -> Baseline | None:
    paths = (store.path(hardware, scenario, folder) for folder in store.folders)
    return next((load_baseline(path, in_store=True) for path in paths if path.exists()), None)


def _line(name: tuple[str, str], points: list[Point], found: Drift) -> str:
    cell, metric_name = name
    values = [point.value for point in points]
    marks = change_points(values[-200:])
    unit = metric(metric_name).unit
    words = [f"{cell}:{metric_name}", f"last {format_value(values[-1], unit)}"]
    words.append(
        f"level {format_change(found.level)} worse (bar {found.level_bar:.1%})"
        if found.level is not None
        else "level —"
    )
    if found.trend is not None:
        trend = found.trend
        words.append(f"trend {format_change(trend.change)} over {trend.count} (Mann-Kendall z {trend.z:+.1f})")
    words += [f"new level from {points[max(0, len(values) - 200) + index].recorded_at[:10]}" for index in marks]
    return f"{'DRIFT' if found.drifting else 'steady':6}  " + ", ".join(words)


def _drifts(
    history: History, launches: list[PastLaunch], store: BaselineStore, wanted: list[str]
) -> tuple[list[str], bool]:
    """Return (lines, whether anything drifts); a series is one scenario, hardware and identity."""
    lines: list[str] = []
    drifting = False
    for scenario, hardware in sorted({(one.scenario, one.hardware) for one in launches}):
        mine = [one for one in launches if (one.scenario, one.hardware) == (scenario, hardware)]
        baseline = _pinned(store, hardware, scenario)
        lines.append(f"{scenario} on {hardware}, identity {mine[-1].key}")
        gated = {(one.cell, one.metric) for one in baseline.promises} if baseline else set()
        for name, points in history.series(scenario, hardware, mine[-1].key).items():
            if (wanted and name[1] not in wanted) or (not wanted and gated and name not in gated):
                continue
            pinned = baseline.values(*name) if baseline else []
            definition = metric(name[1])
            values = [point.value for point in points]
            found = drift(pinned, values, definition.better, noise_floor=definition.noise_floor)
            drifting = drifting or found.drifting
            lines.append("  " + _line(name, points, found))
    return lines, drifting


def execute(args: argparse.Namespace) -> int:
    """Run ``tpgate history``: 0, or 1 where ``--drift`` finds a drift."""
    history = History(args.file)
    for path in args.add:
        result = load_result(path)
        what = "an experiment, left out" if result.experiment else f"{history.append(result)} new launches"
        sys.stdout.write(f"{result.result_id}: {what}\n")
    if args.add and not (args.drift or args.otava or args.scenario):
        return 0
    for name in args.metric:
        metric(name)
    launches = history.launches(args.scenario)
    if args.scenario and not launches:
        known = ", ".join(sorted({one.scenario for one in history.launches()})) or "none"
        raise ConfigError(f"the history holds no launch of {args.scenario!r}", expected=f"one of {known}")
    if args.otava:
        return _export(history, launches, args.otava)
    if args.drift:
        lines, drifting = _drifts(history, launches, BaselineStore((args.baselines, LOCAL)), args.metric)
        sys.stdout.write("\n".join(lines) + "\n")
        return 1 if drifting else 0
    sys.stdout.write("\n".join(_list(launches)) + "\n")
    return 0


def _export(history: History, launches: list[PastLaunch], path: Path) -> int:
    places = {(one.scenario, one.hardware, one.key) for one in launches}
    if len(places) != 1:
        raise ConfigError(
            f"--otava: {len(places)} series of different scenarios, hardware or identities",
            expected="one",
            next_step="name a scenario",
        )
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(otava_rows(dict(history.series(*places.pop()))))
    sys.stdout.write(f"{path}: written\n")
    return 0
