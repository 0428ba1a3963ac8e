from __future__ import annotations

import os
from pathlib import Path

import pytest
import tracefile
from tracefile import GEMM, NCCL, kernel

from tpgate.trace.merge import merge
from tpgate.trace.reader import read

DATA = os.environ.get("TPGATE_DATA")
CUSTOM = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 4>(RankData*)"
MS = 1000.0


def ranks(tmp_path, rows_of, count=4):
    files = [
        tracefile.write(tmp_path / f"x-TP-{r}.trace.json.gz", rows_of(r), rank=r, world=count) for r in range(count)
    ]
    return [read(path) for path in files]


def delayed(rank, *, late=2, calls=8, every=2, delay=10 * MS, name=NCCL):
    """Every call takes 120 us of transfer; in one of ``every`` calls rank ``late`` comes ``delay`` us late."""
    rows = []
    for call in range(calls):
        begin = 20 * MS * call
        wait = delay if call % every == 0 else 0.0
        mine = begin + (wait if rank == late else 0.0)
        rows.append(kernel(name, mine, begin + wait + 120.0 - mine, stream=20 + rank))
        rows.append(kernel(GEMM, begin + 15 * MS, 1 * MS))
    return rows


@pytest.mark.parametrize("name", [NCCL, CUSTOM])
def test_waiting_is_told_from_transfer_and_the_late_rank_is_named(tmp_path, name):
    merged = merge(ranks(tmp_path, lambda r: delayed(r, name=name)))
    assert merged.matched == 8
    assert merged.intrinsic_s == pytest.approx(8 * 120e-6)
    assert merged.wait_s == pytest.approx(3 / 4 * 4 * 10e-3)
    assert merged.rank_wait_s[2] == 0.0
    assert merged.rank_communication_s[2] == min(merged.rank_communication_s)
    assert merged.wait_share > 0.95
    (group,) = merged.groups
    assert group.median_s == pytest.approx(120e-6)
    assert group.longest_s == pytest.approx(10.12e-3)


def test_a_rank_that_is_always_late_is_the_straggler(tmp_path):
    assert merge(ranks(tmp_path, lambda r: delayed(r, every=1))).straggler == "rank 2"


def test_what_all_ranks_spend_alike_is_not_called_waiting(tmp_path):
    merged = merge(ranks(tmp_path, lambda r: delayed(r, late=-1)))
    assert merged.wait_s == 0.0
    assert merged.intrinsic_s == pytest.approx(8 * 120e-6 + 4 * 10e-3)


def test_ranks_that_take_turns_are_no_stragglers(tmp_path):
    turns = merge(ranks(tmp_path, lambda r: [row for c in range(4) for row in _one(c, r)]))
    assert turns.straggler is None


def _one(call, rank):
    begin = 20 * MS * call
    mine = begin + (1 * MS if rank == call else 0.0)
    return [kernel(NCCL, mine, begin + 1.1 * MS - mine)]


def test_a_rank_that_lacks_a_collective_is_counted_and_not_matched_askew(tmp_path):
    merged = merge(ranks(tmp_path, lambda r: delayed(r, calls=8 if r else 7)))
    assert (merged.matched, merged.unmatched) == (7, 3)


def test_a_family_that_one_rank_lacks_wholly_is_not_matched(tmp_path):
    merged = merge(ranks(tmp_path, lambda r: delayed(r, name=CUSTOM if r == 1 else NCCL)))
    assert merged.matched == 0
    assert merged.unmatched == 32


def test_one_rank_has_nothing_to_wait_for(tmp_path):
    merged = merge(ranks(tmp_path, delayed, count=1))
    assert (merged.wait_s, merged.straggler) == (0.0, None)


def test_streams_are_matched_by_their_order_of_use_and_not_by_number(tmp_path):
    def rows(rank):
        found = []
        for call in range(5):
            found.append(kernel(NCCL, MS * call, 100.0, stream=30 + rank))
            found.append(kernel(NCCL, MS * call + 300.0, 200.0, stream=50 - rank))
        return found

    merged = merge(ranks(tmp_path, rows))
    assert merged.intrinsic_s == pytest.approx(5 * 300e-6)
    assert merged.wait_s == 0.0


@pytest.mark.skipif(not DATA, reason="TPGATE_DATA names no folder")
def test_the_straggler_of_the_real_ranks_has_the_least_nccl_time():
    files = sorted((Path(DATA) / "traces" / "dlrm-8ranks").iterdir())
    merged = merge([read(path) for path in files])
    assert merged.matched == 8
    assert merged.unmatched == 0
    assert merged.straggler == "rank 2"
    assert merged.rank_communication_s[2] == min(merged.rank_communication_s)
    assert merged.ends_apart_s is not None
    assert merged.ends_apart_s < 10e-6
    assert max(merged.rank_communication_s) == pytest.approx(11.336e-3, abs=1e-6)
