from __future__ import annotations

import builtins

import fake_nvml
import pytest
from fake_nvml import gpu, script

from tpgate.host import nvml as wrapper
from tpgate.host.nvml import Missing, Process, devices, open_library


@pytest.fixture
def opened(nvml):
    def place(*gpus, **more):
        nvml(script(*gpus, **more))
        library = open_library()
        return library, library.gpus()

    return place


def test_gpus_are_read_through_the_real_structures(opened):
    library, gpus = opened(gpu(), gpu("GPU-bbbb", name="NVIDIA H100", link_generation=4))
    assert [(g.uuid, g.name, g.index) for g in gpus] == [("GPU-aaaa", "NVIDIA H200", 0), ("GPU-bbbb", "NVIDIA H100", 1)]
    assert gpus[0].bus_id == "00000000:01:00.0"
    assert gpus[0].memory_bytes == 150 << 30
    assert library.driver() == "580.159.04"
    assert library.cuda() == "13.0"
    assert library.number(gpus[1], "link_generation") == 4.0
    assert library.number(gpus[0], "power_w") == 400.0
    assert library.number(gpus[0], "sm_hz") == 1.98e9
    assert library.processes(gpus[0]) == [Process(4242, 100 << 30)]
    assert library.mode(gpus[0], "Mig") is False
    assert library.mode(gpus[0], "Ecc") is True
    assert library.throughput(gpus[0], sent=False) == 38e6
    assert library.p2p(gpus[0], gpus[1]) is True
    assert library.p2p(gpus[0], gpus[1], nvlink=True) is False


def test_an_absent_library_is_a_reason(nvml):
    nvml(None)
    found = devices()
    assert isinstance(found, Missing)
    assert found.reason.startswith("NVML Shared Library Not Found; is the NVIDIA driver installed")


def test_a_driver_that_was_updated_under_its_module_is_named(nvml):
    nvml(script(init=fake_nvml.MISMATCH))
    found = devices()
    assert isinstance(found, Missing)
    assert "version mismatch" in found.reason
    assert "reboot" in found.reason


def test_an_absent_package_is_a_reason(nvml, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name == "pynvml":
            raise ImportError("No module named 'pynvml'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert "nvidia-ml-py is not installed" in open_library().reason


def test_a_lost_gpu_is_a_reason(opened):
    _, found = opened(gpu(), gpu("GPU-bbbb", lost=True))
    assert found == Missing("GPU 1 cannot be read (nvmlDeviceGetHandleByIndex: GPU is lost)")


def test_an_unsupported_reading_is_missing_and_never_zero(opened):
    library, (card,) = opened(gpu(unsupported=["power_mw", "throughput", "mig", "throttle", "tx", "rx"]))
    assert library.number(card, "power_w") == Missing("nvmlDeviceGetPowerUsage: Not Supported")
    assert isinstance(library.throughput(card, sent=True), Missing)
    assert isinstance(library.mode(card, "Mig"), Missing)
    assert isinstance(library.throttle(card), Missing)
    counters = library.counters(card)
    assert counters.tx is None
    assert counters.rx is None
    assert isinstance(library.nvlink_bytes(card), Missing)


def test_a_function_that_the_driver_lacks_falls_back_or_is_missing(opened):
    library, (card,) = opened(
        gpu(throttle=4), absent=["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetViolationStatus"]
    )
    assert library.throttle(card) == 4
    assert library.thermal_violation_ns(card) == Missing("nvmlDeviceGetViolationStatus: Function Not Found")


@pytest.mark.parametrize(("bits", "kind"), [(32, 1), (64, 3)])
def test_counters_carry_their_declared_width(opened, bits, kind):
    library, (card,) = opened(gpu(tx_series=[7], rx_series=[9], value_type=kind, bits=bits))
    counters = library.counters(card)
    assert (counters.tx, counters.rx, counters.bits) == (7, 9, bits)


def test_all_ones_is_no_value(opened):
    library, (card,) = opened(
        gpu(tx_series=[wrapper.ALL_ONES], value_type=3, throttle=wrapper.ALL_ONES, processes=[[1, None]])
    )
    assert library.counters(card).tx is None
    assert isinstance(library.throttle(card), Missing)
    assert library.processes(card) == [Process(1, None)]


def test_nvlink_bytes_are_bytes(opened):
    library, (card,) = opened(gpu(nvlink_tx_rate=1e9, nvlink_rx_rate=2e9), p2p="nvlink")
    sent, received = library.nvlink_bytes(card)
    assert received >= 2 * sent - 4096


def test_xids_are_collected_one_by_one(opened):
    library, gpus = opened(gpu(), xids=[79, 31])
    assert library.xid() is None
    assert library.watch_xids(gpus) is None
    assert [library.xid(), library.xid(), library.xid()] == [79, 31, None]


def test_xids_that_are_not_supported_are_a_reason(opened):
    library, gpus = opened(gpu(unsupported=["events"]))
    assert library.watch_xids(gpus) == Missing("nvmlDeviceRegisterEvents: Not Supported")
