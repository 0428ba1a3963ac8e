from __future__ import annotations

import random

import pytest
import tracefile
from tracefile import event, kernel

from tpgate.trace import stream
from tpgate.trace.reader import read

AT = 5565444904412.007


def op(name: str, ts: float, dur: float, *, tid: int = 11, n: int = 0) -> dict:
    return event("cpu_op", name, AT + ts, dur, pid=99, tid=tid, args={"External id": n, "Ev Idx": n})


LAYER = [
    event("user_annotation", "step[DECODE bs=4]", AT - 5.0, 120.0, pid=99, tid=11),
    op("aten::linear", 0.0, 50.0, n=1),
    op("aten::t", 1.0, 4.0, n=2),
    op("aten::transpose", 2.0, 1.5, n=3),
    op("aten::addmm", 10.0, 35.0, n=4),
    op("aten::scaled_dot_product_attention", 60.0, 40.0, n=5),
    event("user_annotation", "gloo:all_reduce", AT + 30.0, 20.0, pid=99, tid=12),
    op("aten::copy_", 35.0, 2.0, tid=12, n=6),
]


def by_name(operators, values) -> dict[str, int]:
    return {operators.names[i]: int(value) for i, value in zip(operators.name_ids, values, strict=True)}


@pytest.mark.parametrize("layout", ["compact", "dense", "indented", "native"])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_time_of_inner_operators_is_taken_off(tmp_path, layout, suffix):
    trace = read(tracefile.write(tmp_path / f"a{suffix}", LAYER, layout=layout))
    found = trace.operators
    assert by_name(found, found.self_ns) == {
        "aten::linear": 11_000,
        "aten::t": 2_500,
        "aten::transpose": 1_500,
        "gloo:all_reduce": 18_000,
        "aten::addmm": 35_000,
        "aten::copy_": 2_000,
        "aten::scaled_dot_product_attention": 40_000,
    }
    assert by_name(found, found.duration_ns)["aten::linear"] == 50_000
    assert by_name(found, found.threads)["aten::copy_"] == 12
    assert found.start_ns[0] == 0, "the origin is the first operator's start"
    assert trace.origin_ns == round(AT * 1000)
    assert [(step.stage, step.batch, step.start_ns) for step in trace.host_steps] == [("DECODE", 4, -5_000)]
    assert trace.categories == {"cpu_op": 6, "user_annotation": 2}
    assert not trace.defects.slow_path


def test_a_trace_with_gpu_events_keeps_no_operators(tmp_path):
    trace = read(tracefile.write(tmp_path / "a.json", [*LAYER, kernel("k", AT, 1.0)]))
    assert (len(trace), trace.operators) == (1, None)


def test_a_trace_without_operators_has_none(tmp_path):
    trace = read(tracefile.write(tmp_path / "a.json", LAYER[:1]))
    assert trace.operators is None
    assert trace.host_steps[0].start_ns == round((AT - 5.0) * 1000)


def innermost(rows: list[tuple[int, int, int]], at: int) -> int | None:
    """The operator that owns a moment: of those open, the one begun last (of those begun together, the shortest)."""
    open_now = [(start, -end, n) for n, (_, start, end) in enumerate(rows) if start <= at < end]
    return max(open_now)[2] if open_now else None


@pytest.mark.parametrize("seed", range(20))
def test_self_times_are_those_of_a_clock_that_asks_every_moment(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    rows = []
    for thread in (1, 2):
        for _ in range(draw.randrange(1, 30)):
            start = draw.randrange(100)
            rows.append((thread, start, start + draw.choice((0, 1, 2, 5, 20, 60))))
    rows = list(dict.fromkeys(rows))
    draw.shuffle(rows)
    monkeypatch.setattr(stream, "CHUNK_BYTES", 300)
    path = tracefile.write(tmp_path / "a.json", [op(f"op{n}", s, e - s, tid=t) for n, (t, s, e) in enumerate(rows)])
    found = read(path).operators
    owned = dict.fromkeys(range(len(rows)), 0)
    for thread in (1, 2):
        here = [row if row[0] == thread else (0, -1, -1) for row in rows]
        for moment in range(200):
            owner = innermost(here, moment)
            if owner is not None:
                owned[owner] += 1000
    assert by_name(found, found.self_ns) == {f"op{n}": value for n, value in owned.items()}
    spans = found.spans
    assert (spans.starts[1:] >= spans.starts[:-1]).all()
    for thread in (1, 2):
        mine = found.threads[spans.owners] == thread
        assert (spans.starts[mine][1:] >= spans.ends[mine][:-1]).all(), "spans of one thread do not overlap"


def test_impossible_operators_are_set_aside_and_counted(tmp_path):
    rows = [op(f"op{n}", 100.0 * n, 50.0, n=n) for n in range(5)]
    rows += [op("minus", 10.0, -1.0), op("never", 20.0, float("inf")), rows[2]]
    rows += [op("outer", 600.0, 10_000.0), op("overrun", 700.0, 50_000.0), op("late", 20_000.0, 9e9)]
    rows.append({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": AT + 30_000.0})
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    found = trace.operators
    assert (trace.defects.negative, trace.defects.not_finite, trace.defects.duplicate, trace.defects.absurd) == (
        (1, 1, 1, 2)
    )
    lengths = by_name(found, found.duration_ns)
    assert lengths["overrun"] == 9_900_000, "shortened to the end of the operator that it is in"
    assert lengths["late"] == 10_000_000, "no operator outlasts the recording"
    assert len(found) == 8


def test_equal_operators_within_one_clock_tick_are_told_apart_by_their_arguments(tmp_path):
    trace = read(tracefile.write(tmp_path / "a.json", [op("aten::empty", 1.0, 0.0, n=n) for n in (1, 2, 2)]))
    assert (len(trace.operators), trace.defects.duplicate) == (2, 1)


def test_an_unusual_order_of_keys_is_decoded_all_the_same(tmp_path):
    rows = [*LAYER, op("aten::empty", 1.0, 0.0, n=8), op("aten::empty", 1.0, 0.0, n=9)]
    odd = [{"cat": row["cat"], **dict(reversed(list(row.items())))} for row in rows]
    fast = read(tracefile.write(tmp_path / "fast.json", rows))
    slow = read(tracefile.write(tmp_path / "slow.json", odd))
    assert slow.defects.slow_path
    assert len(slow.operators) == len(fast.operators) == 9
    assert by_name(slow.operators, slow.operators.self_ns) == by_name(fast.operators, fast.operators.self_ns)
