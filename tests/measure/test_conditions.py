from __future__ import annotations

import numpy as np
import pytest
from telemetry_samples import SECOND, gpu, late, telemetry

from tpgate.errors import HostError
from tpgate.host.validity import Check
from tpgate.measure import conditions as module
from tpgate.measure.conditions import check_doubts, condition_doubts, host_doubts

SPAN = (SECOND, 9 * SECOND)


def doubts(*gpus, server_pids=(4242,), **more):
    return condition_doubts(telemetry(*gpus, **more), *SPAN, server_pids=server_pids)


def only(*gpus, **more):
    (found,) = doubts(*gpus, **more)
    return found


def test_healthy_gpus_raise_no_doubt():
    assert doubts(gpu(), gpu(1)) == []


@pytest.mark.parametrize(
    ("bit", "word"),
    [(0x08, "hardware slowdown"), (0x20, "software thermal"), (0x40, "hardware thermal"), (0x80, "power brake")],
)
def test_throttling_makes_a_run_void_and_names_gpu_and_clock(bit, word):
    found = only(gpu(), gpu(1, throttle=late(bit, 0, 5.0), sm_hz=1.9e9))
    assert (found.check, found.fatal) == ("gpu_throttled", True)
    assert "GPU 1 (NVIDIA H200, GPU-1)" in found.reason
    assert word in found.reason
    assert "1.90 GHz" in found.reason


def test_a_single_throttled_sample_in_a_long_window_is_a_note():
    one = gpu(seconds=30, throttle=lambda s: np.where(np.abs(s - 15) < 0.04, 8.0, 0.0))
    (found,) = condition_doubts(telemetry(one), 0, 30 * SECOND)
    assert not found.fatal


def test_throttling_outside_the_window_is_nobodys_business():
    assert doubts(gpu(throttle=late(0x40, 0, 9.05))) == []


def test_the_thermal_counter_speaks_where_samples_saw_nothing():
    found = only(gpu(thermal_violation_ns=lambda s: s * 0.1 * SECOND))
    assert found.check == "gpu_throttled"
    assert "heat held the clocks down for 8" in found.reason or "10.0%" in found.reason


def test_the_factory_power_limit_is_normal_and_a_lowered_one_is_not():
    normal = only(gpu(throttle=4))
    assert (normal.check, normal.fatal) == ("power_cap", False)
    lowered = only(gpu(throttle=4, once={"power_limit_w": 450.0}))
    assert lowered.fatal
    assert "450 W" in lowered.reason
    assert "700 W" in lowered.reason
    assert doubts(gpu(once={"power_limit_w": 450.0})) == []  # lowered, and never reached


def test_idle_and_application_clock_bits_do_not_throttle():
    assert doubts(gpu(throttle=0x1 | 0x2)) == []


@pytest.mark.parametrize(
    ("change", "word"), [({"link_generation": 2}, "Gen2"), ({"link_width": 8}, "x8")], ids=["generation", "width"]
)
def test_a_link_below_its_best_under_load_is_void_and_names_the_gpu(change, word):
    found = doubts(gpu(), gpu(1), gpu(2), gpu(3, **change))
    assert {d.check for d in found} == {"pcie_link", "gpu_asymmetry"}
    assert all(d.fatal for d in found)
    assert all("GPU 3" in d.reason for d in found)
    assert word in found[0].reason


def test_a_link_that_sleeps_before_the_load_is_fine():
    assert doubts(gpu(link_generation=late(5, 1, 0.5))) == []


def test_a_short_retrain_is_a_note():
    found = only(gpu(link_generation=lambda s: np.where(np.abs(s - 4) < 0.12, 1.0, 5.0)))
    assert (found.check, found.fatal) == ("pcie_link", False)
    assert "Gen1 in 3.7% of the window" in found.reason


def test_all_gpus_on_a_slow_link_are_alike_and_still_void():
    found = doubts(gpu(link_generation=4), gpu(1, link_generation=4))
    assert [d.check for d in found] == ["pcie_link", "pcie_link"]


def test_a_link_that_cannot_be_read_is_a_note():
    found = only(gpu(link_generation=np.nan))
    assert not found.fatal
    assert "was not read under load" in found.reason


def test_a_neighbour_is_void_and_named():
    found = only(gpu(processes=((4242,), (4242, 777))))
    assert (found.check, found.fatal) == ("foreign_process", True)
    assert "process 777 was on the GPU, not the server's" in found.reason


def test_in_another_namespace_only_who_comes_or_goes_is_foreign():
    assert doubts(gpu(), server_pids=(1, 2)) == []
    found = only(gpu(processes=((4242,), (4242,), (4242, 9))), server_pids=(1, 2))
    assert found.fatal
    assert "process 9 was on the GPU, came or went" in found.reason
    assert not only(gpu(processes=((4242, 9),)), server_pids=None).fatal


def test_errors_of_link_and_memory_are_told():
    replays = only(gpu(replays=lambda s: np.floor(s)))
    assert (replays.check, replays.fatal) == ("replays", False)
    assert "8 PCIe replays" in replays.reason
    assert only(gpu(ecc_uncorrected=late(1, 0, 4.0))).fatal
    memory = only(gpu(memory_used=late(103 << 30, 100 << 30, 4.0)))
    assert (memory.check, memory.fatal) == ("gpu_memory", False)


def test_an_xid_is_void():
    found = only(gpu(), xids=((4 * SECOND, 79),))
    assert (found.check, found.fatal) == ("xid", True)
    assert doubts(gpu(), xids=((0, 79),)) == []


def test_unlike_clocks_are_a_note():
    found = only(gpu(), gpu(1, sm_hz=1.5e9))
    assert (found.check, found.fatal) == ("gpu_asymmetry", False)


def test_checks_of_the_host_become_doubts():
    (found,) = check_doubts([Check("mig", "MIG is on", "turn it off")])
    assert (found.check, found.reason, found.advice, found.fatal) == ("mig", "MIG is on", "turn it off", True)


def test_the_host_is_asked_before_and_while_a_server_runs(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "preflight", lambda uuids: asked.append(("before", uuids)) or [])
    monkeypatch.setattr(module, "ownership", lambda uuids, pids: asked.append(("during", uuids, pids)) or [])
    assert host_doubts(()) == host_doubts(("GPU-a",)) == host_doubts(("GPU-a",), [7]) == []
    assert asked == [("before", ("GPU-a",)), ("during", ("GPU-a",), [7])]


def test_gpus_that_cannot_be_asked_are_a_note(monkeypatch):
    def fails(uuids):
        raise HostError("no driver")

    monkeypatch.setattr(module, "preflight", fails)
    (found,) = host_doubts(("GPU-a",))
    assert (found.check, found.reason, found.fatal) == ("gpu_unreadable", "no driver", False)
