import dataclasses

import pytest
from synthetic import load, waves

from tpgate.measure.validity import ServerCounts, counter_doubts, request_doubts, stationarity_doubts

SPEC = load(concurrency=4, requests=12, tokens=8)


def altered(position, **changes):
    outcome = waves(SPEC)
    records = list(outcome.records)
    records[position] = dataclasses.replace(records[position], **changes)
    return dataclasses.replace(outcome, records=tuple(records))


def checks(doubts):
    return [(doubt.check, doubt.fatal) for doubt in doubts]


def test_a_sound_run_raises_no_doubt():
    assert request_doubts(waves(SPEC), SPEC) == []
    assert stationarity_doubts(waves(SPEC)) == []
    assert counter_doubts(waves(SPEC), ServerCounts(generated_tokens=128)) == []


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"outcome": "http 503"}, "failed_requests", "1 of 16 requests failed: 1 x http 503"),
        (
            {"output_tokens": 5, "arrived_tokens": 5},
            "output_length",
            "1 requests brought 5 output tokens, 8 were asked",
        ),
        ({"input_tokens": 4}, "input_length", "1 prompts counted 4 tokens, 8 were sent"),
        ({"arrived_tokens": 6}, "token_count", "1 requests: 6 tokens arrived, the server says 8"),
        ({"cached_tokens": 7}, "prefix_cache", "1 of 16 prompts took 7 tokens from the prefix cache"),
    ],
)
def test_one_wrong_request_makes_the_run_void(changes, check, words):
    doubts = request_doubts(altered(7, **changes), SPEC)
    assert checks(doubts) == [(check, True)]
    assert doubts[0].reason == words
    assert doubts[0].advice


def test_missing_requests_and_stalls_are_void():
    outcome = waves(SPEC)
    cut = dataclasses.replace(outcome, records=outcome.records[:-1], stalled="no token for 60 s")
    assert checks(request_doubts(cut, SPEC)) == [("stalled", True), ("request_count", True)]


@pytest.mark.parametrize("server", [64, 127, 129, 256])
def test_server_counter_that_disagrees_is_void_with_both_figures(server):
    doubts = counter_doubts(waves(SPEC), ServerCounts(generated_tokens=server))
    assert checks(doubts) == [("server_counter", True)]
    assert "128" in doubts[0].reason
    assert str(server) in doubts[0].reason


def test_server_without_counter_is_noted():
    assert checks(counter_doubts(waves(SPEC), ServerCounts())) == [("server_counter", False)]


def test_tpot_that_doubles_within_the_run_is_void_and_a_small_drift_noted():
    spec = load(concurrency=2, requests=12, tokens=8)
    doubled = stationarity_doubts(waves(spec, slower_from=8))
    assert checks(doubled) == [("not_stationary", True)]
    assert "rose from 2.00 to 4.00 ms" in doubled[0].reason
