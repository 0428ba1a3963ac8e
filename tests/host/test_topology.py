from __future__ import annotations

import pytest
from fake_nvml import gpu, script

from tpgate.errors import HostError
from tpgate.host import lease
from tpgate.host.nvml import devices, open_library
from tpgate.host.topology import choose, count_gpus, describe, matrix, visible

FREE = {"processes": [], "memory_used": 500 << 20}


def four(**more):
    return script(*(gpu(f"GPU-{letter}", **FREE) for letter in "abcd"), **more)


def test_all_gpus_can_be_used_without_the_variable(nvml, monkeypatch):
    nvml(four())
    assert count_gpus() == (4, None)
    assert choose(2) == ("GPU-a", "GPU-b")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert count_gpus() == (2, "CUDA_VISIBLE_DEVICES shows 2 of 4")
    assert choose(2) == ("GPU-d", "GPU-b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("GPU-c", ["GPU-c"]), ("2,-1,0", ["GPU-c"]), ("GPU-d, GPU-a", ["GPU-d", "GPU-a"])],
)
def test_the_variable_is_read_as_cuda_reads_it(nvml, text, expected):
    nvml(four())
    assert [g.uuid for g in visible(devices(), {"CUDA_VISIBLE_DEVICES": text})] == expected


@pytest.mark.parametrize("text", ["7", "GPU-z", "GPU-", "MIG-1234"])
def test_a_name_that_is_no_gpu_or_several_is_refused(nvml, text):
    nvml(four())
    with pytest.raises(HostError, match=text):
        visible(devices(), {"CUDA_VISIBLE_DEVICES": text})


def test_positions_are_refused_where_cuda_orders_otherwise(nvml):
    nvml(script(gpu("GPU-a", name="NVIDIA L4"), gpu("GPU-b")))
    with pytest.raises(HostError, match="CUDA's order need not be NVML's"):
        visible(devices(), {"CUDA_VISIBLE_DEVICES": "1"})
    found = visible(devices(), {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert [g.uuid for g in found] == ["GPU-b"]


def test_idle_gpus_come_first_and_memory_counts_as_busy(nvml):
    nvml(
        script(
            gpu("GPU-a", processes=[[7, 1]], memory_used=0),
            gpu("GPU-b", processes=[], memory_used=130 << 30),
            gpu("GPU-c", **FREE),
        )
    )
    assert choose(1) == ("GPU-c",)
    assert choose(3) == ("GPU-c", "GPU-a", "GPU-b")


def test_a_leased_gpu_comes_last(nvml, monkeypatch, tmp_path):
    nvml(four())
    monkeypatch.setenv("TPGATE_LEASE_FOLDER", str(tmp_path))
    with lease.hold([lease.of_gpu("GPU-a")], holder="another run"):
        assert choose(2) == ("GPU-b", "GPU-c")
        assert choose(4)[-1] == "GPU-a"
    assert choose(1) == ("GPU-a",)


def test_too_few_gpus_and_none_are_errors_that_say_so(nvml):
    nvml(four())
    with pytest.raises(HostError, match=r"8 GPU\(s\) are needed, 4 of 4"):
        choose(8)
    with pytest.raises(HostError, match=r"2 GPU\(s\) are needed, 1 of 4"):
        choose(2, "GPU-a")
    nvml(None)
    with pytest.raises(HostError, match="NVML Shared Library Not Found"):
        choose(1)
    number, reason = count_gpus()
    assert number == 0
    assert "NVML Shared Library Not Found" in reason


@pytest.mark.parametrize(("p2p", "word"), [("nvlink", "nvlink"), ("pcie", "pcie p2p"), ("none", "through host")])
def test_how_gpus_reach_each_other(nvml, p2p, word):
    nvml(four(p2p=p2p))
    with open_library() as library:
        gpus = library.gpus()
        assert describe(library, gpus) == word
        assert describe(library, gpus[:1]) == "single"
        assert describe(library, []) == "none"
        assert matrix(library, gpus)[0] == f"GPU 0 - GPU 1: {word}, meet at a host bridge"


def test_what_cannot_be_read_is_unknown(nvml):
    nvml(four(absent=["nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor"]))
    with open_library() as library:
        gpus = library.gpus()
        assert describe(library, gpus) == "unknown"
        assert "not measured" in matrix(library, gpus)[0]
