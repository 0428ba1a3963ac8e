"""The stand-in over a real socket: what SGLang's endpoints answer, and each scripted break of it."""

from __future__ import annotations

import asyncio
import json

import pytest
from standin_client import events, generate_body, run


def stream_of(path="/generate", body=None, **options):
    async def scenario(app, connect):
        client = await connect()
        return events(await client.stream(path, body or generate_body()))

    return run(scenario, **options)


def test_generate_streams_new_ids_and_cumulative_counts():
    *chunks, done = stream_of()
    assert done == "[DONE]"
    assert [chunk["meta_info"]["completion_tokens"] for chunk in chunks] == [1, 2, 3, 4]
    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 1, 1, 1]
    assert [chunk["meta_info"]["finish_reason"] for chunk in chunks[:-1]] == [None] * 3
    assert chunks[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 4}
    assert chunks[0]["meta_info"]["prompt_tokens"] == 3
    assert chunks[0]["meta_info"]["cached_tokens"] == 0


def test_cumulative_streaming_repeats_all_ids():
    *chunks, _ = stream_of(incremental_streaming_output=0)
    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 2, 3, 4]


def test_stream_interval_puts_several_tokens_into_a_chunk():
    *chunks, _ = stream_of(body=generate_body(tokens=7), stream_interval=3)
    assert [chunk["meta_info"]["completion_tokens"] for chunk in chunks] == [1, 3, 6, 7]
    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 2, 3, 1]


def test_generate_without_a_stream_is_one_body():
    async def scenario(app, connect):
        status, body = await (await connect()).ask("/generate", generate_body(stream=False))
        return status, json.loads(body)

    status, body = run(scenario)
    assert status == 200
    assert len(body["output_ids"]) == body["meta_info"]["completion_tokens"] == 4


def test_completions_end_with_usage_where_asked():
    body = {"prompt": [1, 2], "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    *chunks, last, done = stream_of("/v1/completions", body)
    assert done == "[DONE]"
    assert all(chunk["choices"][0]["text"] for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3


def test_chat_begins_with_a_role_and_keeps_reasoning_apart():
    body = {"messages": [{"role": "user", "content": "a b"}], "max_tokens": 3, "stream": True}
    first, *chunks, _ = stream_of("/v1/chat/completions", body, reasoning_tokens=1)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [next(iter(chunk["choices"][0]["delta"])) for chunk in chunks] == ["reasoning_content", "content", "content"]


@pytest.mark.parametrize("body", [{}, {"input_ids": []}, {"input_ids": [1], "sampling_params": {"max_new_tokens": 0}}])
def test_bad_bodies_are_answered_400(body):
    async def scenario(app, connect):
        return (await (await connect()).ask("/generate", body))[0]

    assert run(scenario) == 400


def test_requests_on_one_connection_follow_each_other():
    async def scenario(app, connect):
        client = await connect()
        client.send("/generate", generate_body())
        client.send("/health")
        await client.head()
        data = await client.rest()
        return events(data)[-1], (await client.head())[0]

    assert run(scenario) == ("[DONE]", 200)


def test_counters_and_truth_add_up():
    async def scenario(app, connect):
        clients = [await connect() for _ in range(3)]
        await asyncio.gather(*(client.stream("/generate", generate_body(tokens=5)) for client in clients))
        _, text = await clients[0].ask("/metrics")
        _, info = await clients[0].ask("/server_info")
        _, truth = await clients[0].ask("/standin/truth")
        return text.decode(), json.loads(info), json.loads(truth)

    text, info, truth = run(scenario, tp=2)
    rows = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    total = next(value for key, value in rows.items() if key.startswith("sglang:generation_tokens_total"))
    decoded = next(value for key, value in rows.items() if 'mode="decode"' in key)
    assert (float(total), float(decoded)) == (15, 12)
    assert info["tp_size"] == 2
    assert info["_standin"]["decode_step_s"]["1"] == pytest.approx(0.00041)
    assert info["_standin"]["late_max_s"] >= 0
    assert [request["tokens"] for request in truth["requests"]] == [5, 5, 5]
    for request in truth["requests"]:
        assert request["first_sent_ns"] >= request["first_planned_ns"] > request["arrived_ns"]


def test_flush_is_refused_while_busy_and_can_wait():
    async def scenario(app, connect):
        worker, other = await connect(), await connect()
        worker.send("/generate", generate_body(tokens=40))
        await worker.head()
        busy = await other.ask("/flush_cache", method="POST")
        waited = await other.ask("/flush_cache?timeout=5", method="POST")
        return busy[0], waited[0], app.scheduler.busy

    assert run(scenario) == (400, 200, False)


def test_profile_writes_one_trace_a_rank(tmp_path):
    async def scenario(app, connect):
        client, other = await connect(), await connect()
        body = {"output_dir": str(tmp_path), "num_steps": 3, "profile_id": "p"}
        first = await other.ask("/start_profile", body)
        second = await other.ask("/start_profile", body)
        await client.stream("/generate", generate_body(tokens=8))
        return first[0], second[0]

    assert run(scenario, tp=2) == (200, 500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p-TP-0.trace.json.gz", "p-TP-1.trace.json.gz"]


def test_stop_profile_ends_an_open_one(tmp_path):
    async def scenario(app, connect):
        client = await connect()
        await client.ask("/start_profile", {"output_dir": str(tmp_path), "profile_id": "p"})
        await client.stream("/generate", generate_body())
        return (await client.ask("/stop_profile", {}))[0]

    assert run(scenario) == 200
    assert [path.name for path in tmp_path.iterdir()] == ["p-TP-0.trace.json.gz"]


def test_unknown_paths_are_404():
    async def scenario(app, connect):
        return (await (await connect()).ask("/get_load"))[0]

    assert run(scenario) == 404
