"""What one pytest run has measured; kept in the config's stash, never in a module."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import pytest

from tpgate import catalog
from tpgate.campaign import Campaign, Outcome, measure
from tpgate.errors import ConfigError, TpgateError
from tpgate.host.revision import revision
from tpgate.plugin.options import SESSION, Settings, settings_of
from tpgate.specs import Scenario


@dataclass
class Session:
    """The scenarios of one pytest run, what was selected of them, and what came out.

    Attributes:
        config: pytest's configuration.
        settings: The options.
        selected: Scenario name to the cells that selected tests need.
        outcomes: Scenario name to what was measured and judged.
        errors: Scenario name to the error that kept it from being measured.
        worker: Whether this is a worker of pytest-xdist, in which nothing is measured.
    """

    config: pytest.Config
    settings: Settings
    selected: dict[str, dict[str, None]] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    errors: dict[str, TpgateError] = field(default_factory=dict)
    worker: bool = False

    @cached_property
    def scenarios(self) -> Mapping[str, Scenario]:
        """The scenarios of this run, by name.

        Raises:
            ConfigError: The scenario file, or a name that was asked for, does not exist.
        """
        path = self.settings.scenarios or self.config.rootpath / catalog.DEFAULT_PATH
        known = catalog.load(path)
        if not self.settings.only:
            return known
        return {name: catalog.find(known, name, path) for name in self.settings.only}

    def outcome(self, scenario: Scenario) -> Outcome:
        """Measure and judge a scenario once, and return the outcome from then on.

        Raises:
            TpgateError: It could not be measured; the same error every time.
        """
        name = scenario.name
        if self.worker:
            raise ConfigError(
                f"{name}: tests that take 'serving' measure one server on the whole machine and cannot be spread over "
                "workers",
                expected="pytest without -n",
                next_step="leave -n out, or add -p no:xdist",
            )
        if name in self.errors:
            raise self.errors[name]
        if name not in self.outcomes:
            try:
                self.outcomes[name] = measure(self._campaign(scenario))
            except TpgateError as error:
                self.errors[name] = error
                raise
        return self.outcomes[name]

    def _campaign(self, scenario: Scenario) -> Campaign:
        cells = self.selected.get(scenario.name, {})
        needed = [load.cell for load in scenario.cells if load.cell in cells]
        whole = len(needed) == len(scenario.cells) or len(needed) < len(cells)
        return Campaign(
            scenario=scenario,
            results=self.settings.results,
            baselines=self.settings.baselines,
            cells=() if whole else tuple(needed),
            python=self.settings.python,
            attach_url=self.settings.url,
            max_launches=self.settings.max_launches,
            max_minutes=self.settings.max_minutes,
            record=self.settings.record,
            profile=self.settings.profile,
            progress=self._progress,
            commit=revision(self.config.rootpath),
        )

    def _progress(self, text: str) -> None:
        """Say it at once: past pytest's capture, which would keep it until the measurement is over."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        if reporter is None or reporter.verbosity < 0:
            return
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"tpgate: {text}")
            reporter.flush()


def session_of(config: pytest.Config) -> Session:
    """Return the state of this run, made on first use."""
    if SESSION not in config.stash:
        config.stash[SESSION] = Session(config, settings_of(config))
    return config.stash[SESSION]
