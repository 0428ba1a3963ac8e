import dataclasses

import pytest
from synthetic import MS, load, record, result, waves

from tpgate.measure.window import SteadyWindow, mean_in_flight, steady_window


def test_window_holds_whole_waves_between_warm_up_and_drain():
    spec = load(concurrency=4, requests=12, tokens=8)
    window = steady_window(waves(spec), spec)
    # A wave takes 10 ms prefill + 7 steps of 2 ms = 24 ms. Wave 1 is warm-up; the last request is issued at the start
    # of wave 4, which ends at 96 ms.
    assert isinstance(window, SteadyWindow)
    assert (window.start_ns, window.end_ns) == (24 * MS, 96 * MS)
    assert window.concurrency == pytest.approx(4.0)
    assert window.seconds == pytest.approx(0.072)


def test_window_ends_with_the_first_completion_after_the_last_issue():
    spec = load(concurrency=2, requests=2, tokens=2)
    records = [
        record(0, 0, [(5, 1), (10, 2)], warmup=True),
        record(1, 0, [(5, 1), (14, 2)], warmup=True),
        record(2, 10, [(15, 1), (40, 2)]),
        record(3, 14, [(20, 1), (60, 2)]),
    ]
    window = steady_window(result(records), spec)
    assert isinstance(window, SteadyWindow)
    assert (window.start_ns, window.end_ns) == (14 * MS, 40 * MS)


def test_requests_that_were_never_issued_leave_no_window():
    spec = load(concurrency=4, requests=12)
    whole = waves(spec)
    reason = steady_window(dataclasses.replace(whole, records=whole.records[:10]), spec)
    assert reason == "only 10 of 16 requests were issued"


def test_too_few_requests_leave_no_window_and_say_so():
    spec = load(concurrency=4, requests=2, tokens=4)
    records = [record(i, 0, [(5, 1), (10 + i, 4)], warmup=True) for i in range(4)]
    records += [record(4, 10, [(20, 1), (30, 4)]), record(5, 11, [(20, 1), (30, 4)])]
    reason = steady_window(result(records), spec)
    assert isinstance(reason, str)
    assert "raise the number of requests" in reason


def test_concurrency_under_the_target_is_no_steady_state():
    spec = load(concurrency=4, requests=4, tokens=2)
    records = [record(i, 0, [(5, 1), (10, 2)], warmup=True) for i in range(4)]
    # The client lets the server run half empty: two at a time instead of four.
    records += [record(4, 10, [(15, 1), (20, 2)]), record(5, 10, [(15, 1), (20, 2)])]
    records += [record(6, 20, [(25, 1), (30, 2)]), record(7, 20, [(25, 1), (30, 2)])]
    reason = steady_window(result(records), spec)
    assert reason == "achieved concurrency 2.00 is under 3.60, the target being 4"


def test_open_loop_window_spans_the_measured_arrivals():
    spec = load(concurrency=64, requests=3, warmup_requests=1, rate=100.0)
    records = [record(0, 0, [(5, 1), (6, 8)], warmup=True)]
    records += [record(i, 10 * i, [(10 * i + 5, 1), (10 * i + 9, 8)]) for i in (1, 2, 3)]
    window = steady_window(result(records), spec)
    assert isinstance(window, SteadyWindow)
    assert (window.start_ns, window.end_ns) == (10 * MS, 30 * MS)


def test_mean_in_flight_weighs_by_time():
    records = (record(0, 0, [(5, 1), (10, 2)]), record(1, 5, [(8, 1), (20, 2)]))
    assert mean_in_flight(records, 0, 20 * MS) == pytest.approx((10 + 15) / 20)
