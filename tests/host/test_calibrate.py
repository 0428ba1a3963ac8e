from __future__ import annotations

import json

import numpy as np
import pytest
from fake_nvml import gpu as card
from fake_nvml import script

from tpgate.errors import HostError
from tpgate.host import calibrate as module
from tpgate.host.calibrate import calibrate, judge, store, stored
from tpgate.host.nvml import Gpu
from tpgate.host.telemetry import GpuTelemetry, Telemetry

MS = 1_000_000
SIZE = 8 << 30
SPEED = 50e9
TO, BACK = (1000 * MS, 1172 * MS), (2000 * MS, 2172 * MS)
COPIES = {
    "to_gpu": {"bytes": SIZE, "begin_ns": TO[0], "end_ns": TO[1], "bytes_per_second": SPEED},
    "from_gpu": {"bytes": SIZE, "begin_ns": BACK[0], "end_ns": BACK[1], "bytes_per_second": SPEED},
}


def seen(*, rx_factor=1.0, tx_factor=1.0, swapped=False, rest=20e6, hold=False, check=None):
    """Counters at 100 Hz while 8 GiB go each way; ``rest`` is what they count anyway, in B/s."""
    times = np.arange(300, dtype=np.int64) * 10 * MS

    def counter(span, factor):
        moved = np.interp(times, span, [0, SIZE * factor]) + rest * times / 1e9
        return (moved.astype(np.int64) + 2**31) % 2**32

    columns = {"rx": counter(TO, rx_factor), "tx": counter(BACK, tx_factor)}
    if swapped:
        columns = {"rx": columns["tx"], "tx": columns["rx"]}
    keep = np.ones(300, bool)
    if hold:
        keep[103:112] = False
    counters = {"begin_ns": times[keep], "end_ns": times[keep]} | {name: c[keep] for name, c in columns.items()}
    state = {"begin_ns": times.astype(float), "end_ns": times.astype(float)}
    state |= {
        "link_generation": np.where((times > TO[0]) & (times < BACK[1]), 5.0, 1.0),
        "link_width": np.full(300, 16.0),
    }
    only = GpuTelemetry(
        gpu=Gpu("GPU-a", "NVIDIA H200", 0),
        counters=counters,
        state=state,
        check=check or {},
        once={"link_generation_max": 5.0, "link_width_max": 16.0},
    )
    return Telemetry(gpus=(only,), ended_ns=3000 * MS)


def test_both_directions_are_proven_through_wraps_and_rest_traffic():
    found = judge(seen(), COPIES)
    assert found.proven
    assert (found.link_generation, found.link_width) == (5, 16)
    rx, tx = found.directions
    assert (rx.way, tx.way) == ("rx", "tx")
    for direction in (rx, tx):
        assert direction.ratio == pytest.approx(1.0, abs=0.001)
        assert direction.bytes_per_second == SPEED
        assert direction.wraps == 2
        assert direction.other < 0.001 * SIZE


@pytest.mark.parametrize(
    ("factor", "proven"),
    [(1.04, True), (0.96, True), (1.094, True), (0.94, False), (1.16, False), (1024 / 1000 * 1.2, False)],
)
def test_five_percent_beside_the_packets_is_the_limit(factor, proven):
    found = judge(seen(rx_factor=factor), COPIES)
    assert found.proven is proven
    assert found.directions[0].ratio == pytest.approx(factor, abs=0.001)
    if not proven:
        assert "times what was copied" in found.directions[0].reason
        assert found.directions[1].reason is None


def test_swapped_directions_are_recognised():
    found = judge(seen(swapped=True), COPIES)
    assert all("directions are swapped" in direction.reason for direction in found.directions)


def test_a_held_up_sampler_proves_nothing():
    rx = judge(seen(hold=True), COPIES).directions[0]
    assert "the sampler was held up" in rx.reason
    assert (rx.ratio, rx.counted) == (None, None)


def test_nvmls_own_rate_is_compared_with_the_copy():
    check = {
        "begin_ns": np.array([1050.0 * MS, 2050.0 * MS]),
        "end_ns": np.array([1071.0 * MS, 2071.0 * MS]),
        "sent": np.array([0.0, 1.0]),
        "rate": np.array([49e9, np.nan]),
    }
    rx, tx = judge(seen(check=check), COPIES).directions
    assert rx.sampled_ratio == pytest.approx(0.98)
    assert tx.sampled_ratio is None


def test_results_are_kept_by_gpu_and_written_in_one_step(tmp_path):
    path = tmp_path / "deep" / "ceilings.json"
    assert stored(path) == {}
    assert store(judge(seen(), COPIES), path) == path
    store(judge(seen(rx_factor=1.2), COPIES), path)
    assert list(path.parent.iterdir()) == [path]
    assert stored(path)["GPU-a"]["proven"] is False
    assert stored(path)["GPU-a"]["directions"][1]["bytes_per_second"] == SPEED
    path.write_text("[not json")
    assert stored(path) == {}


def test_the_default_place_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.store_path() == tmp_path / "tpgate" / "pcie-ceilings.json"


def test_without_cuda_nothing_is_copied_and_the_reason_is_given(nvml):
    nvml(script(card("GPU-a")))
    with pytest.raises(HostError, match="nothing could be copied on GPU GPU-a: libcuda"):
        calibrate("GPU-a", total=1 << 20)


def test_without_nvml_there_is_nothing_to_compare(nvml, monkeypatch):
    nvml(None)
    monkeypatch.setattr(module, "_copy", lambda *_: json.loads(json.dumps(COPIES)))
    with pytest.raises(HostError, match="NVML Shared Library Not Found"):
        calibrate("GPU-a")
