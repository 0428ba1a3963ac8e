"""Latency: time to first token, time per output token, and the cost of one more concurrent request."""

import pytest


@pytest.mark.gates("ttft_p50")
def test_time_to_first_token(serving, cell, perf):
    perf.check(serving.run(cell), "ttft_p50")


@pytest.mark.gates("tpot_p90")
def test_time_per_output_token_tail(serving, cell, perf):
    perf.check(serving.run(cell), "tpot_p90")


@pytest.mark.gates("e2e_p50")
def test_end_to_end_latency(serving, cell, perf):
    perf.check(serving.run(cell), "e2e_p50")


@pytest.mark.gates("seconds_per_added_request")
def test_cost_of_one_more_request(serving, perf):
    perf.check(serving.run("scenario"), "seconds_per_added_request")
