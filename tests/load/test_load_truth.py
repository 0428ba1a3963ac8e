"""The truth server keeps its schedule and its log, and the client reads it as it was."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

import pytest

from tpgate.errors import LoadError
from tpgate.load.generator import drive
from tpgate.load.truth import Emission, Kind, Schedule, emissions, start, truth_of
from tpgate.load.truth.build import build, compiler
from tpgate.load.truth.emissions import pack
from tpgate.specs import LoadSpec

FAST = Schedule(tick_us=4000, first_us=6000)
KINDS = [pytest.param(True, id="c", marks=pytest.mark.skipif(compiler() is None, reason="no C compiler")), False]
needs_cc = pytest.mark.skipif(compiler() is None, reason="no C compiler")


def cell(api="generate", concurrency=4, requests=4, tokens=12) -> LoadSpec:
    return LoadSpec(concurrency, requests, concurrency, input_tokens=16, output_tokens=tokens, api=api)


def run(schedule, load, native, **options):
    with start(schedule, native=native) as server:
        assert server.native is bool(native)
        result = drive(server.url, load, vocabulary=2048, **options)
        log = server.emissions()
    return result, truth_of(log)


@pytest.mark.parametrize("native", KINDS)
@pytest.mark.parametrize("api", ["generate", "completions", "chat"])
@pytest.mark.parametrize("schedule", [FAST, replace(FAST, chunk=5, split=True), replace(FAST, merge=2)])
def test_the_client_reads_what_the_server_wrote(native, api, schedule):
    result, truth = run(schedule, cell(api), native)
    assert [record.outcome for record in result.records] == ["ok"] * 8
    for record in result.records:
        emitted = truth[record.index].emitted
        assert list(record.chunk_tokens)[-1] == emitted[-1][1] == 12
        assert record.input_tokens == 16
        assert record.arrived_tokens == (12 if api == "generate" else None)
        assert record.ttft_ns > truth[record.index].ttft_ns > 6_000_000
        assert all(stamp > truth[record.index].arrived_ns for stamp in record.chunk_ns)
        first = next(when for when, tokens in emitted if tokens >= record.chunk_tokens[0])
        assert record.chunk_ns[0] > first, "never stamped before it was written"


@pytest.mark.parametrize("native", KINDS)
def test_a_cumulative_stream_counts_the_same(native):
    result, truth = run(replace(FAST, cumulative=True, chunk=4), cell(), native)
    assert {record.outcome for record in result.records} == {"ok"}
    assert {tuple(record.chunk_tokens) for record in result.records} == {(4, 8, 12)}
    assert {record.arrived_tokens for record in result.records} == {12}
    assert {tuple(tokens for _, tokens in each.emitted) for each in truth.values()} == {(4, 8, 12)}


FAULTS = {
    "http503": "HTTP 503: ",
    "errorevent": "error event: scripted failure",
    "cut": "connection ",
    "nodone": "no [DONE]",
    "short": "6 of 12 tokens, finish reason stop",
    "endless": "no end within 0.4 s after 12 of 12 tokens",
    "silent": "no byte for 0.2 s after 6 of 12 tokens",
}


@pytest.mark.parametrize("native", KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_fails_its_requests_and_no_other(native, fault):
    """The fifteenth request is broken; a silent one is noticed while the others go on."""
    load = cell(requests=26 if fault == "silent" else 16, concurrency=2)
    timeouts = {"request_timeout_s": 0.4 if fault == "endless" else 60, "stall_timeout_s": 0.2}
    if fault == "endless":
        timeouts["stall_timeout_s"] = 60
    result, _ = run(replace(FAST, fault=fault, every=15), load, native, **timeouts)
    failed = [record.outcome for record in result.records if not record.ok]
    assert failed, "the fault was not seen"
    assert all(outcome.startswith(FAULTS[fault]) for outcome in failed), failed
    assert len(failed) == 1
    assert result.stalled is None


@pytest.mark.parametrize("native", KINDS)
def test_a_stall_shows_in_the_truth_and_in_the_client_alike(native):
    result, truth = run(replace(FAST, stall_tick=5, stall_us=120_000), cell(requests=4), native)
    widest = max(b - a for each in truth.values() for (a, _), (b, _) in itertools.pairwise(each.emitted))
    seen = max(b - a for record in result.records for a, b in itertools.pairwise(record.chunk_ns))
    assert widest > 110_000_000
    assert seen == pytest.approx(widest, abs=30_000_000)


@pytest.mark.parametrize("native", KINDS)
def test_slots_make_requests_wait_in_order(native):
    result, truth = run(replace(FAST, slots=1), cell(concurrency=3, requests=3), native)
    assert {record.outcome for record in result.records} == {"ok"}
    spans = sorted((each.emitted[0][0], each.emitted[-1][0]) for each in truth.values())
    assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))


def test_the_log_survives_a_cut_last_entry(tmp_path):
    entries = [
        Emission(5, 1, 0, 0, Kind.ARRIVAL),
        Emission(9, 1, 0, 4, Kind.EMISSION),
        Emission(19, 1, 0, 8, Kind.EMISSION),
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(pack, entries)) + b"half")
    assert emissions(path) == entries
    truth = truth_of(entries)[1]
    assert (truth.ttft_ns, truth.tpot_ns) == (4, 2.5)
    assert truth_of(entries[:1])[1].ttft_ns is None


@needs_cc
def test_a_build_is_kept_and_reused(tmp_path):
    path = build(tmp_path)
    before = path.stat().st_mtime_ns
    assert build(tmp_path) == path
    assert path.stat().st_mtime_ns == before
    assert os.access(path, os.X_OK)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_without_a_compiler_the_c_server_is_refused_and_python_stands_in(monkeypatch):
    monkeypatch.setattr("tpgate.load.truth.build.compiler", lambda: None)
    with pytest.raises(LoadError, match="cannot be built"), start(native=True):
        pass
    with start(FAST) as server:
        assert not server.native


def test_a_wrong_schedule_does_not_start():
    with pytest.raises(LoadError, match="did not start"), start(Schedule(chunk=0), native=compiler() is not None):
        pass
