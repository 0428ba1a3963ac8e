from __future__ import annotations

import gzip
import json
import resource

import numpy as np
import pytest
import tracefile
from tracefile import GEMM, NCCL, NORM, event, kernel, launch

from tpgate.errors import TraceError
from tpgate.trace import reader, stream
from tpgate.trace.complete import incompleteness
from tpgate.trace.decode import INVALID, nanoseconds, times
from tpgate.trace.reader import named_rank, read

TRICKY = 'void a::b<"kernel", \\"cat\\": \\"kernel\\"> {lambda()#1}'
EVENTS = [
    kernel(GEMM, 5239856310888.514, 17.25, correlation=11),
    launch(11, 5239856310880.0),
    kernel(TRICKY, 5239856310910.001, 2.0, stream=13, correlation=12),
    event("cpu_op", "aten::mm", 5239856310900.0, 5.0),
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 5239856310920.5, 1.5, tid=13),
    event("gpu_memset", "Memset (Device)", 5239856310930.5, 0.5),
]


@pytest.mark.parametrize("layout", ["compact", "dense", "indented", "native"])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_every_layout_is_read_the_same(tmp_path, layout, suffix):
    trace = read(tracefile.write(tmp_path / f"a-TP-2{suffix}", EVENTS, layout=layout, rank=2, world=4))
    assert [trace.names[i] for i in trace.name_ids] == [GEMM, TRICKY, EVENTS[4]["name"], EVENTS[5]["name"]]
    assert trace.start_ns.tolist() == [0, 21487, 31986, 41986]
    assert trace.duration_ns.tolist() == [17250, 2000, 1500, 500]
    assert trace.streams.tolist() == [7, 13, 13, 7]
    assert trace.kinds.tolist() == [0, 0, 1, 2]
    assert [column.tolist() for column in trace.launches] == [[11], [-8514], [-5514]]
    assert (trace.rank, trace.named_rank, trace.world_size) == (2, 2, 4)
    assert trace.device_name == "Test GPU"
    assert trace.defects.dropped == 0
    assert not trace.defects.cut_off
    assert not trace.defects.slow_path


def test_an_unusual_order_of_keys_is_counted_and_decoded_all_the_same(tmp_path):
    odd = [dict(reversed(list(row.items()))) for row in EVENTS]
    odd = [{"cat": row["cat"], **row} for row in odd]
    fast = read(tracefile.write(tmp_path / "fast.json", EVENTS))
    slow = read(tracefile.write(tmp_path / "slow.json", odd))
    assert slow.defects.slow_path
    assert np.array_equal(slow.start_ns, fast.start_ns)
    assert np.array_equal(slow.correlations, fast.correlations)
    assert slow.names == fast.names
    assert [c.tolist() for c in slow.launches] == [c.tolist() for c in fast.launches]


def test_a_single_event_in_an_unusual_order_sends_the_whole_file_the_slow_way(tmp_path):
    rows = [kernel(GEMM, 10.0 * n, 1.0) for n in range(50)]
    rows[25] = {key: rows[25][key] for key in ("ph", "cat", "ts", "dur", "name", "pid", "tid", "args")}
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert trace.defects.slow_path
    assert len(trace) == 50


@pytest.mark.parametrize("chunk", [64, 257, 1000])
def test_events_across_the_ends_of_chunks_are_not_lost(tmp_path, monkeypatch, chunk):
    rows = [kernel(NORM, 10.0 * n, 1.0 + n, correlation=n) for n in range(300)]
    path = tracefile.write(tmp_path / "a.json.gz", rows, layout="native")
    monkeypatch.setattr(stream, "CHUNK_BYTES", chunk)
    trace = read(path)
    assert len(trace) == 300
    assert trace.duration_ns.tolist() == [1000 * (1 + n) for n in range(300)]
    assert trace.correlations.tolist() == list(range(300))
    assert not trace.defects.slow_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"5239856310888.514", 5239856310888514),
        (b"1694128201428473", 1694128201428473000),
        (b"1694128201428473.123", 1694128201428473123),
        (b"1694128201428473.5", 1694128201428473500),
        (b"0.351", 351),
        (b'"12.5"', 12500),
        (b"-3", -3000),
    ],
)
def test_the_part_below_a_microsecond_is_kept(text, expected):
    assert nanoseconds(text) == expected
    assert times([text]).tolist() == [expected]
    assert times([text, b"NaN", b"1.5"]).tolist() == [expected, INVALID, 1500]


def test_impossible_events_are_set_aside_and_counted(tmp_path):
    rows = [kernel(GEMM, 100.0 * n, 50.0) for n in range(20)]
    rows += [kernel(NORM, 55.0, -1.0), kernel(NORM, 155.0, float("inf")), kernel(NORM, 255.0, float("nan")), rows[3]]
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert len(trace) == 20
    assert (trace.defects.negative, trace.defects.not_finite, trace.defects.duplicate) == (1, 2, 1)


def test_one_absurd_duration_does_not_swamp_the_total(tmp_path):
    rows = [kernel(GEMM, 10_000.0 * n, 50.0) for n in range(20)]
    rows[7]["dur"] = 2_000_000.0
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert trace.defects.absurd == 1
    assert trace.duration_ns[7] == 10_000_000, "shortened to the next start on its stream"
    assert trace.end_ns.max() == 190_050_000, "the span is not polluted"


def test_an_absurd_last_event_is_dropped(tmp_path):
    rows = [kernel(GEMM, 100.0 * n, 50.0) for n in range(20)]
    rows[-1]["dur"] = 9e6
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert (len(trace), trace.defects.absurd) == (19, 1)


def test_a_long_wait_in_a_collective_is_no_absurd_duration(tmp_path):
    rows = [kernel(NCCL, 0.0, 90_000.0), kernel(GEMM, 90_001.0, 5.0), kernel(GEMM, 90_010.0, 5.0)]
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert (trace.defects.absurd, int(trace.duration_ns[0])) == (0, 90_000_000)


def test_a_cut_off_gzip_keeps_what_was_there_and_says_so(tmp_path):
    whole = tracefile.write(tmp_path / "a.json.gz", [kernel(f"k{n}", 10.0 * n, 5.0) for n in range(2000)])
    data = whole.read_bytes()
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(data[: len(data) // 2])
    trace = read(cut)
    assert trace.defects.cut_off
    assert 500 < len(trace) < 2000
    assert incompleteness(whole) is None
    assert "gzip stream cut off" in incompleteness(cut)


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("layout", ["compact", "native"])
def test_a_cut_off_json_is_seen_although_it_is_not_compressed(tmp_path, keep, layout):
    text = tracefile.text_of(tracefile.document(EVENTS), layout)
    path = tmp_path / "a.json"
    path.write_text(text[: int(len(text) * keep)])
    assert read(path).defects.cut_off
    assert "JSON cut off" in incompleteness(path)


def test_a_cut_at_the_end_of_an_event_is_seen(tmp_path):
    text = tracefile.text_of(tracefile.document(EVENTS))
    path = tmp_path / "a.json"
    path.write_text(text[: text.rindex('}], "traceName"') + 1])
    assert read(path).defects.cut_off


def test_a_gzip_bomb_is_refused_by_the_limit(tmp_path):
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b'{"traceEvents": [' + b'{"ph": "X"},' * 2_000_000, 9))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match="more than 5000000 bytes uncompressed") as caught:
        read(bomb, limit_bytes=5_000_000)
    assert str(bomb) in str(caught.value)
    assert "next:" in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000
    assert "5000000" in incompleteness(bomb, limit_bytes=5_000_000)


def test_a_text_that_is_no_trace_names_the_file(tmp_path):
    for name, text in (("log.json", "not a trace at all"), ("a.json", '{"config": 1}'), ("e.json", "")):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(TraceError, match=name):
            read(path)
    with pytest.raises(TraceError, match=r"gone\.json"):
        read(tmp_path / "gone.json")


def test_a_trace_without_gpu_events_says_what_it_holds(tmp_path):
    rows = [event("cpu_op", "aten::mm", 1.0, 1.0), event("cpu_op", "aten::add", 3.0, 1.0), launch(1, 2.0)]
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert len(trace) == 0
    assert trace.categories == {"cpu_op": 2, "cuda_runtime": 1}


def test_a_bare_list_of_events_is_a_trace_too(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(EVENTS))
    trace = read(path)
    assert len(trace) == 4
    assert not trace.defects.cut_off
    assert trace.rank is None


def test_the_old_names_of_categories_are_known(tmp_path):
    trace = read(
        tracefile.write(
            tmp_path / "a.json", [event("Kernel", GEMM, 1.0, 1.0), event("Memcpy", "Memcpy HtoD", 3.0, 1.0)]
        )
    )
    assert trace.kinds.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("1790857026.12-TP-3.trace.json.gz", 3),
        ("warm-1790857026.12-TP-0-DP-1-EP-0-DECODE.trace.json.gz", 0),
        ("rank12.json.gz", 12),
        ("graph_c64.trace.json.gz", None),
    ],
)
def test_the_rank_in_a_file_name(tmp_path, name, rank):
    assert named_rank(tmp_path / name) == rank


def test_it_works_without_isal(tmp_path, monkeypatch):
    import zlib

    monkeypatch.setattr(stream, "_zlib", zlib)
    assert len(read(tracefile.write(tmp_path / "a.json.gz", EVENTS))) == 4


def test_two_gzip_members_are_one_file(tmp_path):
    text = tracefile.text_of(tracefile.document(EVENTS)).encode()
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(text[:500]) + gzip.compress(text[500:]))
    assert len(read(path)) == 4
    assert reader.read(path).defects.cut_off is False
