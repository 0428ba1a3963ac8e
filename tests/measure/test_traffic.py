from __future__ import annotations

import numpy as np
import pytest
from telemetry_samples import SECOND, gpu

from tpgate.host.telemetry import GpuTelemetry
from tpgate.measure.traffic import busiest, traffic

SPAN = (SECOND, 9 * SECOND)


def checks(rate, count=20, sent=1.0):
    begin = np.arange(count) * 0.45 * SECOND + 0.3 * SECOND
    columns = {"begin_ns": begin, "end_ns": begin + 0.021 * SECOND}
    return columns | {"sent": np.full(count, sent), "rate": np.full(count, rate)}


def test_bytes_of_a_window_are_right_through_dozens_of_wraps():
    found = traffic(gpu(tx=50e9), "tx", *SPAN, tokens=1000)
    assert found.total == pytest.approx(400e9, rel=1e-6)
    assert found.wraps > 90
    assert np.median(found.rates) == pytest.approx(50e9, rel=1e-6)
    assert found.unknown == 0


def test_a_short_hold_up_is_scaled_and_a_long_one_is_no_figure():
    whole = gpu()
    keep = np.ones(501, bool)
    keep[200:205] = False  # 120 ms between two readings: a 32-bit counter may wrap more than once
    held = {name: column[keep] for name, column in whole.counters.items()}
    found = traffic(GpuTelemetry(gpu=whole.gpu, counters=held, once=whole.once), "rx", *SPAN, tokens=5)
    assert found.unknown == pytest.approx(0.12 / 8)
    assert found.total == pytest.approx(38e6 * 8, rel=1e-3)
    keep[200:240] = False
    held = {name: column[keep] for name, column in whole.counters.items()}
    found = traffic(GpuTelemetry(gpu=whole.gpu, counters=held, once=whole.once), "rx", *SPAN, tokens=5)
    assert "PCIe bytes are unknown in 10.3% of the window (1 intervals too long for a 32-bit counter" in found


@pytest.mark.parametrize("way", ["tx", "rx"])
def test_a_counter_that_stands_still_under_load_is_a_fault(way):
    still = gpu(**{way: 0.0})
    assert "sensor fault: the PCIe counter stood still while 7 tokens" in traffic(still, way, *SPAN, tokens=7)
    assert traffic(still, way, *SPAN, tokens=0).total == 0


def test_a_counter_that_sticks_halfway_is_a_fault():
    stuck = gpu(tx=lambda s: 16e6 * np.minimum(s, 5.0))
    assert "stood still for 4.0 s under load" in traffic(stuck, "tx", *SPAN, tokens=7)


def test_a_rate_over_the_link_is_a_fault():
    mad = gpu(tx=lambda s: 1e9 * np.round(s * 50) * 3, once={"link_generation_max": 3.0})
    assert "over the link's capacity" in traffic(mad, "tx", *SPAN, tokens=7)


def test_no_counter_is_the_reason_it_has():
    bare = GpuTelemetry(gpu=gpu().gpu, missing={"counters": "nvmlDeviceGetFieldValues: Not Supported"})
    assert traffic(bare, "tx", *SPAN, tokens=7) == "nvmlDeviceGetFieldValues: Not Supported"
    none = gpu()
    columns = dict(none.counters) | {"tx": np.full(501, -1)}
    missing = GpuTelemetry(gpu=none.gpu, counters=columns)
    assert "gives no PCIe byte counter" in traffic(missing, "tx", *SPAN, tokens=7)


def test_a_window_with_hardly_a_reading_has_no_figure():
    assert "3 readings" in traffic(gpu(), "tx", SECOND, SECOND + 60_000_000, tokens=7)


@pytest.mark.parametrize(("rate", "ratio"), [(50e6, 1.0), (30e6, 1.67), (100e6, 0.5)], ids=["agree", "near", "twice"])
def test_the_counter_is_compared_with_nvmls_own_rate(rate, ratio):
    found = traffic(gpu(tx=50e6, check=checks(rate)), "tx", *SPAN, tokens=7)
    assert found.check_ratio == pytest.approx(ratio, rel=0.01)


def test_a_counter_of_another_unit_is_a_fault():
    message = traffic(gpu(tx=50e6, check=checks(50e9)), "tx", *SPAN, tokens=7)
    assert message.startswith("sensor fault: the PCIe counter says 0.001 times")


def test_a_comparison_needs_load_samples_and_the_same_direction():
    assert traffic(gpu(tx=1e6, check=checks(50e6 / 50)), "tx", *SPAN, tokens=7).check_ratio is None
    assert traffic(gpu(tx=50e6, check=checks(50e6, count=4)), "tx", *SPAN, tokens=7).check_ratio is None
    assert traffic(gpu(tx=50e6, check=checks(50e6, sent=0.0)), "tx", *SPAN, tokens=7).check_ratio is None


def test_the_busiest_gpu_speaks_for_all_and_one_without_figure_silences_all():
    low, high = (traffic(gpu(tx=rate), "tx", *SPAN, tokens=1) for rate in (1e6, 2e6))
    assert busiest({"a": low, "b": high}) == ("b", high)
    assert busiest({"a": low, "b": "no counter"}) == "b: no counter"
    assert busiest({}) == "no GPU was read"
