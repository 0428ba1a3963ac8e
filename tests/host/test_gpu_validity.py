from __future__ import annotations

import os

import pytest
from fake_nvml import gpu, script

from tpgate.errors import HostError
from tpgate.host.validity import fatal, ownership, preflight, process_words, released

FREE = {"processes": [], "memory_used": 500 << 20}


def names(checks):
    return {check.check for check in checks}


def test_a_free_healthy_pair_has_nothing_to_say(nvml):
    nvml(script(gpu("GPU-a", **FREE), gpu("GPU-b", **FREE)))
    assert preflight(["GPU-a", "GPU-b"]) == []


def test_a_foreign_process_is_named_with_user_and_start(nvml):
    nvml(script(gpu("GPU-a", processes=[[os.getpid(), 20 << 30]])))
    (check,) = preflight(["GPU-a"])
    assert check.check == "foreign_process"
    assert check.fatal
    assert f"process {os.getpid()} (" in check.reason
    assert "user " in check.reason
    assert "20.0 GiB" in check.reason
    assert f"kill {os.getpid()}" in check.advice


def test_a_process_of_another_namespace_is_still_named():
    assert process_words(2**22 + 5) == f"process {2**22 + 5} (of another namespace or user)"


def test_memory_that_nobody_holds_is_not_idle(nvml):
    nvml(script(gpu("GPU-a", processes=[], memory_used=92 << 30)))
    (check,) = preflight(["GPU-a"])
    assert (check.check, check.fatal) == ("memory_taken", True)
    assert "92.0 GiB" in check.reason
    assert released(["GPU-a"]) == [check]


@pytest.mark.parametrize(
    ("change", "name", "is_fatal"),
    [
        ({"mig": 1}, "mig", True),
        ({"throttle": 0x40}, "gpu_throttled", True),
        ({"throttle": 0x80}, "gpu_throttled", True),
        ({"power_limit_mw": 450_000}, "power_cap", False),
        ({"persistence": 0}, "persistence", False),
        ({"ecc_errors": 2}, "ecc_uncorrected", False),
    ],
)
def test_modes_that_spoil_or_colour_a_measurement(nvml, change, name, is_fatal):
    nvml(script(gpu("GPU-a", **FREE, **change)))
    (check,) = preflight(["GPU-a"])
    assert (check.check, check.fatal) == (name, is_fatal)
    assert check.advice
    assert fatal([check]) == ([check] if is_fatal else [])


def test_idle_and_power_cap_bits_are_no_throttling(nvml):
    nvml(script(gpu("GPU-a", **FREE, throttle=0x1 | 0x4)))
    assert preflight(["GPU-a"]) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [({"name": "NVIDIA H100"}, "gpu_models"), ({"ecc": 0}, "ecc"), ({"link_width_max": 8}, "pcie_link_max")],
)
def test_unlike_gpus_are_told(nvml, change, name):
    nvml(script(gpu("GPU-a", **FREE), gpu("GPU-b", **FREE, **change)))
    assert name in names(preflight(["GPU-a", "GPU-b"]))


def test_only_the_chosen_gpus_are_checked(nvml):
    nvml(script(gpu("GPU-a", **FREE), gpu("GPU-b")))
    assert preflight(["GPU-a"]) == []


def test_a_server_on_the_gpus_that_are_watched_is_right(nvml):
    nvml(
        script(gpu("GPU-a", processes=[[10, 1]]), gpu("GPU-b", processes=[[11, 1]]), gpu("GPU-c", processes=[[99, 1]]))
    )
    assert ownership(["GPU-a", "GPU-b"], {10, 11, 12}) == []


def test_a_server_on_another_gpu_is_found_by_uuid(nvml):
    nvml(script(gpu("GPU-a", **FREE), gpu("GPU-b", processes=[[10, 1]])))
    checks = ownership(["GPU-a"], {10})
    assert names(checks) == {"gpu_ownership"}
    assert all(check.fatal for check in checks)
    assert "GPU 1" in " ".join(check.reason for check in checks)


def test_a_neighbour_beside_the_server_is_foreign(nvml):
    nvml(script(gpu("GPU-a", processes=[[10, 1], [77, 1]])))
    (check,) = ownership(["GPU-a"], {10})
    assert check.check == "foreign_process"
    assert "process 77" in check.reason


def test_pids_of_another_namespace_are_a_note(nvml):
    nvml(script(gpu("GPU-a", processes=[[4242, 1]])))
    (check,) = ownership(["GPU-a"], {10})
    assert not check.fatal
    assert "--pid=host" in check.advice


def test_gpus_that_cannot_be_read_are_an_error(nvml):
    nvml(None)
    with pytest.raises(HostError, match="NVML Shared Library Not Found"):
        preflight(["GPU-a"])
    nvml(script())
    with pytest.raises(HostError, match="NVML shows no GPU GPU-z"):
        preflight(["GPU-z"])
