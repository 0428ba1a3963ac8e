"""Replay a folder of recorded nightly series through our gate and through the published rules, and print the score.

    python benchmarks/gate_scoreboard.py FOLDER [--draws N]

FOLDER holds eval_pack.csv.gz (series,timestamp,value,unit,better,commit,env) and labels.json. Everything is drawn from
fixed seeds: the same folder gives the same table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from scoreboard import events, power, quiet
from scoreboard.ours import TOLERANCES
from scoreboard.rules import RULES
from scoreboard.series import load
from tpgate.errors import TpgateError

NAMES = {"output_tokens_per_second": "tok/s", "tpot_p50": "TPOT", "ttft_p50": "TTFT"}
NIGHTS = (
    "2026-05-05",
    "2026-05-06",
    "2026-05-08",
    "2026-05-09",
    "2026-05-10",
    "2026-05-12",
    "2026-05-13",
    "2026-05-14",
)
CASES = ((False, 0.0), (False, 0.05), (False, 0.08), (False, 0.1), (True, 0.05), (True, 0.08), (True, 0.1))
"""(one cell or all, loss) of the power table."""


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")


def false_alarms(series) -> None:
    say(f"## False alarms, quiet window {quiet.START} to {quiet.END}, steps taken out")
    say("| gate | metric | checks | false alarms a check | nights with any | INCONCLUSIVE | launches |")
    say("|---|---|---:|---:|---:|---:|---:|")
    for metric, name in NAMES.items():
        rows = {
            "**ours**": quiet.ours(series, {metric}),
            "ours, every cell a scenario of its own": quiet.each_alone(series, {metric}),
            "ours, one launch only": quiet.ours(series, {metric}, most=1),
        }
        for title, found in rows.items():
            spent = sum(found.launches) / len(found.launches)
            nights = f"{found.noisy_nights:.0%} of {len(found.judged)}"
            unsure = f"{found.unsure / found.checks:.0%}"
            say(f"| {title} | {name} | {found.checks} | {found.rate:.2%} | {nights} | {unsure} | {spent:.2f} |")
        for rule, found in quiet.published(series, metric).items():
            nights = f"{found.noisy_nights:.0%} of {len(found.judged)}"
            say(f"| {rule} | {name} | {found.checks} | {found.rate:.2%} | {nights} | | 1 |")
    say()


def labelled(series) -> None:
    nights = events.night_by_night(series, NIGHTS)
    say(f"## Labelled events: throughput checks red, night by night (baseline pinned before {events.PINNED_UNTIL})")
    for broken, title in ((True, f"{events.BROKEN} (broken 05-09 to 05-13, E2)"), (False, "all other configurations")):
        say(f"\n{title}\n")
        say("| gate | " + " | ".join(day[5:] for day in NIGHTS) + " |")
        say("|---|" + "---:|" * len(NIGHTS))
        totals = [events.total(nights, day, broken=broken) for day in NIGHTS]
        say("| **ours** | " + " | ".join(f"{one.red}/{one.checks}" for one in totals) + " |")
        say("| ours, INCONCLUSIVE | " + " | ".join(str(one.unsure) for one in totals) + " |")
        spent = (f"{one.launches / max(1, one.scenarios):.1f}" for one in totals)
        say("| ours, launches a scenario | " + " | ".join(spent) + " |")
        say("| ours, environment named | " + " | ".join(f"{one.environment}/{one.scenarios}" for one in totals) + " |")
        for rule in RULES:
            say(f"| {rule} | " + " | ".join(str(one.rules[rule]) for one in totals) + " |")
    change = events.median_change(series, "2026-05-03", "2026-05-06")
    say(f"\nE1: median change of all throughput series from 05-03 to 05-06: {change:+.0%}")
    for line in events.replay_drift(series):
        say(f"E3: {line}")
    say(f"E4 (its series are not in the pack; 8 GPUs became 4, -24 %): {events.changed_configuration(series)}\n")


def injected(series, draws: int) -> None:
    say("## Injected loss of throughput, on the noise of the quiet nights")
    wanted, accepted = TOLERANCES[power.METRIC]
    say(f"Tolerance {wanted:.0%} wanted, widened by a cell's spread up to {accepted:.0%}.\n")
    say("| baseline | slowed down | loss | scenario red | check red | check INCONCLUSIVE | launches |")
    say("|---:|---|---:|---:|---:|---:|---:|")
    for count in (12, 20):
        for one_cell, loss in CASES:
            found = power.inject(
                series, loss, one_cell=one_cell, draws=draws, baseline=count, tolerance=TOLERANCES[power.METRIC][0]
            )
            where = "one cell" if one_cell else "all cells" if loss else "nothing"
            say(
                f"| {count} | {where} | {loss:.0%} | {found.scenario_rate:.1%} | {found.check_rate:.2%} "
                f"| {found.unsure / found.injected_checks:.0%} | {found.launches / found.draws:.2f} |"
            )
    say()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with eval_pack.csv.gz and labels.json")
    parser.add_argument("--draws", type=int, default=100, help="draws a scenario and line of the power table")
    args = parser.parse_args()
    started = time.monotonic()
    try:
        series, labels = load(args.folder)
    except TpgateError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    say(f"{len(series)} series, {sum(len(one.points) for one in series)} points, {len(labels)} labelled events\n")
    false_alarms(series)
    labelled(series)
    injected(series, args.draws)
    say(f"{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
