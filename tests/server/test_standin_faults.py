"""Each scripted break of the protocol, as a client sees it over a real socket."""

from __future__ import annotations

import asyncio
import json

import pytest
from standin_client import events, generate_body, run


def stream_of(tokens=6, **options):
    async def scenario(app, connect):
        return await (await connect()).stream("/generate", generate_body(tokens))

    return run(scenario, **options)


def test_drop_closes_in_mid_stream():
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        stream_of(fault_drop_every=1)


def test_error_event_stands_inside_a_200_stream():
    *_, last = events(stream_of(fault_error_event_every=1))
    assert last["error"]["code"] == 500


def test_refusals_are_503_for_the_nth_request_only():
    async def scenario(app, connect):
        client = await connect()
        seen = []
        for _ in range(4):
            client.send("/generate", generate_body())
            status, fields = await client.head()
            seen.append(status)
            await (client.rest() if status == 200 else client.reader.readexactly(int(fields["content-length"])))
        return seen

    assert run(scenario, fault_refuse_every=2) == [200, 503, 200, 503]


def test_probes_of_one_token_are_spared():
    async def scenario(app, connect):
        return (await (await connect()).ask("/generate", generate_body(1, stream=False)))[0]

    assert run(scenario, fault_refuse_every=1, fault_drop_every=1, fault_die_after_requests=1) == 200


def test_garbage_is_no_event():
    data = stream_of(fault_garbage_every=1)
    assert b"\x00\xff\xfe" in data
    with pytest.raises((UnicodeDecodeError, json.JSONDecodeError)):
        events(data)


def test_trickle_changes_nothing_but_the_pieces():
    assert events(stream_of(fault_trickle_every=1)) == events(stream_of())


def test_miscount_and_duplicate_break_the_sum():
    *chunks, _ = events(stream_of(fault_miscount=3))
    assert chunks[-1]["meta_info"]["completion_tokens"] == 8
    assert sum(len(chunk["output_ids"]) for chunk in chunks) == 6
    *chunks, _ = events(stream_of(fault_duplicate_every=1))
    assert sum(len(chunk["output_ids"]) for chunk in chunks) == 7
    assert chunks[-1]["meta_info"]["completion_tokens"] == 6


def test_missing_counts_are_missing():
    *chunks, _ = events(stream_of(fault_no_counts=1))
    assert not any("completion_tokens" in chunk["meta_info"] for chunk in chunks)


@pytest.mark.parametrize(("fault", "reason"), [("fault_early_stop_every", "length"), ("fault_early_eos_every", "stop")])
def test_early_ends(fault, reason):
    *chunks, _ = events(stream_of(**{fault: 1}))
    assert chunks[-1]["meta_info"]["completion_tokens"] == 3
    assert chunks[-1]["meta_info"]["finish_reason"]["type"] == reason


def test_cache_left_on_shows_cached_tokens():
    *chunks, _ = events(stream_of(fault_prefix_cache=0.7))
    assert chunks[0]["meta_info"]["cached_tokens"] == 2
    *chunks, _ = events(stream_of(fault_prefix_cache=0.7, disable_radix_cache=1))
    assert chunks[0]["meta_info"]["cached_tokens"] == 0


@pytest.mark.parametrize(
    "options", [{"fault_silent_every": 1}, {"fault_hang_after_requests": 1}, {"fault_never_ready": 1}]
)
def test_silence_keeps_the_connection_open_and_health_as_scripted(options):
    async def scenario(app, connect):
        first, second, other = await connect(), await connect(), await connect()
        first.send("/generate", generate_body())
        second.send("/generate", generate_body())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.reader.readuntil(b"[DONE]"), 0.1)
        return (await other.ask("/health"))[0]

    assert run(scenario, **options) == (503 if "fault_never_ready" in options else 200)


def test_version_changes_after_n_requests():
    async def scenario(app, connect):
        client = await connect()
        versions = []
        for _ in range(2):
            versions.append(json.loads((await client.ask("/server_info"))[1])["version"])
            await client.stream("/generate", generate_body())
        versions.append(json.loads((await client.ask("/server_info"))[1])["version"])
        return versions

    assert run(scenario, fault_version_after_requests=2) == ["0.5.23", "0.5.23", "0.5.23.post1"]


def test_counters_off():
    async def scenario(app, connect):
        client = await connect()
        await client.stream("/generate", generate_body(tokens=20))
        return (await client.ask("/metrics"))[1].decode()

    assert 'generation_tokens_total{engine_type="unified",model_name="standin"} 22.0' in run(
        scenario, fault_counter_off=0.1
    )


def test_lost_clients_are_forgotten():
    async def scenario(app, connect):
        client = await connect()
        client.send("/generate", generate_body(tokens=2000))
        await client.head()
        client.writer.close()
        for _ in range(200):
            if not app.scheduler.busy:
                break
            await asyncio.sleep(0.005)
        return app.scheduler.busy, app.counters.aborted

    assert run(scenario) == (False, 1)


def test_profile_can_fail(tmp_path):
    async def scenario(app, connect):
        return (await (await connect()).ask("/start_profile", {"output_dir": str(tmp_path)}))[0]

    assert run(scenario, fault_profile_fails=1) == 500
