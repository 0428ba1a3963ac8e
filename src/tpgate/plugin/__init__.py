"""The pytest plugin: hooks only; what they call is imported when it is needed, so other projects' pytest stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tpgate.plugin.options import add_options

if TYPE_CHECKING:
    from tpgate.plugin.session import Session

pytest_plugins = ("tpgate.plugin.fixtures",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--tpgate-*`` options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for line in (
        "gpu(count=1): needs that many GPUs; without them the test is an error, never a skip",
        "cpu: runs a real SGLang server on the CPU",
        "standin: runs against the scripted stand-in server",
        "gates(metric): a test of this metric; it is generated for every cell of a scenario that gates it",
    ):
        config.addinivalue_line("markers", line)


def _session(config: pytest.Config) -> Session:
    from tpgate.plugin.session import session_of

    return session_of(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate one test for every cell of every scenario that gates the test's metric."""
    if "serving" in metafunc.fixturenames:
        from tpgate.plugin.generate import generate

        generate(metafunc, _session(metafunc.config).scenarios)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--tpgate-scenario`` keep only the tests of those scenarios; everything else is deselected."""
    if config.getoption("--tpgate-scenario"):
        kept = [item for item in items if "serving" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Check, before anything is started, that what was selected can run here."""
    if any("serving" in getattr(item, "fixturenames", ()) or item.get_closest_marker("gpu") for item in session.items):
        from tpgate.plugin.preflight import check

        check(session, _session(session.config))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say where scenarios, baselines and results are, where the options name them."""
    from tpgate.plugin.options import settings_of

    return settings_of(config).header()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print one table a scenario that was measured."""
    from tpgate.plugin.options import SESSION

    if SESSION in config.stash:
        from tpgate.plugin.summary import write_summary

        write_summary(terminalreporter, config.stash[SESSION])
