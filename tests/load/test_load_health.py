"""The self-check: what it says of a starved client, and what it does not say of a fit one."""

from __future__ import annotations

import asyncio
import dataclasses
import time

import pytest
import uvloop
from sse_script import HEAD, LAST, ScriptedServer, chunked, generate_answer, good

from tpgate.load.generator import drive
from tpgate.load.health import CPU_LIMIT, FREEZE_S, LAG_LIMIT, LATE_LIMIT, client_doubts
from tpgate.load.probe import LagProbe
from tpgate.load.records import ClientHealth
from tpgate.specs import LoadSpec

FIT = ClientHealth(0.0004, 0.002, 0.2, 8e-6, 0.0)
TPOT = 0.02


def checks(tpot=TPOT, **changes):
    return [check for check, _, _ in client_doubts(dataclasses.replace(FIT, **changes), tpot)]


def test_a_fit_client_is_not_doubted():
    assert checks() == []
    assert checks(tpot=None) == []


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"cpu_share": CPU_LIMIT + 0.01}, "client_cpu"),
        ({"loop_lag_p99_s": LAG_LIMIT * TPOT + 1e-4}, "client_lag"),
        ({"loop_lag_max_s": FREEZE_S + 0.01}, "client_freeze"),
        ({"late_stamps": LATE_LIMIT + 0.01, "loop_lag_p99_s": 0.003}, "client_late_stamps"),
    ],
)
def test_each_sign_is_doubted_just_above_its_limit(changes, check):
    assert checks(**changes) == [check]
    reason, advice = client_doubts(dataclasses.replace(FIT, **changes), TPOT)[0][1:]
    assert "limit" in reason
    assert advice


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_share": CPU_LIMIT},
        {"loop_lag_p99_s": LAG_LIMIT * TPOT},
        {"loop_lag_max_s": FREEZE_S},
        {"late_stamps": 0.9},
    ],
)
def test_at_the_limit_nothing_is_doubted(changes):
    assert checks(**changes) == [], "and a server that merges its own events is not the client's fault"


def test_without_a_tpot_the_floor_decides():
    assert checks(tpot=None, loop_lag_p99_s=0.002) == ["client_lag"]


def test_the_probe_counts_a_long_delay_once_for_every_period_it_swallowed():
    async def watch():
        probe = LagProbe(asyncio.get_running_loop(), period_ns=5_000_000)
        probe.start()
        await asyncio.sleep(0.02)
        time.sleep(0.1)  # noqa: ASYNC251 - the fault under test
        probe.stop()
        return probe

    probe = uvloop.run(watch())
    late = [lag for lag in probe.lags_ns if lag > 5_000_000]
    assert len(late) >= 15
    assert max(late) >= 90_000_000
    assert min(probe.lags_ns) >= 0


def test_a_starved_client_is_doubted(monkeypatch):
    """Something else runs on the client's loop, 30 ms at a time, as a careless callback would."""
    from tpgate.load import driver

    prepare = driver.Driver.prepare

    async def starving(self):
        await prepare(self)

        def busy():
            until = time.perf_counter() + 0.03
            while time.perf_counter() < until:
                pass
            self.loop.call_later(0.005, busy)

        self.loop.call_soon(busy)

    def paced(request):
        yield HEAD
        for payload in generate_answer(20):
            time.sleep(0.004)
            yield chunked(payload)
        yield LAST

    load = LoadSpec(2, 6, 2, input_tokens=8, output_tokens=20)
    monkeypatch.setattr(driver.Driver, "prepare", starving)
    with ScriptedServer(paced) as server:
        result = drive(server.url, load, vocabulary=2048)
    found = {check for check, _, _ in client_doubts(result.health, 0.004)}
    assert found >= {"client_lag", "client_late_stamps"}
    assert result.health.late_stamps > 0.3


def test_health_of_a_run_is_filled_in():
    with ScriptedServer(good) as server:
        health = drive(server.url, LoadSpec(2, 6, 2, input_tokens=8, output_tokens=4), vocabulary=2048).health
    assert 0 < health.cpu_share <= 1
    assert health.cpu_seconds_per_token > 0
    assert health.loop_lag_max_s >= health.loop_lag_p99_s >= 0
