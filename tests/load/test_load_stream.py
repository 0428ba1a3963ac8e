"""Bytes in, stamped tokens out: every way in which packets, chunks and events fail to be tokens."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sse_script import DONE, HEAD, LAST, chunked, event, generate_answer, generate_event

from tpgate.load.engines import ENGINES
from tpgate.load.outcome import record_of
from tpgate.load.stream import Stream
from tpgate.specs import LoadSpec

MS = 1_000_000


def load(tokens: int, api: str = "generate") -> LoadSpec:
    return LoadSpec(1, 1, 1, input_tokens=8, output_tokens=tokens, api=api)


def read(parts, tokens, api="generate", step=20 * MS, failure=None):
    """The record of an answer whose reads came ``step`` apart, the first at ``step``."""
    stream = Stream(1, ENGINES[api].reader(), 0)
    stream.times += [step * place for place in range(1, len(parts) + 1)]
    stream.parts += parts
    stream.failure = failure
    stream.consume()
    stream.ended_ns = stream.last_ns
    return record_of(stream, load(tokens, api))


def completions_event(text, usage=None, finish=None):
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": usage})


def chat_event(delta, usage=None, finish=None):
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage})


def used(tokens):
    return {"prompt_tokens": 8, "completion_tokens": tokens}


def usage_only(tokens):
    return event({"choices": [], "usage": used(tokens)})


@pytest.mark.parametrize("cumulative", [False, True])
def test_four_tokens_a_chunk_at_20_ms_are_5_ms_a_token(cumulative):
    events = generate_answer(128, step=4, cumulative=cumulative)
    record = read([HEAD, *map(chunked, events), LAST], 128)
    assert record.outcome == "ok"
    assert list(record.chunk_tokens) == list(range(4, 129, 4))
    assert record.tpot_ns == 5.0 * MS
    assert record.arrived_tokens == 128
    gaps = {b - a for a, b in itertools.pairwise(record.chunk_ns)}
    assert gaps == {20 * MS}, "gaps between chunks stay raw; nothing is smeared over tokens"


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_four_tokens_a_chunk_over_the_openai_apis(api):
    make = completions_event if api == "completions" else lambda text, *rest: chat_event({"content": text}, *rest)
    events = [make("a b c d", used(n), "length" if n == 128 else None) for n in range(4, 129, 4)]
    record = read([HEAD, *map(chunked, [*events, usage_only(128), DONE]), LAST], 128, api)
    assert record.outcome == "ok"
    assert record.tpot_ns == 5.0 * MS
    assert (record.output_tokens, record.input_tokens) == (128, 8)


def test_speculative_bursts_keep_their_own_sizes():
    sizes = [1, 5, 1, 1, 4, 3, 1]
    ends = list(itertools.accumulate(sizes))
    events = [
        generate_event(end, list(range(size)), {"type": "length"} if end == ends[-1] else None)
        for size, end in zip(sizes, ends, strict=True)
    ]
    record = read([HEAD, *map(chunked, [*events, DONE]), LAST], ends[-1])
    assert record.outcome == "ok"
    assert list(record.chunk_tokens) == ends
    assert record.tpot_ns == 6 * 20 * MS / (16 - 1)
    assert record.arrived_tokens == 16


def test_chunks_without_counts_are_tokens_only_where_the_total_says_so():
    ones = [completions_event("x", finish="length" if n == 8 else None) for n in range(1, 9)]
    right = read([HEAD, *map(chunked, [*ones, usage_only(8), DONE]), LAST], 8, "completions")
    assert right.outcome == "ok"
    assert list(right.chunk_tokens) == list(range(1, 9))
    wrong = read([HEAD, *map(chunked, [*ones, usage_only(32), DONE]), LAST], 32, "completions")
    assert wrong.outcome.startswith("tokens per chunk are not known: 32 tokens, 8 chunks")
    late = [completions_event("x") for _ in range(7)] + [completions_event("x", used(32), "length")]
    jump = read([HEAD, *map(chunked, [*late, DONE]), LAST], 32, "completions")
    assert jump.outcome.startswith("tokens per chunk are not known"), "usage in the last chunk must not hide it"
    none = read([HEAD, *map(chunked, [*ones, DONE]), LAST], 8, "completions")
    assert none.outcome == "the server never said how many tokens it sent"


def test_a_role_stops_no_clock_and_reasoning_starts_it():
    events = [
        chat_event({"role": "assistant", "content": ""}, used(1)),
        chat_event({"content": ""}, used(0)),
        chat_event({"reasoning_content": "hm"}, used(1)),
        chat_event({"content": ""}, used(2)),
        chat_event({"content": "so"}, used(3), "length"),
        event({"choices": [], "usage": {**used(3), "completion_tokens_details": {"reasoning_tokens": 2}}}),
        DONE,
    ]
    record = read([HEAD, *map(chunked, events), LAST], 3, "chat")
    assert record.outcome == "ok"
    assert record.ttft_ns == 4 * 20 * MS
    assert list(record.chunk_tokens) == [1, 2, 3], "an empty delta whose usage grew does carry a token"
    assert record.reasoning_tokens == 2


def test_an_empty_event_bears_no_token():
    events = [generate_event(0, []), generate_event(1, [5]), generate_event(1, []), generate_event(2, [6], "length")]
    record = read([HEAD, *map(chunked, [*events, DONE]), LAST], 2)
    assert record.outcome == "ok"
    assert list(record.chunk_ns) == [3 * 20 * MS, 5 * 20 * MS]


def whole(api: str = "generate") -> bytes:
    """An answer with split-prone content: UTF-8 of several bytes, blank lines, a comment."""
    first = event({"text": "日本 tök\n\n", "output_ids": [1], "meta_info": {"completion_tokens": 1}})
    rest = generate_answer(3)[1:]
    return HEAD + b"".join(map(chunked, [b": ping\n\n", first, *rest])) + LAST


@given(st.lists(st.integers(1, len(whole()) - 1), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_split_and_merge_of_packets_reads_the_same(cuts):
    data = whole()
    places = sorted({0, len(data), *cuts})
    parts = [data[a:b] for a, b in itertools.pairwise(places)]
    record = read(parts, 3, step=1)
    assert record.outcome == "ok"
    assert record.chunk_tokens[-1] == 3
    ends = [data.index(b"\n\n", data.index(b'"completion_tokens": %d' % n)) + 2 for n in (1, 2, 3)]
    stamps = {n: next(place for place, end in enumerate(places[1:], 1) if end >= ends[n - 1]) for n in (1, 2, 3)}
    assert list(record.chunk_ns) == [stamps[n] for n in (1, 2, 3)], "an event's time is that of its last byte"


def test_one_byte_at_a_time_and_all_at_once():
    data = whole()
    assert read([bytes([byte]) for byte in data], 3).outcome == "ok"
    merged = read([data], 3)
    assert merged.outcome == "ok"
    assert merged.tpot_ns == 0


@pytest.mark.parametrize("line", ["\r\n", "\n"])
def test_line_ends_comments_other_fields_and_chunk_extensions(line):
    text = line.join(
        [
            ": hello",
            "event: message",
            "id: 7",
            'data:{"text":"a","output_ids":[1],',
            'data: "meta_info":{"completion_tokens":1}}',
            "",
            'data: {"text":"b","output_ids":[2],"meta_info":{"completion_tokens":2,"finish_reason":{"type":"length"}}}',
            "",
            "data: [DONE]",
            "",
            "",
        ]
    ).encode()
    parts = [HEAD, b"%X;name=value\r\n%s\r\n" % (len(text), text), b"0\r\nTrailer: 1\r\n\r\n"]
    record = read(parts, 2)
    assert record.outcome == "ok"
    assert list(record.chunk_tokens) == [1, 2]


def test_content_length_and_bodies_up_to_the_end_of_the_connection():
    body = b"".join(generate_answer(4))
    plain = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    assert read([plain + b"Content-Length: %d\r\n\r\n" % len(body), body[:50], body[50:]], 4).outcome == "ok"
    cut = read([plain + b"Content-Length: %d\r\n\r\n" % len(body), body[:-10]], 4)
    assert cut.outcome == "stream cut off after 4 of 4 tokens"
    assert read([plain + b"Connection: close\r\n\r\n", body], 4).outcome == "ok"
    undone = read([plain + b"Connection: close\r\n\r\n", b"".join(generate_answer(4)[:-1])], 4)
    assert undone.outcome == "no [DONE] at the end of the stream"


def test_an_interim_response_is_passed_over():
    assert read([b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD, *map(chunked, generate_answer(2)), LAST], 2).outcome == "ok"


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [
        ([b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n", b"too\n many"], "HTTP 503: too many"),
        ([b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n", LAST], "HTTP 404: no body"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"], "HTTP 200 without an event stream: {}"),
        ([b"SMTP hello\r\n\r\n"], "unreadable answer"),
        ([HEAD, chunked(b"data: {oops\n\n"), LAST], "unreadable answer"),
        ([HEAD, chunked(event({"error": {"message": "no memory"}})), chunked(DONE), LAST], "error event: no memory"),
        ([HEAD, *map(chunked, generate_answer(4)[:2])], "stream cut off after 2 of 4 tokens"),
        ([HEAD, *map(chunked, generate_answer(4)[:-1]), LAST], "no [DONE]"),
        ([HEAD, *map(chunked, generate_answer(3)), LAST], "3 of 4 tokens, finish reason length"),
        (
            [HEAD, chunked(generate_event(4, [1, 2, 3, 4], {"type": "stop"})), chunked(DONE), LAST],
            "4 of 4 tokens, finish reason stop",
        ),
        (
            [HEAD, chunked(generate_event(2, [1], {"type": "abort", "message": "too long"})), chunked(DONE), LAST],
            "error event: abort: too long",
        ),
        ([], "stream cut off after 0 of 4 tokens"),
    ],
)
def test_what_is_no_success_says_why(parts, outcome):
    assert read(parts, 4).outcome.startswith(outcome)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_an_error_inside_an_openai_stream_fails_the_request(api):
    text = event({"object": "error", "message": "out of memory", "code": 500})
    record = read([HEAD, chunked(text), chunked(DONE), LAST], 4, api)
    assert record.outcome == "error event: out of memory"


def test_what_arrived_before_a_failure_is_kept():
    record = read([HEAD, *map(chunked, generate_answer(8)[:5])], 8, failure="connection lost")
    assert record.outcome == "connection lost after 5 of 8 tokens"
    assert list(record.chunk_tokens) == [1, 2, 3, 4, 5]
    assert record.output_tokens == 5


def test_tokens_counted_at_the_end_that_never_arrived_fail():
    events = [completions_event("x", used(n), "length" if n == 4 else None) for n in range(1, 5)]
    record = read([HEAD, *map(chunked, [*events, usage_only(6), DONE]), LAST], 6, "completions")
    assert record.outcome == "6 tokens were counted at the end, 4 of them arrived in events"


def test_reads_with_several_emissions_of_a_stream_are_counted():
    stream = Stream(0, ENGINES["generate"].reader(), 0)
    answers = [chunked(text) for text in generate_answer(6)]
    stream.times += [1, 2, 3, 4]
    stream.parts += [HEAD, answers[0], answers[1] + answers[2], b"".join(answers[3:])]
    stream.consume()
    assert (stream.token_reads, stream.late_reads) == (3, 2)


def test_parsing_in_pieces_frees_what_was_parsed():
    stream = Stream(0, ENGINES["generate"].reader(), 0)
    stream.parts += [HEAD, *map(chunked, generate_answer(6))]
    stream.times += range(1, len(stream.parts) + 1)
    assert stream.consume(3) is False
    assert (len(stream.parts), len(stream.times), stream.last_ns) == (5, 5, 3)
    assert stream.consume(100) is True
    assert list(stream.chunk_tokens) == [1, 2, 3, 4, 5, 6]
