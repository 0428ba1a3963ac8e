import dataclasses

import pytest
from synthetic import MS, load, record, result, waves

from tpgate.measure.client import client_values, scenario_values, timeline, tokens_between
from tpgate.measure.definitions import METRICS
from tpgate.measure.result import Value
from tpgate.measure.window import steady_window


def values_of(spec, outcome):
    return client_values(outcome, spec, steady_window(outcome, spec))


def test_figures_of_a_closed_loop_worked_out_by_hand():
    spec = load(concurrency=4, requests=12, tokens=8)
    values = values_of(spec, waves(spec))
    # Three waves of 4 x 8 tokens in 72 ms; four in 96 ms over the whole run; the warm-up wave alone in 24 ms.
    assert values["output_tokens_per_second"].value == pytest.approx(96 / 0.072)
    assert values["output_tokens_per_second_whole_run"].value == pytest.approx(128 / 0.096)
    assert values["output_tokens_per_second_early"].value == pytest.approx(32 / 0.024)
    assert values["ttft_p50"].value == pytest.approx(0.010)
    assert values["tpot_p50"].value == pytest.approx(0.002)
    assert values["e2e_p50"].value == pytest.approx(0.024)
    assert values["inter_chunk_p50"].value == pytest.approx(0.002)
    assert values["output_tokens_per_second_per_user"].value == pytest.approx(500)
    assert values["request_throughput"].value == pytest.approx(12 / 0.072)
    assert values["achieved_concurrency"].value == pytest.approx(4)
    assert values["tokens_per_chunk"].value == pytest.approx(1)


def test_every_client_metric_is_there_or_says_why_not():
    spec = load(concurrency=4, requests=12)
    values = values_of(spec, waves(spec))
    declared = {name for name, definition in METRICS.items() if definition.source == "client"}
    assert set(values) == declared
    assert all((value.value is None) == (value.reason is not None) for value in values.values())


def test_chunks_are_not_tokens():
    # Four tokens a chunk every 20 ms is 5 ms a token; the gap between chunks stays what it is.
    spec = load(concurrency=1, requests=2, tokens=32)
    records = []
    for index in range(3):
        start = 160.0 * index
        chunks = [(start + 20 * (n + 1), 4 * (n + 1)) for n in range(8)]
        records.append(record(index, start, chunks, warmup=index == 0))
    values = values_of(spec, result(records))
    assert values["tpot_p50"].value == pytest.approx(0.005)
    assert values["inter_chunk_p50"].value == pytest.approx(0.020)
    assert values["tokens_per_chunk"].value == pytest.approx(4)


def test_quantile_without_enough_requests_is_missing_with_the_reason():
    spec = load(concurrency=4, requests=12)
    values = values_of(spec, waves(spec))
    assert values["ttft_p90"].value is not None
    assert values["ttft_p99"].value is None
    assert values["ttft_p99"].reason == "12 requests, p99 needs 100"


def test_no_window_means_no_figures_but_the_whole_run():
    spec = load(concurrency=4, requests=12)
    outcome = waves(spec)
    cut = dataclasses.replace(outcome, records=outcome.records[:9])
    values = values_of(spec, cut)
    assert values["output_tokens_per_second"].value is None
    assert "only 9 of 16" in values["output_tokens_per_second"].reason
    assert values["output_tokens_per_second_whole_run"].value is not None


def test_nothing_arrived_is_never_zero():
    spec = load(concurrency=1, requests=1)
    outcome = result([record(0, 0, [], warmup=True, outcome="http 503"), record(1, 1, [], outcome="http 503")])
    values = values_of(spec, outcome)
    assert all(value.value is None and value.reason for value in values.values())


def test_requests_that_decode_in_the_drain_do_not_flatter_tpot():
    spec = load(concurrency=2, requests=3, tokens=11)
    slow = [(10.0 + 10 * n, n + 1) for n in range(11)]
    records = [record(0, 0, slow, warmup=True), record(1, 0, slow, warmup=True)]
    second = [(at + 110, count) for at, count in slow]
    records += [record(2, 110, second), record(3, 110, [(at + 1, count) for at, count in second])]
    # Alone on the server, the last request decodes ten times as fast.
    last = [(221.0 + n, n + 1) for n in range(11)]
    records.append(record(4, 220, last))
    values = values_of(spec, result(records))
    assert values["tpot_p50"].value == pytest.approx(0.010)
    assert values["tpot_p50"].samples == 2


def test_tokens_between_counts_what_arrived():
    records = [record(0, 0, [(1, 1), (2, 3), (3, 6)])]
    assert tokens_between(records, 1 * MS, 2 * MS) == 2
    assert tokens_between(records, 0, 3 * MS) == 6


def test_timeline_keeps_every_token():
    spec = load(concurrency=4, requests=12)
    outcome = waves(spec)
    line = timeline(outcome)
    width = (outcome.ended_ns - outcome.started_ns) / 1e9 / len(line["t_s"])
    assert sum(line["tokens_per_second"]) * width == pytest.approx(128, rel=1e-3)
    assert max(line["running"]) == 4


def tpot(milliseconds):
    return {"tpot_p50": Value.of("tpot_p50", milliseconds / 1e3)}


def test_cost_of_one_more_request_is_the_slope_over_concurrency():
    # 30 ms for each more concurrent request, as a server without batching gain shows; one outlying cell moves nothing.
    cells = [(load(c, c), tpot(40 + 30 * (c - 1))) for c in (1, 8, 32, 64)]
    assert scenario_values(cells)["seconds_per_added_request"].value == pytest.approx(0.030)
    cells[1] = (cells[1][0], tpot(2000))
    assert scenario_values(cells)["seconds_per_added_request"].value == pytest.approx(0.030, rel=0.05)


def test_slope_needs_three_concurrencies_and_a_rise():
    two = scenario_values([(load(c, c), tpot(c)) for c in (1, 2)])["seconds_per_added_request"]
    assert two.value is None
    assert "needs 3" in two.reason
    flat = scenario_values([(load(c, c), tpot(5)) for c in (1, 2, 4)])["seconds_per_added_request"]
    assert flat.value is None
    assert "does not rise" in flat.reason
