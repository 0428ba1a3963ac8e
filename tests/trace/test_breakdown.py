from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tracefile
from hypothesis import given, settings
from hypothesis import strategies as st
from tracefile import ATTENTION, GEMM, MOE, NCCL, NORM, event, kernel, launch, step

from tpgate.trace.breakdown import break_down
from tpgate.trace.intervals import exclusive, union
from tpgate.trace.prefill import without_prefill
from tpgate.trace.reader import read
from tpgate.trace.steps import find_steps

GOLDEN = Path(__file__).parents[1] / "golden"
DATA = os.environ.get("TPGATE_DATA")


def broken_down(tmp_path, rows, **more):
    return break_down(read(tracefile.write(tmp_path / "a.json", rows, **more)))


def test_two_streams_that_overlap_fully_are_not_counted_twice(tmp_path):
    rows = [kernel(GEMM, 0.0, 100_000.0), kernel(ATTENTION, 0.0, 100_000.0, stream=9)]
    found = broken_down(tmp_path, rows)
    assert (found.busy_s, found.span_s, found.sum_s) == (0.1, 0.1, 0.2)
    assert (found.busy_share, found.share("gemm"), found.share("attention")) == (1.0, 1.0, 1.0)


def test_exposed_communication_is_what_no_compute_covers(tmp_path):
    rows = [
        kernel(GEMM, 0.0, 100.0),
        kernel(NCCL, 50.0, 100.0, stream=9),
        kernel(GEMM, 120.0, 10.0),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 100.0, 50.0, tid=11),
    ]
    found = broken_down(tmp_path, rows)
    assert found.exposed_communication_s == pytest.approx(40e-6), "a copy does not hide it, compute does"
    assert found.busy("communication") == pytest.approx(100e-6)
    assert found.busy("communication/nccl") == pytest.approx(100e-6)


def test_a_custom_all_reduce_counts_as_communication_and_not_as_nccl(tmp_path):
    found = broken_down(
        tmp_path, [kernel("void sglang::cross_device_reduce_1stage<b, 2>(R*)", 0.0, 20.0), kernel(GEMM, 20.0, 80.0)]
    )
    assert found.share("communication") == pytest.approx(0.2)
    assert found.share("communication/nccl") == 0.0


def test_idle_time_before_late_launches_is_told_from_queued_work(tmp_path):
    rows = [kernel(GEMM, 0.0, 10.0, correlation=1), launch(1, -20.0)]
    rows += [kernel(GEMM, 30.0, 10.0, correlation=2), launch(2, 12.0, 10.0)]
    rows += [kernel(GEMM, 45.0, 10.0, correlation=3), launch(3, 20.0, 5.0)]
    rows += [kernel(GEMM, 65.0, 10.0)]
    idle = broken_down(tmp_path, rows).idle
    assert idle.total_s == pytest.approx(35e-6)
    assert (idle.gaps, idle.longest_s) == (3, pytest.approx(20e-6))
    assert idle.launch_bound_s == pytest.approx(20e-6)
    assert idle.queued_s == pytest.approx(5e-6)
    assert idle.unknown_s == pytest.approx(10e-6)


def test_an_unknown_kernel_is_shown_and_not_spread_over_the_rest(tmp_path):
    found = broken_down(
        tmp_path, [kernel("zorblax_v9", 0.0, 35.0), kernel(ATTENTION, 35.0, 5.0), kernel(GEMM, 40.0, 60.0)]
    )
    assert found.share("unclassified") == pytest.approx(0.35)
    assert found.unclassified[0] == ("zorblax_v9", pytest.approx(0.35))


def test_kernels_are_grouped_by_family_with_count_and_median(tmp_path):
    rows = [kernel(f"nvjet_tst_{n}x64_64x8_v_bz_TNT", 100.0 * n, 10.0 + n) for n in range(5)]
    (top,) = broken_down(tmp_path, rows).top
    assert (top.family, top.calls, top.median_s, top.max_s) == ("nvjet", 5, pytest.approx(12e-6), pytest.approx(14e-6))


def test_steps_from_annotations_on_the_gpu(tmp_path):
    steps = find_steps(read(tracefile.write(tmp_path / "a.json", tracefile.decode_steps(6, batch=32))))
    assert (steps.count, steps.batch, steps.tokens) == (6, 32, 192)


def test_steps_from_graph_launches_where_nothing_is_annotated(tmp_path):
    rows = [kernel(GEMM, 10.0 * n, 5.0, correlation=n // 20) for n in range(140)]
    rows += [kernel(NORM, 10_000.0 + n, 0.5, correlation=1000 + n) for n in range(30)]
    trace = read(tracefile.write(tmp_path / "a.json", rows))
    assert find_steps(trace).count == 7
    assert "graph" in find_steps(trace).source
    assert break_down(trace).graph_share == pytest.approx(140 / 170)


def test_steps_from_counts_where_there_are_no_graphs(tmp_path):
    rows = []
    for n in range(9):
        rows += [kernel(name, 100.0 * n + 10 * k, 9.0) for k, name in enumerate((GEMM, GEMM, ATTENTION, MOE, NORM))]
    steps = find_steps(read(tracefile.write(tmp_path / "a.json", rows)))
    assert (steps.count, steps.tokens) == (9, None)


def test_prefill_steps_are_cut_out_as_if_they_took_no_time(tmp_path):
    clean = tracefile.decode_steps(4)
    third = 1220.0
    rows = []
    for row in clean:
        late = row["ts"] >= (third - 50.0 if row["cat"] == "cuda_runtime" else third)
        rows.append({**row, "ts": row["ts"] + (5000.0 if late else 0.0)})
    rows += [step(third, 4000.0, 4, "EXTEND"), kernel("extend_attention_fwd", third, 4000.0)]
    both = [read(tracefile.write(tmp_path / f"{n}.json", r)) for n, r in enumerate((clean, rows))]
    cut, removed = without_prefill(both[1])
    assert removed == 5_020_000
    assert break_down(cut).busy_s == pytest.approx(break_down(both[0]).busy_s)
    assert break_down(cut).span_s == pytest.approx(break_down(both[0]).span_s - 20e-6), "its idle time went with it"
    assert find_steps(cut).extends == 1
    assert without_prefill(both[0]) == (both[0], 0)


def test_the_real_busy_shares_of_the_h200_with_and_without_graphs():
    graph, nograph = (
        break_down(read(GOLDEN / f"h200-llama8b-{kind}-c64-TP-0.trace.json.gz")) for kind in ("graph", "nograph")
    )
    assert graph.busy_share == pytest.approx(0.968, abs=5e-4)
    assert nograph.busy_share == pytest.approx(0.242, abs=5e-4)
    assert (graph.steps.count, nograph.steps.count) == (8, 3)
    assert (graph.steps.batch, nograph.steps.batch) == (64, 64)
    assert graph.graph_share == pytest.approx(0.96, abs=0.01)
    assert nograph.graph_share == 0.0
    assert graph.share("attention") == pytest.approx(0.239, abs=0.002)
    assert nograph.share("attention") == pytest.approx(0.228, abs=0.002)
    assert nograph.idle.launch_bound_s > 0.99 * nograph.idle.total_s
    for found in (graph, nograph):
        assert found.kernels / found.steps.count == 404
        assert found.share("unclassified") == 0.0
        assert found.share("communication") == 0.0


@pytest.mark.skipif(not DATA, reason="TPGATE_DATA names no folder")
@pytest.mark.parametrize(
    ("name", "events", "busy", "attention"),
    [("graph", 4471, 0.940, 0.239), ("nograph", 4471, 0.2375, 0.2277)],
)
def test_the_whole_captures_of_the_h200(name, events, busy, attention):
    trace = read(Path(DATA) / "h200-llama8b-tp1" / f"{name}_c64.trace.json.gz")
    found = break_down(trace)
    assert len(trace) == events
    assert found.busy_share == pytest.approx(busy, abs=5e-4)
    assert found.share("attention") == pytest.approx(attention, abs=5e-4)


@pytest.mark.skipif(not DATA, reason="TPGATE_DATA names no folder")
def test_the_public_traces_against_what_is_known_of_them():
    folder = Path(DATA) / "traces"
    decode = break_down(read(folder / "sglang-qwen3-8b-decode-mi300x.json.gz"))
    assert decode.share("attention") == pytest.approx(0.218, abs=0.001)
    overlapping = break_down(read(folder / "hta-a100-8ranks-rank3.json.gz"))
    assert overlapping.sum_s / overlapping.busy_s == pytest.approx(1.291, abs=0.001)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40), st.booleans()), min_size=1, max_size=40))
def test_unions_agree_with_counting_every_nanosecond(rows):
    rows.sort()
    sets = {}
    for flag in (True, False):
        chosen = [(start, start + length) for start, length, kind in rows if kind is flag]
        starts = np.array([a for a, _ in chosen], dtype=np.int64)
        sets[flag] = union(starts, np.array([b for _, b in chosen], dtype=np.int64))
        covered = {n for a, b in chosen for n in range(a, b)}
        assert sets[flag].length == len(covered)
        assert (np.diff(np.ravel(np.column_stack(sets[flag]))) >= 0).all()
    covers = [
        {n for a, b, kind in ((s, s + d, k) for s, d, k in rows) if kind is flag for n in range(a, b)}
        for flag in (True, False)
    ]
    assert exclusive(sets[True], sets[False]) == len(covers[0] - covers[1])


def test_shares_never_exceed_one_and_nothing_is_nan(tmp_path):
    rng = np.random.default_rng(3)
    names = (GEMM, ATTENTION, NCCL, MOE, NORM, "zorblax")
    rows = [
        kernel(names[n % 6], float(rng.integers(0, 900)), float(rng.integers(1, 300)), stream=n % 5) for n in range(200)
    ]
    found = broken_down(tmp_path, rows)
    for name in found.categories:
        assert 0 <= found.share(name) <= 1
    assert math.isfinite(found.busy_share)
    assert found.busy_share <= 1


@pytest.mark.parametrize(("kind", "steps", "source"), [("graph", 8, "CUDA graph"), ("nograph", 3, "common divisor")])
def test_the_real_steps_are_found_without_the_annotations_too(kind, steps, source):
    trace = read(GOLDEN / f"h200-llama8b-{kind}-c64-TP-0.trace.json.gz")
    found = find_steps(replace(trace, gpu_steps=(), host_steps=()))
    assert (found.count, found.batch) == (steps, None)
    assert source in found.source
