"""Arbitrary input for the readers: refused with an error of this package, within time and memory, or read."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tpgate import catalog
from tpgate.baseline.history import History
from tpgate.baseline.reading import load_either
from tpgate.errors import BaselineError, ConfigError, TraceError
from tpgate.load.engines import ENGINES
from tpgate.load.outcome import record_of
from tpgate.load.stream import Stream
from tpgate.specs import LoadSpec
from tpgate.trace.reader import read

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "fuzz.py"
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner))
LOAD = LoadSpec(1, 1, 1, output_tokens=4)


def test_changed_inputs_by_the_thousand():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--inputs", "1500"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1500 inputs") == 5, done.stdout


@pytest.mark.parametrize("api", sorted(ENGINES))
@MANY
@given(parts=st.lists(st.binary(max_size=60), max_size=8), events=st.lists(JSON, max_size=4))
def test_any_bytes_and_any_events_become_a_record(api, parts, events):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    for reads in (parts, [head, *lines], [head, *lines, *parts]):
        stream = Stream(0, ENGINES[api].reader(), 0)
        stream.times += range(len(reads))
        stream.parts += reads
        record = record_of(stream, LOAD)
        assert len(record.chunk_ns) == len(record.chunk_tokens)
        assert 0 < len(record.outcome) <= 300


@MANY
@given(value=JSON, raw=st.binary(max_size=200), packed=st.booleans())
def test_any_file_is_a_trace_or_refused(tmp_path, value, raw, packed):
    for data in (json.dumps(value).encode(), json.dumps({"traceEvents": value}).encode(), raw):
        path = tmp_path / "x.json"
        path.write_bytes(gzip.compress(data) if packed else data)
        with contextlib.suppress(TraceError):
            read(path, limit_bytes=1 << 20)


@MANY
@given(value=JSON, raw=st.binary(max_size=200))
def test_any_file_is_a_baseline_or_refused(tmp_path, value, raw):
    for data in (json.dumps(value).encode(), json.dumps({"schema_version": 1, "promises": value}).encode(), raw):
        path = tmp_path / "x.json"
        path.write_bytes(data)
        with pytest.raises(BaselineError, match=r"x\.json"):
            load_either(path)


@MANY
@given(raw=st.binary(max_size=300), text=st.text(max_size=100))
def test_any_file_is_a_scenario_file_or_refused(tmp_path, raw, text):
    for data in (raw, f"[[scenario]]\n{text}".encode("utf-8", "replace")):
        path = tmp_path / "x.toml"
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=r"x\.toml"):
            catalog.load(path)


@MANY
@given(raw=st.binary(min_size=1, max_size=300), magic=st.booleans())
def test_any_file_is_a_history_or_refused(tmp_path, raw, magic):
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"SQLite format 3\x00" * magic + raw)
    with pytest.raises(BaselineError, match=r"x\.sqlite"):
        History(path).launches()


def test_a_gzip_bomb_is_refused_in_bounded_memory(tmp_path):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(256):
            file.write(b" " * (1 << 20))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(TraceError, match="uncompressed"):
        read(path, limit_bytes=64 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 << 20
