"""Output token throughput: the steady state of every concurrency, and the whole run where that is the promise."""

import pytest


@pytest.mark.gates("output_tokens_per_second")
def test_output_throughput(serving, cell, perf):
    perf.check(serving.run(cell), "output_tokens_per_second")


@pytest.mark.gates("achieved_concurrency")
def test_load_is_held(serving, cell, perf):
    perf.check(serving.run(cell), "achieved_concurrency")


@pytest.mark.gates("output_tokens_per_second_whole_run")
def test_whole_run_throughput(serving, cell, perf):
    perf.check(serving.run(cell), "output_tokens_per_second_whole_run")
