"""The generator against a scripted server on real sockets: order, keep-alive, faults, deadlines, Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from sse_script import DONE, HEAD, LAST, ScriptedServer, chunked, generate_answer, good

from tpgate.errors import LoadError
from tpgate.load.generator import drive
from tpgate.load.job import INTERRUPTED
from tpgate.specs import LoadSpec


def cell(concurrency=2, requests=6, tokens=4, **rest) -> LoadSpec:
    return LoadSpec(concurrency, requests, concurrency, input_tokens=8, output_tokens=tokens, **rest)


def run(script, load=None, **options):
    with ScriptedServer(script) as server:
        result = drive(server.url, load or cell(), vocabulary=2048, **options)
    return result, server


def outcomes(result):
    return [record.outcome for record in result.records]


def test_closed_loop_keeps_its_connections_and_its_order():
    seen = []
    result, server = run(good, cell(4, 20), progress=lambda done, total: seen.append((done, total)))
    assert outcomes(result) == ["ok"] * 24
    assert [record.index for record in result.records] == list(range(24))
    assert [record.warmup for record in result.records] == [True] * 4 + [False] * 20
    assert server.connections == 4, "keep-alive: one connection a slot"
    assert sorted(request.index for request in server.requests) == list(range(24))
    assert result.stalled is None
    assert all(record.scheduled_ns == record.started_ns for record in result.records)
    assert result.started_ns <= min(record.started_ns for record in result.records)
    assert result.ended_ns == max(record.ended_ns for record in result.records)
    assert all(total == 24 for _, total in seen)


def test_warm_up_is_handed_over_without_draining():
    """The slow warm-up request is still on its way when the measured ones are served."""
    release = threading.Event()

    def script(request):
        if request.index == 0:
            release.wait(10)
        if request.index == 5:
            release.set()
        yield from good(request)

    result, _ = run(script, cell(2, 6))
    assert outcomes(result) == ["ok"] * 8
    slow = result.records[0]
    assert sum(record.started_ns < slow.ended_ns for record in result.records if not record.warmup) >= 4


def test_requests_ask_for_what_the_load_says_and_never_share_a_prefix():
    _, server = run(good, cell(2, 6, tokens=5), salt="launch-1")
    bodies = [request.body for request in server.requests]
    assert {len(body["input_ids"]) for body in bodies} == {8}
    assert len({body["input_ids"][0] for body in bodies}) == len(bodies)
    assert all(body["sampling_params"]["ignore_eos"] and body["stream"] for body in bodies)
    assert {body["sampling_params"]["max_new_tokens"] for body in bodies} == {5}
    assert {request.path for request in server.requests} == {"/generate"}


def test_a_failed_request_is_counted_and_the_load_goes_on():
    def script(request):
        if request.index == 3:
            yield b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull"
            yield None
        yield from good(request)

    result, server = run(script)
    assert outcomes(result) == ["ok"] * 3 + ["HTTP 503: full"] + ["ok"] * 4
    assert server.connections == 3


def test_a_stream_cut_in_the_middle_fails_and_its_slot_is_filled_again():
    def script(request):
        if request.index == 3:
            yield HEAD + b"".join(map(chunked, generate_answer(4)[:2]))
            yield None
        yield from good(request)

    result, _ = run(script)
    assert outcomes(result)[3] == "connection closed by the server after 2 of 4 tokens"
    assert list(result.records[3].chunk_tokens) == [1, 2]
    assert outcomes(result).count("ok") == 7


def test_a_terminator_split_over_packets_and_trailers_end_an_answer():
    def script(request):
        answer = HEAD + b"".join(map(chunked, generate_answer(4)))
        yield answer + b"0\r"
        yield b"\n\r" if request.index % 2 else b"\nX-Sum: 1\r\n\r"
        yield b"\n"

    result, server = run(script, cell(2, 4))
    assert outcomes(result) == ["ok"] * 6
    assert server.connections == 2


def test_a_request_on_a_connection_that_the_server_was_closing_is_sent_again_once():
    """Every connection answers one request and is then closed without notice, as by a keep-alive time-out."""

    def script(request):
        yield from good(request)
        yield None

    result, server = run(script, cell(1, 3))
    assert outcomes(result) == ["ok"] * 4
    assert server.connections == 4


def test_one_silent_stream_fails_at_its_deadline_and_the_others_go_on():
    def script(request):
        if request.index == 3:
            yield HEAD + b"".join(map(chunked, generate_answer(4)[:2]))
            stop.wait(10)
            yield None
        if request.index > 3:
            time.sleep(0.03)
        yield from good(request)

    stop = threading.Event()
    with ScriptedServer(script) as server:
        result = drive(server.url, cell(2, 40), vocabulary=2048, stall_timeout_s=0.3)
        stop.set()
    assert result.stalled is None
    assert outcomes(result)[3] == "no byte for 0.3 s after 2 of 4 tokens"
    assert outcomes(result).count("ok") == 41


def test_an_answer_that_never_ends_meets_the_request_deadline():
    def script(request):
        yield HEAD + b"".join(map(chunked, generate_answer(4)))
        while not stop.wait(0.02) and request.index == 2:
            yield chunked(b": still here\n\n")
        yield LAST

    stop = threading.Event()
    with ScriptedServer(script) as server:
        result = drive(server.url, cell(1, 2), vocabulary=2048, request_timeout_s=0.3, stall_timeout_s=5)
        stop.set()
    assert outcomes(result)[2] == "no end within 0.3 s after 4 of 4 tokens"
    assert outcomes(result)[:2] == ["ok", "ok"]


def test_a_server_that_goes_silent_ends_the_load_and_what_came_is_kept():
    stop = threading.Event()

    def script(request):
        if request.index >= 3:
            yield HEAD + chunked(generate_answer(4)[0])
            stop.wait(10)
            yield None
        yield from good(request)

    with ScriptedServer(script) as server:
        result = drive(server.url, cell(2, 6), vocabulary=2048, stall_timeout_s=0.25)
        stop.set()
    assert result.stalled == "no byte from any stream for 0.25 s"
    assert outcomes(result)[:3] == ["ok"] * 3
    assert len(result.records) < 8, "requests that were never sent have no record"
    assert result.records[-1].outcome == "no byte from any stream for 0.25 s after 1 of 4 tokens"


def test_a_server_that_dies_ends_the_load_and_what_came_is_kept():
    def script(request):
        if request.index == 4:
            threading.Thread(target=server.stop).start()
            time.sleep(0.2)
        yield from good(request)

    with ScriptedServer(script) as server:
        result = drive(server.url, cell(1, 50), vocabulary=2048)
    assert result.stalled.startswith("server gone: cannot connect to 127.0.0.1:")
    assert outcomes(result)[:4] == ["ok"] * 4
    assert not result.records[4].ok


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_keeps_what_came(processes):
    def script(request):
        if request.number == 5:
            os.kill(os.getpid(), signal.SIGINT)
        if request.number >= 5:
            time.sleep(0.1)
        yield from good(request)

    result, _ = run(script, cell(2, 500), processes=processes)
    assert result.stalled == INTERRUPTED
    assert outcomes(result).count("ok") >= 4
    assert len(result.records) < 502
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_several_processes_are_merged_exactly():
    result, server = run(good, cell(5, 18), processes=2)
    assert result.health.processes == 2
    assert [record.index for record in result.records] == list(range(23))
    assert outcomes(result) == ["ok"] * 23
    assert all(list(record.chunk_tokens) == [1, 2, 3, 4] for record in result.records)
    assert sorted(request.index for request in server.requests) == list(range(23))
    assert server.connections == 5
    single, _ = run(good, cell(5, 18))
    assert [r.output_tokens for r in single.records] == [r.output_tokens for r in result.records]


def test_a_server_that_is_not_there_is_named(unused_port):
    for processes in (1, 2):
        with pytest.raises(LoadError, match=f"cannot connect to 127.0.0.1:{unused_port}"):
            drive(f"http://127.0.0.1:{unused_port}", cell(), vocabulary=2048, processes=processes)


@pytest.mark.parametrize("url", ["https://x:1", "127.0.0.1:30000", "http://", "http://x:99999"])
def test_a_wrong_url_is_named(url):
    with pytest.raises(LoadError, match="server URL"):
        drive(url, cell(), vocabulary=2048)


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_chat_and_completions_requests_ask_for_counts_in_every_event():
    def script(request):
        yield HEAD + chunked(DONE) + LAST

    for api, path in (("chat", "/v1/chat/completions"), ("completions", "/v1/completions")):
        result, server = run(script, cell(api=api), model="m")
        assert {request.path for request in server.requests} == {path}
        assert all(request.body["stream_options"]["continuous_usage_stats"] for request in server.requests)
        assert {request.body["model"] for request in server.requests} == {"m"}
        assert set(outcomes(result)) == {"the server never said how many tokens it sent"}
