"""The scoreboard: its rules on known numbers, a made-up folder, and the recorded nights where they are at hand."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from scoreboard import events, power, quiet  # noqa: E402
from scoreboard.rules import RULES  # noqa: E402
from scoreboard.series import COLUMNS, Point, load  # noqa: E402
from tpgate.errors import ConfigError  # noqa: E402

TPUT = "output_tokens_per_second"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Seventy nights of one scenario at three concurrencies, quiet to 1 %, halved on four nights in May."""
    home = tmp_path_factory.mktemp("series")
    source = random.Random(5)
    rows = []
    for concurrency, level in ((4, 600.0), (16, 2000.0), (64, 3700.0)):
        for night in range(70):
            day = date(2026, 3, 14) + timedelta(days=night)
            slow = 0.5 if date(2026, 5, 9) <= day <= date(2026, 5, 13) else 1.0
            value = level * slow * (1 + source.gauss(0, 0.008))
            name = f"X|DeepSeek-R1-0528 MTP3|isl1024/osl1024|c{concurrency}|g8|output_tput"
            rows.append([name, f"{day}T22:00:00Z", value, "tok/s", "higher", f"commit{night}", "img=a;rocm=7"])
    with gzip.open(home / "eval_pack.csv.gz", "wt", newline="") as stream:
        csv.writer(stream).writerows([COLUMNS, *rows])
    (home / "labels.json").write_text(json.dumps({"events": []}))
    return home


def test_a_folder_without_the_files_or_with_other_columns_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"eval_pack\.csv\.gz: no such file"):
        load(tmp_path)
    with gzip.open(tmp_path / "eval_pack.csv.gz", "wt") as stream:
        stream.write("a,b\n")
    (tmp_path / "labels.json").write_text("{}")
    with pytest.raises(ConfigError, match="columns"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "newest", "alarm"),
    [
        ("5 % against previous", 1.06, True),
        ("10 % against previous", 1.06, False),
        ("5 % against median of 7", 1.06, True),
        ("5 % over P95 baseline", 1.04, False),
        ("2 SD and 1 % over 7", 1.02, True),
        ("2 SD and 1 % over 7", 1.005, False),
        ("4 robust sigma and 3 %", 1.06, True),
        ("4 robust sigma and 3 %", 1.025, False),
    ],
)
def test_published_rules_on_known_numbers(name, newest, alarm):
    history = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999]
    assert RULES[name](history, newest) is alarm
    assert RULES[name]([], newest) is None


def test_quiet_nights_are_silent_and_broken_ones_red_on_every_night(folder):
    series, _ = load(folder)
    tally = quiet.ours(series, {TPUT})
    assert tally.checks > 90
    assert tally.alarms == 0
    assert sum(tally.launches) / len(tally.launches) < 1.2
    broken = ("2026-05-09", "2026-05-10", "2026-05-12", "2026-05-13")
    nights = events.night_by_night(series, (*broken, "2026-05-15"))
    assert [events.total(nights, day, broken=True).red for day in broken] == [3, 3, 3, 3]
    assert events.total(nights, "2026-05-15", broken=True).red == 0
    assert [events.total(nights, day, broken=True).rules["5 % against previous"] for day in broken] == [3, 0, 0, 0]


def test_an_injected_loss_is_found_and_nothing_injected_is_not(folder):
    series, _ = load(folder)
    common = {"one_cell": False, "draws": 40, "baseline": 12, "tolerance": 0.03}
    assert power.inject(series, 0.0, **common).scenario_rate == 0
    assert power.inject(series, 0.08, **common).scenario_rate == 1
    assert power.inject(series, 0.05, **common).scenario_rate > 0.8


def test_half_the_gpus_is_another_identity(folder):
    assert events.changed_configuration(load(folder)[0]) == "NO BASELINE: gpu_count 8 -> 4"


def test_replays_are_ordered_by_the_start_of_their_runs_and_parted_into_waves():
    started = [(130_000, 3.0), (20_000, 2.0), (10_000, 1.0), (139_000, 4.0)]
    points = [Point("d", f"upload {i}", value, "c", "image", True, run) for i, (run, value) in enumerate(started)]
    assert events.waves(points) == [[1.0, 2.0], [3.0, 4.0]]
    assert events.waves(points, gap=200_000) == [[1.0, 2.0, 3.0, 4.0]]


@pytest.mark.skipif("TPGATE_DATA" not in os.environ, reason="TPGATE_DATA names no folder of recorded nights")
def test_the_recorded_nights_reach_the_goals_that_are_claimed():
    series, _ = load(Path(os.environ["TPGATE_DATA"]) / "nightly-series")
    tally = quiet.ours(series, {TPUT})
    assert tally.noisy_nights <= 0.05
    nights = events.night_by_night(series, ("2026-05-06", "2026-05-09", "2026-05-10", "2026-05-12", "2026-05-13"))
    for day in ("2026-05-09", "2026-05-10", "2026-05-12", "2026-05-13"):
        night = events.total(nights, day, broken=True)
        assert (night.red, night.checks) == (10, 10)
    assert all(events.total(nights, "2026-05-06", broken=kind).environment for kind in (True, False))
    common = {"one_cell": False, "draws": 40, "baseline": 20, "tolerance": 0.03}
    assert power.inject(series, 0.0, **common).check_rate < 0.005
    assert power.inject(series, 0.05, **common).scenario_rate >= 0.80
    assert power.inject(series, 0.08, **common).scenario_rate >= 0.95
    drifting, control = (line for line in events.replay_drift(series) if "within waves" in line)
    assert "a trend, smaller than the bar of 2%" in drifting
    assert control.endswith("steady")
