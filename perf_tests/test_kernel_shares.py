"""Where the GPU's time goes in decode: attention, communication, NCCL, and what no rule knows."""

import pytest


@pytest.mark.gates("attention_share")
def test_attention_share(serving, cell, perf):
    perf.check(serving.run(cell), "attention_share")


@pytest.mark.gates("attention_time_per_token")
def test_attention_time_per_token(serving, cell, perf):
    perf.check(serving.run(cell), "attention_time_per_token")


@pytest.mark.gates("communication_share")
def test_communication_share(serving, cell, perf):
    perf.check(serving.run(cell), "communication_share")


@pytest.mark.gates("nccl_share")
def test_nccl_share(serving, cell, perf):
    perf.check(serving.run(cell), "nccl_share")


@pytest.mark.gates("exposed_communication_time_per_token")
def test_exposed_communication(serving, cell, perf):
    perf.check(serving.run(cell), "exposed_communication_time_per_token")


@pytest.mark.gates("gpu_busy_share")
def test_gpu_busy_share(serving, cell, perf):
    perf.check(serving.run(cell), "gpu_busy_share")


@pytest.mark.gates("unclassified_share")
def test_no_kernel_hides_from_the_classifier(serving, cell, perf):
    perf.check(serving.run(cell), "unclassified_share")
