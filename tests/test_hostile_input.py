"""Input that fuzzing found: each once hung a reader, or ended it with an error that named nothing."""

from __future__ import annotations

import gzip
import json
import sqlite3

import forge
import pytest
import tracefile

from tpgate import catalog
from tpgate.baseline import reading
from tpgate.baseline.history import History
from tpgate.baseline.reading import load_baseline, render
from tpgate.errors import BaselineError, ConfigError, TraceError
from tpgate.load.engines import ENGINES
from tpgate.load.outcome import record_of
from tpgate.load.stream import Stream
from tpgate.specs import LoadSpec
from tpgate.trace.reader import read

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DEEP = b"[" * 5000


def outcome_of(data, api="generate"):
    stream = Stream(0, ENGINES[api].reader(), 0)
    stream.times.append(1)
    stream.parts.append(data)
    record = record_of(stream, LoadSpec(1, 1, 1, output_tokens=2))
    assert len(record.chunk_ns) == len(record.chunk_tokens)
    return record.outcome


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (CHUNKED + b"0" * 40 + b"5\r\ndata:\r\n-5\r\ndata:", "unreadable answer: a length of -5"),
        (HEAD + b"Content-Length: -9\r\n\r\ndata: {}\n\n", "unreadable answer: a length of -9"),
        (b"HTTP/1.1 -12 OK\r\n\r\n", "unreadable answer: not HTTP/1.x"),
        (HEAD + b"\r\ndata: " + DEEP + b"\n\n", "unreadable answer"),
        (HEAD + b'\r\ndata: {"meta_info": {"completion_tokens": 99999999999}}\n\n', "unreadable answer"),
    ],
    ids=["chunk", "length", "status", "nesting", "count"],
)
def test_an_answer_that_lies_about_itself_is_a_failed_request(data, reason):
    assert outcome_of(data).startswith(reason)


def test_a_reason_has_a_bound_whatever_the_server_says():
    event = {"output_ids": [1], "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "x" * 9000}}}
    assert len(outcome_of(HEAD + b"\r\ndata: " + json.dumps(event).encode() + b"\n\n")) <= 300


@pytest.mark.parametrize("field", ["ts", "dur", "tid", "pid", "correlation"])
@pytest.mark.parametrize("value", [10**30, 2**63, -(2**63), 1e308, "1e308"])
def test_numbers_that_no_integer_holds_are_set_aside(tmp_path, field, value):
    rows = tracefile.decode_steps(2)
    kernels = [row for row in rows if row["cat"] == "kernel"]
    place = kernels[1]["args"] if field == "correlation" else kernels[1]
    place[field] = value
    trace = read(tracefile.write(tmp_path / "a-TP-0.trace.json", rows))
    assert len(kernels) - 1 <= len(trace) <= len(kernels)


def test_a_trace_that_nests_too_deep_for_the_slow_way_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(
        b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "args": ' + DEEP + b'}, {"ph": "X"}, {"ph": "X"}]}'
    )
    with pytest.raises(TraceError, match=r"a\.json"):
        read(path)


def test_a_gzip_bomb_is_refused_by_the_limit(tmp_path):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (64 << 20), 9))
    assert path.stat().st_size < 100_000
    with pytest.raises(TraceError, match="more than 1048576 bytes uncompressed"):
        read(path, limit_bytes=1 << 20)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"c0ffee"', '"\\ud800"', "half a character"),
        ('"c0ffee"', "[" * 5000, "recursion"),
        ('"commit": "c0ffee"', '"notes": {"a": 1e999}', "1e999 is not a finite number"),
        ('"schema_version": 1', '"schema_version": ' + "9" * 5000, "Exceeds the limit"),
    ],
    ids=["surrogate", "nesting", "infinite", "digits"],
)
def test_json_that_python_takes_and_nobody_can_use_is_refused(tmp_path, before, after, reason):
    path = tmp_path / "b.json"
    text = render(forge.baseline())
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(BaselineError, match=rf"b\.json.*{reason}"):
        load_baseline(path)


def test_a_file_beyond_all_measure_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LIMIT_BYTES", 1 << 20)
    path = tmp_path / "b.json"
    with path.open("wb") as file:
        file.truncate(2 << 20)
    with pytest.raises(BaselineError, match=r"b\.json: larger than 1 MiB"):
        load_baseline(path)


@pytest.mark.parametrize(
    "change",
    ["launches SET recorded_at = x'ff00'", "readings SET value = 'much'", "readings SET value = 9e999"],
)  # fmt: skip
def test_a_history_with_values_of_another_kind_is_refused(tmp_path, change):
    history = History(tmp_path / "history.sqlite")
    history.append(forge.now(1.0), "OK")
    (launch,) = history.launches()
    connection = sqlite3.connect(history.path)
    connection.execute(f"UPDATE {change}")
    connection.commit()
    connection.close()

    def look():
        history.launches()
        history.series(launch.scenario, launch.hardware)

    with pytest.raises(BaselineError, match=r"history\.sqlite"):
        look()


@pytest.mark.parametrize(
    "line",
    [
        "server = 5",
        "server = {model = 5}",
        "server = {options = 'x'}",
        "server = {environment = [1]}",
        "cells = 3",
        "gates = ['x']",
        "settings = {a = nan}",
        "settings = {a = [1]}",
        "profile_cells = 'c1'",
        "server = {model = {config = {a = inf}}}",
        "server = {model = {config = {a = 2026-01-01}}}",
        "cells = " + "[" * 3000,
        "name = " + "9" * 5000,
    ],
)
def test_a_scenario_of_another_shape_is_refused_with_its_place(tmp_path, line):
    path = tmp_path / "s.toml"
    path.write_text(f"[[scenario]]\n{line}\n")
    with pytest.raises(ConfigError, match=r"s\.toml"):
        catalog.load(path)
