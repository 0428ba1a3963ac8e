"""Checks between collection and the first test: what was selected can run here, or the run ends with the reason."""

from __future__ import annotations

import pytest

from tpgate.plugin.session import Session
from tpgate.specs import SCENARIO_CELL, Scenario


def check(session: pytest.Session, state: Session) -> None:
    """Note which cells are needed, and refuse a missing baseline folder and missing GPUs.

    In a worker of pytest-xdist nothing is checked, and nothing will be started: every test that measures is an error.

    Raises:
        pytest.UsageError: An option does not go with what was selected.
    """
    config = session.config
    if config.getoption("collectonly"):
        return
    servers = [item for item in session.items if "serving" in getattr(item, "fixturenames", ())]
    state.worker = hasattr(config, "workerinput")
    if state.worker:
        return
    if state.settings.explicit_baselines and not state.settings.baselines.is_dir():
        raise pytest.UsageError(
            f"--tpgate-baselines {state.settings.baselines}: no such folder; "
            "create it, or mend the name (tpgate refresh writes baselines)"
        )
    for item in servers:
        call = getattr(item, "callspec", None)
        if call is None:
            continue
        scenario = call.params.get("serving")
        if isinstance(scenario, Scenario):
            cells = state.selected.setdefault(scenario.name, {})
            cell = call.params.get("cell", SCENARIO_CELL)
            cells[cell] = None
    _require_gpus(session)


def _require_gpus(session: pytest.Session) -> None:
    wanted = 0
    for item in session.items:
        for mark in item.iter_markers("gpu"):
            wanted = max(wanted, int(mark.kwargs.get("count", mark.args[0] if mark.args else 1)))
    if not wanted:
        return
    from tpgate.host.topology import count_gpus

    present, reason = count_gpus()
    if present < wanted:
        names = sorted({item.nodeid for item in session.items if item.get_closest_marker("gpu")})
        why = f" ({reason})" if reason else ""
        raise pytest.UsageError(
            f"{len(names)} selected tests need up to {wanted} GPU(s), this machine shows {present}{why}. "
            "Nothing was run: a missing GPU is an error here, never a skip. Run 'tpgate doctor' to see what is "
            "missing, or select less (--tpgate-scenario NAME, -m cpu)"
        )
