"""Options of the plugin, turned once into one frozen value."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tpgate.plugin.session import Session

SESSION: pytest.StashKey[Session] = pytest.StashKey()
"""Where the state of a run is kept, once something was asked of this plugin."""


def _launches(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1 <= value <= 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 20")
    return value


def add_options(parser: pytest.Parser) -> None:
    """Add the options of this plugin to pytest's."""
    group = parser.getgroup("tpgate", "performance-regression gate for LLM serving")
    add = group.addoption
    add("--tpgate-scenarios", metavar="FILE", default=None, help="scenario file (default perf_tests/scenarios.py)")
    add(
        "--tpgate-scenario",
        metavar="NAME",
        action="append",
        default=[],
        help="measure only this scenario; may be given several times",
    )
    add("--tpgate-baselines", metavar="DIR", default=None, help="folder of baselines (default baselines/)")
    add("--tpgate-results", metavar="DIR", default=None, help="folder for results (default results/)")
    add("--tpgate-server-python", metavar="PATH", default=None, help="Python that has SGLang (default: this one)")
    add("--tpgate-url", metavar="URL", default=None, help="measure a server that already runs, instead of starting one")
    add(
        "--tpgate-max-launches",
        metavar="N",
        type=_launches,
        default=4,
        help="launches at most where a first one looks suspicious (default %(default)s)",
    )
    add(
        "--tpgate-max-minutes",
        metavar="MIN",
        type=float,
        default=None,
        help="minutes that further launches of a scenario may take (default: no cap)",
    )
    add(
        "--tpgate-record",
        action="store_true",
        default=False,
        help="where this machine has no baseline, first record a provisional one into the local store",
    )
    add("--tpgate-no-profile", action="store_true", default=False, help="take no profiler traces")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one pytest run.

    Attributes:
        scenarios: Scenario file, or None for the default one.
        only: Names of the scenarios to measure; empty means all.
        baselines: Folder of checked-in baselines.
        explicit_baselines: Whether that folder was named on the command line, so that it must exist.
        results: Folder for results.
        python: Interpreter that has SGLang.
        url: Server to attach to, or None.
        max_launches: Launches a scenario at most.
        max_minutes: Minutes that further launches of a scenario may take, or None.
        record: Whether to record a provisional local baseline where there is none.
        profile: Whether to take traces.
    """

    scenarios: Path | None
    only: tuple[str, ...]
    baselines: Path
    explicit_baselines: bool
    results: Path
    python: str
    url: str | None
    max_launches: int
    max_minutes: float | None
    record: bool
    profile: bool

    def header(self) -> list[str]:
        """Return the lines for pytest's header; none where nothing was asked of this plugin."""
        if not (self.scenarios or self.explicit_baselines or self.url or self.only):
            return []
        target = f"attached to {self.url}" if self.url else f"server python {self.python}"
        return [f"tpgate: baselines {self.baselines}, results {self.results}, {target}"]


def settings_of(config: pytest.Config) -> Settings:
    """Return the options of this run; relative folders are relative to pytest's root folder."""
    root = config.rootpath
    option = config.getoption
    scenarios = option("--tpgate-scenarios")
    baselines = option("--tpgate-baselines")
    return Settings(
        scenarios=Path(scenarios) if scenarios else None,
        only=tuple(option("--tpgate-scenario")),
        baselines=Path(baselines) if baselines else root / "baselines",
        explicit_baselines=baselines is not None,
        results=Path(option("--tpgate-results") or root / "results"),
        python=option("--tpgate-server-python") or sys.executable,
        url=option("--tpgate-url"),
        max_launches=option("--tpgate-max-launches"),
        max_minutes=option("--tpgate-max-minutes"),
        record=option("--tpgate-record"),
        profile=not option("--tpgate-no-profile"),
    )
