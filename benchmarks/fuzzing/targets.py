"""The readers that are fed: each takes a generator and a folder, reads one input and says whether it was accepted."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import forge
import tracefile

from fuzzing.mutate import ODD, changed_bytes, changed_document, pieces
from tpgate import catalog
from tpgate.baseline.history import History, otava_rows
from tpgate.baseline.reading import load_either, render
from tpgate.errors import TpgateError
from tpgate.load.engines import engine_of
from tpgate.load.outcome import record_of
from tpgate.load.stream import Stream
from tpgate.specs import LoadSpec
from tpgate.trace.reader import read
from tpgate.trace.summary import summarise

Target = Callable[[random.Random, Path], bool]

APIS = ("generate", "completions", "chat")
LOAD = LoadSpec(concurrency=1, requests=1, warmup_requests=1, output_tokens=4)


def _events(api: str) -> list[bytes]:
    if api == "generate":
        rows = [
            {"output_ids": [7], "meta_info": {"completion_tokens": n, "prompt_tokens": 3, "finish_reason": None}}
            for n in range(1, 4)
        ]
        last = {"completion_tokens": 4, "prompt_tokens": 3, "cached_tokens": 0, "finish_reason": {"type": "length"}}
        rows.append({"output_ids": [7], "meta_info": last})
    else:
        field = "text" if api == "completions" else "delta"
        rows = [
            {"choices": [{field: "a" if field == "text" else {"content": "a"}, "index": 0, "finish_reason": None}]}
            for _ in range(3)
        ]
        rows.append({"choices": [{field: "" if field == "text" else {}, "index": 0, "finish_reason": "length"}]})
        rows.append({"choices": [], "usage": {"completion_tokens": 4, "prompt_tokens": 3}})
    return [json.dumps(row).encode() for row in rows] + [b"[DONE]"]


_SSE = {api: _events(api) for api in APIS}


def _answer(events: list[bytes], framing: int) -> bytes:
    parts = [b"data: " + event + b"\n\n" for event in events]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if framing == 0:
        coded = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"
    body = b"".join(parts)
    return head + (b"Content-Length: %d\r\n\r\n" % len(body) if framing == 1 else b"\r\n") + body


def sse(chance: random.Random, _folder: Path) -> bool:
    """One streamed answer, cut into reads; whatever came, a record comes out."""
    api = chance.choice(APIS)
    events = _SSE[api]
    if chance.random() < 0.5:
        events = list(events)
        at = chance.randrange(len(events) - 1)
        events[at] = json.dumps(changed_document(json.loads(events[at]), chance)).encode()
    data = changed_bytes(_answer(events, chance.randrange(3)), chance)
    stream = Stream(0, engine_of(api).reader(), 0)
    for number, part in enumerate(pieces(data, chance)):
        stream.times.append(number)
        stream.parts.append(part)
        if chance.random() < 0.5:
            stream.consume(chance.choice((1, None)))
    record = record_of(stream, LOAD)
    tokens = list(record.chunk_tokens)
    if len(tokens) != len(record.chunk_ns) or any(b <= a for a, b in zip([0, *tokens], tokens, strict=False)):
        raise AssertionError(f"counts that do not rise: {tokens}")
    if len(record.outcome) > 500:
        raise AssertionError(f"an outcome of {len(record.outcome)} characters")
    return record.ok


def _trace_seeds() -> list[tuple[dict[str, Any], str]]:
    events = tracefile.decode_steps(2, nccl=20.0, graphs=False)
    return [(tracefile.document(events, rank=rank), layout) for rank in (0, None) for layout in ("compact", "kineto")]


_TRACES = _trace_seeds()


def trace(chance: random.Random, folder: Path) -> bool:
    """One trace file: read, and summed up where it holds kernels."""
    document, layout = chance.choice(_TRACES)
    if chance.random() < 0.6:
        document = changed_document(document, chance)
    try:
        data = tracefile.text_of(document, layout).encode("utf-8", "surrogatepass")
    except (KeyError, TypeError, AttributeError, ValueError):
        data = json.dumps(document).encode()
    packed = chance.random() < 0.5
    if chance.random() < 0.7:
        data = changed_bytes(data, chance)
    if packed:
        data = gzip.compress(data, 1)
        data = changed_bytes(data, chance) if chance.random() < 0.3 else data
    path = folder / "fuzz-TP-0.trace.json"
    path.write_bytes(data)
    try:
        found = read(path, limit_bytes=1 << 20)
        if len(found):
            summarise([found])
    except TpgateError:
        return False
    return True


_FORMS = [json.loads(render(forge.baseline())), json.loads(render(forge.now(1.0, count=2)))]


def baseline(chance: random.Random, folder: Path) -> bool:
    """One baseline or result file."""
    document = chance.choice(_FORMS)
    if chance.random() < 0.8:
        document = changed_document(document, chance)
    data = json.dumps(document).encode()
    if chance.random() < 0.4:
        data = changed_bytes(data, chance)
    path = folder / "fuzz.json"
    path.write_bytes(data)
    try:
        render(load_either(path)).encode()
    except TpgateError:
        return False
    return True


def _history_seed(folder: Path) -> bytes:
    path = folder / "seed.sqlite"
    if not path.exists():
        History(path).append(forge.now(1.0, count=3), "OK")
    return path.read_bytes()


_COLUMNS = ("launches.recorded_at", "launches.revision", "launches.launch_id", "readings.value", "readings.cell")


def history(chance: random.Random, folder: Path) -> bool:
    """One history file: its bytes changed, or its values."""
    data = _history_seed(folder)
    path = folder / "fuzz.sqlite"
    if chance.random() < 0.5:
        path.write_bytes(changed_bytes(data, chance))
    else:
        path.write_bytes(data)
        table, column = chance.choice(_COLUMNS).split(".")
        odd = [v for v in ODD if isinstance(v, str | float | bytes) and v != "\ud800"] + [b"\xff\x00", 7]
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid IN (SELECT rowid FROM {table} LIMIT 1)"  # noqa: S608
            if table == "launches"
            else f"UPDATE OR IGNORE {table} SET {column} = ? WHERE cell = 'c1'",  # noqa: S608
            (chance.choice(odd),),
        )
        connection.commit()
        connection.close()
    try:
        known = History(path)
        for launch in known.launches():
            otava_rows(known.series(launch.scenario, launch.hardware))
    except TpgateError:
        return False
    return True


_SCENARIO = {
    "name": "quick",
    "profile_cells": ["c1"],
    "server": {
        "engine": "standin",
        "device": "cpu",
        "model": {"name": "m", "config": {"vocab_size": 8}},
        "options": {"step_ms": 1.0},
        "environment": {"A": "b"},
    },
    "cells": [{"concurrency": 1, "requests": 10, "warmup_requests": 1}],
    "gates": [{"metric": "ttft_p50", "tolerance": 0.1, "cells": ["c1"]}],
    "settings": {"stall_timeout_s": 2.0},
}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return '""' if value is None else json.dumps(value) if isinstance(value, str) else repr(value)


def config(chance: random.Random, folder: Path) -> bool:
    """One scenario file in TOML."""
    document: Any = {"scenario": [_SCENARIO]}
    if chance.random() < 0.8:
        document = changed_document(document, chance)
    text = "\n".join(f"{key} = {_toml(value)}" for key, value in document.items() if key.isidentifier())
    data = text.encode("utf-8", "surrogatepass")
    if chance.random() < 0.4:
        data = changed_bytes(data, chance)
    path = folder / "fuzz.toml"
    path.write_bytes(data)
    try:
        for scenario in catalog.load(path).values():
            scenario.digest()
    except TpgateError:
        return False
    return True


TARGETS: dict[str, Target] = {
    "sse": sse,
    "trace": trace,
    "baseline": baseline,
    "history": history,
    "config": config,
}
