from __future__ import annotations

import shutil
import sys
from types import SimpleNamespace

import pytest
from fake_nvml import gpu, script

from tpgate.errors import HostError
from tpgate.host import calibrate, doctor, lease
from tpgate.host.calibrate import Calibration, Direction
from tpgate.host.doctor import Finding, examine, is_fit

FREE = {"processes": [], "memory_used": 500 << 20}


@pytest.fixture
def look(nvml, monkeypatch, tmp_path):
    monkeypatch.setattr(lease, "default_folder", lambda: tmp_path)
    monkeypatch.setattr(
        doctor.packages, "read", lambda python: SimpleNamespace(reason=None, versions={}, python="3.12")
    )

    def at(machine, **more):
        nvml(machine)
        return examine(folder=tmp_path, **({"load_link": False} | more))

    return at


def of(findings, section, name):
    return [f for f in findings if f.section == section and f.name == name]


def calibration(ratio=1.0, generation=5, reason=None):
    ways = tuple(Direction(way, 8, 8 * ratio, ratio, 0.0, 55e9, 3, 1.0, reason) for way in ("rx", "tx"))
    return Calibration("GPU-aaaa", "NVIDIA H200", "now", generation, 16, 63e9, ways)


def test_a_machine_without_gpus_is_fit_and_says_what_was_not_measured(look):
    found = look(None)
    (line,) = of(found, "GPUs", "NVML")
    assert line.state == "unknown"
    assert line.value.startswith("not measured, because NVML Shared Library Not Found")
    assert is_fit(found)


def test_a_broken_driver_is_unfit(look):
    found = look(script(init=18))
    assert of(found, "GPUs", "NVML")[0].state == "unfit"
    assert not is_fit(found)
    assert not is_fit(look(script(gpu(lost=True))))


def test_a_healthy_machine_is_described(look):
    found = look(script(gpu(**FREE), gpu("GPU-bbbb", **FREE), p2p="nvlink"))
    assert is_fit(found)
    assert of(found, "GPUs", "topology")[0].value == "nvlink"
    assert of(found, "GPU 0", "link at most")[0].value == "Gen5 x16, 63.0 GB/s each way"
    assert of(found, "GPU 1", "SM clock")[0].value == "1.98 GHz now, 1.98 GHz at most"
    assert "580.159.04, CUDA up to 13.0" in of(found, "GPUs", "driver")[0].value


def test_missing_features_are_listed_with_their_reason(look):
    found = look(script(gpu(**FREE, unsupported=["tx", "rx", "throughput", "throttle"])))
    names = {f.name for f in found if f.state == "unknown"}
    assert {"without PCIe byte counters", "without PCIe rate", "without throttle reasons"} <= names


def test_neighbours_and_modes_make_it_unfit(look):
    found = look(script(gpu(processes=[[4242, 1 << 30]])))
    assert of(found, "fitness", "foreign_process")[0].state == "unfit"
    assert not is_fit(found)
    assert not is_fit(look(script(gpu(**FREE, mig=1))))


def test_a_slot_slower_than_the_card_is_a_note(look):
    found = look(script(gpu(**FREE, link_generation_max=4)))
    assert of(found, "GPU 0", "slot")[0].value == "Gen4, the GPU alone could do Gen5"
    assert is_fit(found)


def test_a_wrong_variable_is_unfit(look, monkeypatch, nvml, tmp_path):
    nvml(script(gpu(**FREE)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "9")
    found = examine(folder=tmp_path, load_link=False)
    assert of(found, "GPUs", "usable")[0].state == "unfit"


@pytest.mark.parametrize(("free", "state"), [(1 << 30, "unfit"), (5 << 30, "note"), (90 << 30, "ok")])
def test_room_for_traces(look, monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert of(look(None), "disk", "results and traces")[0].state == state


def test_the_link_under_load_is_read_while_copying(look, monkeypatch):
    monkeypatch.setattr(calibrate, "calibrate", lambda uuid, total: calibration())
    found = look(script(gpu(**FREE, link_generation=1)), load_link=True)
    assert of(found, "GPU 0", "link at rest")[0].value.startswith("Gen1 x16")
    assert of(found, "GPU 0", "link under load")[0].value == "Gen5 x16, 63.0 GB/s each way"
    assert of(found, "GPU 0", "measured ceiling, tx")[0].value == "55.0 GB/s by a copy from the GPU"
    assert is_fit(found)
    monkeypatch.setattr(calibrate, "calibrate", lambda uuid, total: calibration(generation=2))
    found = look(script(gpu(**FREE)), load_link=True)
    assert of(found, "GPU 0", "link under load")[0].state == "unfit"


def test_a_busy_gpu_is_not_disturbed(look, monkeypatch):
    def never(uuid, total):
        raise AssertionError("copied on a busy GPU")

    monkeypatch.setattr(calibrate, "calibrate", never)
    found = look(script(gpu()), load_link=True)
    assert "other work is on this GPU" in of(found, "GPU 0", "link under load")[0].value


def test_a_copy_that_fails_is_a_reason(look, monkeypatch):
    def fails(uuid, total):
        raise HostError("nothing could be copied")

    monkeypatch.setattr(calibrate, "calibrate", fails)
    found = look(script(gpu(**FREE)), load_link=True)
    assert of(found, "GPU 0", "link under load")[0].value == "not measured, because nothing could be copied"


def test_calibration_is_kept_where_it_is_proven(look, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrate, "calibrate", lambda uuid, total: calibration(1.01))
    found = look(script(gpu(**FREE)), calibration=True)
    assert "1.010, 3 wraps: unit and direction are proven" in of(found, "GPU 0", "calibration, rx")[0].value
    assert calibrate.stored()["GPU-aaaa"]["proven"]
    monkeypatch.setattr(calibrate, "calibrate", lambda uuid, total: calibration(1.2, reason="1.200 times"))
    found = look(script(gpu(**FREE)), calibration=True)
    assert of(found, "GPU 0", "calibration, tx") == [Finding("GPU 0", "calibration, tx", "1.200 times", "unfit")]
    assert not is_fit(found)


def test_leases_are_shown(look, tmp_path):
    with lease.hold(["gpu-GPU-aaaa"], holder="tpgate llama", folder=tmp_path):
        (line,) = of(look(None), "leases", "gpu-GPU-aaaa")
    assert "held by tpgate llama (process " in line.value
    assert line.state == "note"


def test_software_is_read_with_the_servers_interpreter(nvml, tmp_path):
    nvml(None)
    found = examine(python=sys.executable, folder=tmp_path / "not" / "yet", load_link=False)
    assert "(Python 3." in of(found, "software", "interpreter")[0].value
    found = examine(python="/bin/false", folder=tmp_path, load_link=False)
    assert of(found, "software", "interpreter")[0].state == "unknown"
