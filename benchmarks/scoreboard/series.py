"""Recorded series: reading them, and taking their known steps out so that what is left is noise by construction."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tpgate.errors import ConfigError
from tpgate.stats.drift import change_points

COLUMNS = ("series", "timestamp", "value", "unit", "better", "commit", "env")
METRICS = {"output_tput": "output_tokens_per_second", "mean_ttft": "ttft_p50", "mean_tpot": "tpot_p50"}
"""Metric of the series to the metric of ours that is gated in its place."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one night; ``replay`` marks old commits that were measured again later, ``run`` counts CI runs."""

    day: str
    stamp: str
    value: float
    commit: str
    image: str
    replay: bool = False
    run: int = 0


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one cell; ``scenario`` is model and lengths, ``cell`` the concurrency."""

    scenario: str
    cell: str
    gpus: str
    metric: str
    points: tuple[Point, ...]

    @property
    def nights(self) -> dict[str, Point]:
        """The last point of every day, replays of old commits left out."""
        return {point.day: point for point in self.points if not point.replay}


def _files(folder: Path) -> tuple[Path, Path]:
    pack, labels = folder / "eval_pack.csv.gz", folder / "labels.json"
    for path in (pack, labels):
        if not path.is_file():
            raise ConfigError(f"{path}: no such file", expected="a folder with eval_pack.csv.gz and labels.json")
    return pack, labels


def _parts(env: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in env.split(";") if "=" in part)


def _image(env: str) -> str:
    return f"{_parts(env).get('img', '')} {_parts(env).get('rocm', '')}".strip()


def load(folder: Path) -> tuple[list[Series], list[dict]]:
    """Return the serving series that carry a scenario and a cell in their names, and the labelled events."""
    pack, labels = _files(folder)
    points: dict[str, list[Point]] = defaultdict(list)
    with gzip.open(pack, "rt", encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ConfigError(f"{pack}: columns {reader.fieldnames}", expected=", ".join(COLUMNS))
        latest: dict[str, str] = {}
        for row in reader:
            # nights stand in order of time; what is appended after them replays older commits
            name, stamp = row["series"], row["timestamp"]
            replay = stamp < latest.get(name, "")
            if not replay:
                latest[name] = stamp
            points[name].append(
                Point(
                    stamp[:10],
                    stamp,
                    float(row["value"]),
                    row["commit"],
                    _image(row["env"]),
                    replay,
                    int(_parts(row["env"]).get("run") or 0),
                )
            )
    found = []
    for name, values in points.items():
        parts = name.split("|")
        if len(parts) == 6 and parts[5] in METRICS:
            scenario = f"{parts[1]} {parts[2]}"
            found.append(Series(scenario, parts[3], parts[4], METRICS[parts[5]], tuple(values)))
    return found, json.loads(labels.read_text(encoding="utf-8"))["events"]


def residuals(series: Series) -> dict[str, float]:
    """Return night to log(value / level of its segment); levels from change-point detection, three nights at least."""
    nights = series.nights
    days = sorted(nights)
    values = [nights[day].value for day in days]
    bounds = [0, *change_points(values), len(values)]
    found: dict[str, float] = {}
    for start, end in pairwise(bounds):
        level = sorted(values[start:end])[(end - start) // 2]
        for day, value in zip(days[start:end], values[start:end], strict=True):
            found[day] = math.log(value / level)
    return found
