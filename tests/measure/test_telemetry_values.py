from __future__ import annotations

import msgspec
import numpy as np
import pytest
from telemetry_samples import SECOND, gpu, late, telemetry

from tpgate.host.telemetry import Telemetry
from tpgate.measure import telemetry as module
from tpgate.measure.definitions import METRICS
from tpgate.measure.telemetry import telemetry_values

CONFIG = {"hidden_size": 4096, "num_hidden_layers": 43, "torch_dtype": "bfloat16"}
NAMES = {name for name, definition in METRICS.items() if definition.source == "telemetry"}


def measure(seen, *, tokens=1000, ranks=1, config=CONFIG, **more):
    span = {"window_start_ns": SECOND, "window_end_ns": 9 * SECOND}
    return telemetry_values(
        seen, **span, tokens=tokens, model_config=config, tensor_parallel=ranks, batch=4.0, server_pids=[4242], **more
    )


def test_one_gpu_gives_rates_utilisation_bytes_power_and_energy():
    values, doubts, details = measure(telemetry(gpu(tx=16e6, rx=38e6)))
    number = {name: value.value for name, value in values.items()}
    assert doubts == []
    assert set(values) == NAMES
    assert number["pcie_tx_bytes_per_second"] == pytest.approx(16e6, rel=1e-3)
    assert number["pcie_rx_bytes_per_second_p95"] == pytest.approx(38e6, rel=1e-3)
    assert number["pcie_rx_bytes_per_second_peak"] == pytest.approx(38e6, rel=1e-3)
    assert number["pcie_rx_utilisation"] == pytest.approx(38e6 / (16 * 32e9 * 128 / 130 / 8), rel=1e-3)
    assert number["pcie_tx_bytes_per_token"] == pytest.approx(16e6 * 8 / 1000, rel=1e-3)
    assert number["gpu_power"] == pytest.approx(400.0)
    assert number["energy_per_token"] == pytest.approx(400.0 * 8 / 1000, rel=1e-3)
    assert number["gpu_sm_clock"] == 1.98e9
    assert values["pcie_tx_amplification"].reason == "one rank has no all-reduce"
    assert "no NVLink" in values["nvlink_tx_bytes_per_token"].reason
    assert details["gpus"][0]["pcie_tx_wraps"] == 0
    assert len(details["gpus"][0]["pcie_tx"]) == 120
    msgspec.json.encode([values, doubts, details])  # it is stored


def test_without_a_gpu_everything_says_why():
    values, doubts, details = measure(Telemetry.empty("the server uses no GPU"))
    assert set(values) == NAMES
    assert {value.value for value in values.values()} == {None}
    assert {value.reason for value in values.values()} == {"not measured, because the server uses no GPU"}
    assert doubts == []
    assert details == {"reason": "not measured, because the server uses no GPU"}


def test_amplification_is_over_the_floor_of_the_busiest_gpu():
    per_token = 2 * 1_069_056  # NCCL's LL protocol
    rate = per_token * 1000 / 8
    values, _, details = measure(telemetry(*(gpu(i, tx=rate * (0.9 if i else 1), rx=rate) for i in range(4))), ranks=4)
    assert values["pcie_tx_bytes_per_token"].value == pytest.approx(per_token, rel=1e-3)
    assert values["pcie_tx_amplification"].value == pytest.approx(2.0, rel=1e-3)
    assert details["pcie_tx_busiest"].startswith("GPU 0 ")
    assert details["floor"]["ring, LL"] == per_token


def test_prompt_tokens_cross_the_ranks_too():
    rate = 2 * 1_069_056 * 1000 / 8
    seen = telemetry(*(gpu(i, tx=rate, rx=rate) for i in range(4)))
    values, *_ = measure(seen, ranks=4, prompt_tokens=1000)
    assert values["pcie_tx_amplification"].value == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("topology", "config", "reason"),
    [
        ("nvlink", CONFIG, "do not go over PCIe (topology: nvlink)"),
        ("unknown", CONFIG, "not known whether"),
        ("pcie p2p", None, "config.json is not known"),
        ("through host", {"hidden_size": 8}, "no num_hidden_layers"),
    ],
)
def test_amplification_is_missing_where_it_means_nothing(topology, config, reason):
    values, *_ = measure(telemetry(gpu(), gpu(1), topology=topology), ranks=2, config=config)
    assert reason in values["pcie_rx_amplification"].reason
    assert values["pcie_rx_bytes_per_token"].value is not None


def test_a_sensor_fault_is_a_missing_metric_and_a_note_and_not_a_void_run():
    values, doubts, _ = measure(telemetry(gpu(tx=0.0)))
    assert values["pcie_tx_bytes_per_token"].value is None
    assert "sensor fault" in values["pcie_tx_utilisation"].reason
    assert values["pcie_rx_bytes_per_token"].value is not None
    assert [(d.check, d.fatal) for d in doubts] == [("pcie_sensor", False)]


def test_utilisation_uses_the_link_as_read_under_load():
    values, doubts, _ = measure(telemetry(gpu(link_generation=3)))
    assert values["pcie_tx_utilisation"].value == pytest.approx(16e6 / 15.754e9, rel=1e-3)
    assert any(d.check == "pcie_link" and d.fatal for d in doubts)
    values, *_ = measure(telemetry(gpu(link_generation=np.nan)))
    assert "was not read under load" in values["pcie_tx_utilisation"].reason
    assert values["pcie_tx_bytes_per_second"].value is not None


def test_energy_falls_back_to_power_and_without_both_is_missing():
    values, *_ = measure(telemetry(gpu(energy=False)))
    assert values["energy_per_token"].value == pytest.approx(3.2, rel=1e-3)
    values, *_ = measure(telemetry(gpu(energy=False, power_w=np.nan)))
    assert values["energy_per_token"].value is None
    assert values["gpu_power"].value is None


def test_power_is_summed_and_the_slowest_clock_is_shown():
    values, *_ = measure(telemetry(gpu(), gpu(1, sm_hz=1.9e9)), ranks=2)
    assert values["gpu_power"].value == pytest.approx(800.0)
    assert values["gpu_sm_clock"].value == 1.9e9


def test_nvlink_bytes_per_token():
    pair = [gpu(i, nvlink_tx=lambda s: s * 1e9, nvlink_rx=lambda s: s * 2e9) for i in range(2)]
    values, *_ = measure(telemetry(*pair, topology="nvlink"), ranks=2)
    assert values["nvlink_tx_bytes_per_token"].value == pytest.approx(8e6)
    assert values["nvlink_rx_bytes_per_token"].value == pytest.approx(16e6)
    still = [gpu(i, nvlink_tx=0.0, nvlink_rx=0.0) for i in range(2)]
    values, *_ = measure(telemetry(*still, topology="nvlink"), ranks=2)
    assert "sensor fault" in values["nvlink_tx_bytes_per_token"].reason


def test_no_token_is_no_bytes_per_token():
    values, *_ = measure(telemetry(gpu()), tokens=0)
    assert values["pcie_tx_bytes_per_token"].value is None
    assert values["energy_per_token"].value is None
    assert values["pcie_tx_bytes_per_second"].value is not None


def test_a_short_window_has_no_p95():
    values, *_ = telemetry_values(
        telemetry(gpu()),
        window_start_ns=SECOND,
        window_end_ns=SECOND + 200_000_000,
        tokens=5,
        model_config=None,
        tensor_parallel=1,
        batch=1.0,
    )
    assert "p95 needs 20" in values["pcie_tx_bytes_per_second_p95"].reason
    assert values["pcie_tx_bytes_per_second"].value is not None


def test_a_slow_or_costly_sampler_is_a_note():
    _, doubts, details = measure(telemetry(gpu(), achieved_hz=20.0, cpu_share=0.2))
    assert {d.check for d in doubts} == {"sampler_rate", "sampler_cost"}
    assert not any(d.fatal for d in doubts)
    assert details["achieved_hz"] == 20.0


def test_a_measured_ceiling_is_shown_where_there_is_one(monkeypatch):
    kept = {"GPU-0": {"directions": [{"way": "rx", "bytes_per_second": 55e9}, {"way": "tx", "bytes_per_second": 54e9}]}}
    monkeypatch.setattr(module.calibrate, "stored", lambda: kept)
    *_, details = measure(telemetry(gpu(), gpu(1)))
    assert details["measured_ceilings"] == {"GPU-0": {"rx": 55e9, "tx": 54e9}}


def test_the_link_before_the_load_is_kept_beside_the_link_under_load():
    *_, details = measure(telemetry(gpu(link_generation=late(5, 1, 0.5))))
    row = details["gpus"][0]
    assert row["link_generation_at_start"] == 1.0
    assert row["link_generation"] == {"min": 5.0, "mean": 5.0, "max": 5.0}
