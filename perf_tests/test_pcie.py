"""PCIe: under its ceiling, and no more bytes per output token than before."""

import pytest


@pytest.mark.gates("pcie_tx_utilisation_p95")
def test_sending_stays_under_the_ceiling(serving, cell, perf):
    perf.check(serving.run(cell), "pcie_tx_utilisation_p95")


@pytest.mark.gates("pcie_rx_utilisation_p95")
def test_receiving_stays_under_the_ceiling(serving, cell, perf):
    perf.check(serving.run(cell), "pcie_rx_utilisation_p95")


@pytest.mark.gates("pcie_tx_bytes_per_token")
def test_bytes_sent_per_token(serving, cell, perf):
    perf.check(serving.run(cell), "pcie_tx_bytes_per_token")


@pytest.mark.gates("pcie_rx_bytes_per_token")
def test_bytes_received_per_token(serving, cell, perf):
    perf.check(serving.run(cell), "pcie_rx_bytes_per_token")
