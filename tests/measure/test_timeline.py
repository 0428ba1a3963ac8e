from tpgate.measure.timeline import with_pcie

LINE = {"t_s": [0.5, 1.5, 2.5, 3.5], "tokens_per_second": [1, 2, 3, 4], "running": [1, 1, 1, 1]}


def test_traffic_of_the_busiest_gpu_stands_beside_the_window_and_nowhere_else():
    quiet = {"seconds": [0.0, 1.0], "pcie_tx": [1.0, 1.0], "pcie_rx": [1.0, None]}
    busy = {"seconds": [0.0, 1.0], "pcie_tx": [10.0, 20.0], "pcie_rx": [None, 7.0]}
    made = with_pcie(LINE, {"gpus": [quiet, busy]}, 1.0)
    assert made["pcie_tx"] == [None, 10.0, 20.0, None]
    assert made["pcie_rx"] == [None, None, 7.0, None]
    assert made["running"] == LINE["running"]


def test_without_telemetry_the_timeline_says_nothing_of_pcie():
    assert with_pcie(LINE, {"reason": "no GPU"}, 1.0) == LINE
