"""Open loop: the schedule, how it was kept, goodput and the knee."""

from __future__ import annotations

import itertools
import statistics
from array import array

import pytest
from sse_script import ScriptedServer, good

from tpgate.errors import LoadError
from tpgate.load.arrivals import arrival_report, offsets_ns
from tpgate.load.generator import drive
from tpgate.load.goodput import Limits, goodput, meets
from tpgate.load.knee import climb, step_of
from tpgate.load.records import ClientHealth, LoadResult, RequestRecord
from tpgate.specs import LoadSpec

S = 1_000_000_000


def record(index, started, ttft, end, tokens=11, warmup=False, outcome="ok", scheduled=None):
    """A request with its first token ``ttft`` after its start and its last at ``end``; times in seconds."""
    times = array("q", [round((started + ttft) * S), round(end * S)])
    return RequestRecord(
        index=index,
        warmup=warmup,
        scheduled_ns=round((started if scheduled is None else scheduled) * S),
        started_ns=round(started * S),
        chunk_ns=memoryview(times),
        chunk_tokens=memoryview(array("i", [1, tokens])),
        ended_ns=round(end * S),
        output_tokens=tokens,
        outcome=outcome,
    )


def open_load(**changes) -> LoadSpec:
    given = {"concurrency": 8, "requests": 40, "warmup_requests": 0, "rate": 400.0}
    return LoadSpec(**{**given, "input_tokens": 8, "output_tokens": 4, **changes})


def test_constant_arrivals_are_evenly_spaced_and_never_drift():
    offsets = offsets_ns(open_load(rate=3.0, requests=301))
    assert offsets[0] == 0
    assert offsets[300] == 100 * S
    assert {b - a for a, b in itertools.pairwise(offsets)} <= {333_333_333, 333_333_334}


def test_poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process():
    load = open_load(rate=50.0, requests=20_000, arrivals="poisson")
    offsets = offsets_ns(load)
    gaps = [(b - a) / S for a, b in itertools.pairwise(offsets)]
    assert statistics.fmean(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert offsets == offsets_ns(load), "the seed fixes it"
    assert offsets != offsets_ns(open_load(rate=50.0, requests=20_000, arrivals="poisson", seed=2))
    assert offsets_ns(LoadSpec(2, 4, 2)) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_an_open_loop_keeps_its_absolute_schedule(processes):
    load = open_load(warmup_requests=4)
    with ScriptedServer(good) as server:
        result = drive(server.url, load, vocabulary=2048, processes=processes)
    assert [each.outcome for each in result.records] == ["ok"] * 44
    if processes == 1:
        assert [each.scheduled_ns - result.started_ns for each in result.records] == offsets_ns(load)
    assert all(each.started_ns >= each.scheduled_ns for each in result.records)
    report = arrival_report(result.records, 400.0)
    assert report.achieved_rate == pytest.approx(400, rel=0.25)
    assert 0 <= report.lag_p50_s <= report.lag_p99_s <= report.lag_max_s


def test_requests_over_the_cap_wait_and_their_lag_says_so():
    import time

    def slow(request):
        time.sleep(0.02)
        yield from good(request)

    with ScriptedServer(slow) as server:
        result = drive(server.url, open_load(concurrency=1, requests=10), vocabulary=2048)
    assert server.connections == 1
    report = arrival_report(result.records, 400.0)
    assert report.lag_max_s > 0.1
    assert report.achieved_rate < 60


def test_idle_connections_that_the_server_closes_are_replaced():
    def script(request):
        yield from good(request)
        yield None

    with ScriptedServer(script) as server:
        result = drive(server.url, open_load(concurrency=2, requests=12, rate=100.0), vocabulary=2048)
    assert [each.outcome for each in result.records] == ["ok"] * 12
    assert server.connections >= 12


def test_the_arrival_report_is_exact():
    records = [record(0, 0, 0.1, 1, warmup=True)]
    records += [record(n, 1.0 * n + 0.01 * n, 0.1, n + 1, scheduled=1.0 * n) for n in range(1, 5)]
    report = arrival_report(records, 1.0)
    assert report.achieved_rate == pytest.approx(3 / 3.03)
    assert (report.lag_p50_s, report.lag_max_s) == (pytest.approx(0.03), pytest.approx(0.04))
    assert arrival_report(records[:1], 1.0) is None


def test_goodput_counts_what_met_every_limit():
    records = [
        record(0, 0, 0.1, 1.1, warmup=True),
        record(1, 0, 0.1, 1.1),  # TPOT 0.1
        record(2, 0, 0.3, 1.3),  # late first token
        record(3, 0, 0.1, 5.1),  # TPOT 0.5
        record(4, 0, 0.1, 1.1, outcome="HTTP 503: busy"),
    ]
    found = goodput(records, Limits(ttft_s=0.2, tpot_s=0.2), 2.0)
    assert (found.met, found.total, found.tokens) == (1, 4, 11)
    assert (found.requests_per_second, found.tokens_per_second, found.share) == (0.5, 5.5, 0.25)
    assert goodput(records, Limits(), 1.0).met == 3
    assert goodput(records, Limits(e2e_s=1.2), 1.0).met == 1
    assert goodput([], Limits(), 1.0).share is None
    with pytest.raises(ValueError, match="window"):
        goodput(records, Limits(), 0)


def test_a_latency_that_is_not_known_meets_no_limit():
    one_chunk = RequestRecord(0, False, 0, 0, memoryview(array("q", [S])), memoryview(array("i", [4])), S, 4)
    assert meets(one_chunk, Limits(ttft_s=2))
    assert not meets(one_chunk, Limits(tpot_s=2))


def queue(capacity: float):
    """An open-loop server that ends at most ``capacity`` requests a second, in order: a scripted truth."""
    levels = []

    def drive_level(rate: float) -> LoadResult:
        levels.append(rate)
        free, records = 0.0, []
        for index in range(200):
            due = index / rate
            free = max(free, due) + 1 / capacity
            records.append(record(index, due, free - due, free + 1.0))
        return LoadResult(tuple(records), 0, round(free * S), 0, ClientHealth(0, 0, 0, None, 0))

    return drive_level, levels


def test_the_ramp_finds_the_rate_that_the_server_sustains():
    drive_level, levels = queue(37.0)
    ramp = climb(drive_level, first=5, last=1000, refine=6)
    assert ramp.bounded
    assert ramp.knee.level == pytest.approx(37.5, rel=0.06), "95 % of the rate still counts as kept up"
    assert levels[:4] == [5, 10, 20, 40]
    assert [step.level for step in ramp.steps] == sorted(levels)


def test_limits_bring_the_knee_down():
    drive_level, _ = queue(37.0)
    assert climb(drive_level, first=5, last=1000, limits=Limits(ttft_s=0.001)).knee is None


def test_a_ramp_that_never_meets_the_limit_says_that_the_knee_lies_higher():
    drive_level, _ = queue(1000.0)
    ramp = climb(drive_level, first=5, last=40)
    assert (ramp.knee.level, ramp.bounded) == (40, False)


def test_a_concurrency_ramp_stops_where_more_of_it_does_not_pay():
    def drive_level(level: float) -> LoadResult:
        rate = 100 * min(level, 24)  # tokens a second: grows up to 24 in flight
        end = 11 * 10 / rate
        records = tuple(record(index, 0, end / 10, end) for index in range(10))
        return LoadResult(records, 0, round(end * S), 0, ClientHealth(0, 0, 0, None, 0))

    ramp = climb(drive_level, first=1, last=256, whole=True, refine=4)
    assert 16 <= ramp.knee.level <= 32
    assert all(step.level == int(step.level) for step in ramp.steps)


def test_a_step_without_requests_has_no_figures():
    step = step_of(1.0, LoadResult((), 0, 0, 0, ClientHealth(0, 0, 0, None, 0)))
    assert (step.arrival_rate, step.end_rate, step.ttft_p50_s, step.keeps_up) == (None, None, None, False)


@pytest.mark.parametrize(
    "wrong", [{"first": 0, "last": 1}, {"first": 2, "last": 1}, {"first": 1, "last": 2, "factor": 1}]
)
def test_a_ramp_that_is_none_is_refused(wrong):
    with pytest.raises(LoadError, match="a ramp from"):
        climb(queue(1)[0], **wrong)
