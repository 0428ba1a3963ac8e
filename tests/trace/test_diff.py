from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import tracefile
from tracefile import GEMM, kernel, step

from tpgate.trace.diagnosis import Facts, diagnose
from tpgate.trace.diff import ceiling_is_mix_shift, compare
from tpgate.trace.reader import read
from tpgate.trace.summary import Summary, summarise

GOLDEN = Path(__file__).parents[1] / "golden"


def summary(tmp_path, rows=None, **more):
    rows = tracefile.decode_steps(**more) if rows is None else rows
    return summarise([read(tracefile.write(tmp_path / "a.json", rows))])


def real(kind):
    return summarise([read(GOLDEN / f"h200-llama8b-{kind}-c64-TP-0.trace.json.gz")])


def test_graphs_off_on_the_h200_is_attributed_to_late_launches_and_to_no_kernel():
    diff = compare(real("graph"), real("nograph"))
    assert diff.basis == "token"
    assert diff.now_s / diff.before_s == pytest.approx(3.91, abs=0.05)
    worst = diff.rows[0]
    assert worst.name == "idle: host launched too late"
    assert worst.explains == pytest.approx(1.0, abs=0.02)
    said = "\n".join(diff.words)
    assert "CUDA graphs are off now" in said
    assert "no kernel became slower" in said
    assert (diff.new, diff.vanished, diff.mix_shifts, diff.comparable) == ((), (), (), ())


def test_the_parts_add_up_to_the_whole():
    diff = compare(real("graph"), real("nograph"))
    assert sum(row.change_s for row in diff.rows) == pytest.approx(diff.change_s, rel=1e-9)
    assert sum(row.now_s for row in diff.rows) == pytest.approx(diff.now_s, rel=1e-9)


def test_a_slower_kernel_a_more_frequent_one_and_another_one_read_differently(tmp_path):
    base = summary(tmp_path)
    slower = compare(base, summary(tmp_path, attention=60.0))
    assert any("became slower: 30.0 µs to 60.0 µs a call, as often as before" in w for w in slower.words)
    assert slower.rows[0].name == "attention"
    assert slower.rows[0].explains == pytest.approx(1.0)

    rows = []
    for row in tracefile.decode_steps():
        rows.append(row)
        if row["name"] == GEMM:
            rows.append({**row, "ts": row["ts"] + row["dur"] + 0.5, "dur": 19.0, "name": GEMM})
    more = compare(base, summary(tmp_path, rows))
    change = next(k for k in more.kernels if k.family == "nvjet")
    assert (change.how, change.calls_before, change.calls_now) == ("more often", 1, 2)

    rows = [
        {**row, "name": "_tiled_sparse_decode_kernel", "dur": 60.0} if "_fwd_grouped" in row["name"] else row
        for row in tracefile.decode_steps(attention=60.0)
    ]
    other = compare(base, summary(tmp_path, rows))
    assert "_tiled_sparse_decode_kernel" in other.new
    assert "_fwd_grouped_kernel_stage1" in other.vanished
    assert any("was replaced by _tiled_sparse_decode_kernel (attention)" in w for w in other.words)


def test_a_rebuild_with_other_tile_sizes_is_no_new_kernel(tmp_path):
    rows = [
        {**row, "name": "nvjet_sm90_tst_128x64_64x9_2x1_v_bz_TNT"} if row["name"] == GEMM else row
        for row in tracefile.decode_steps()
    ]
    diff = compare(summary(tmp_path), summary(tmp_path, rows))
    assert (diff.new, diff.vanished) == ((), ())
    assert "hardly changed" in diff.words[0]


def test_attention_whose_share_rose_because_moe_became_faster_is_a_mix_shift(tmp_path):
    before = summary(tmp_path, attention=115.0, gemm=75.0, moe=128.0)
    now = summary(tmp_path, attention=115.0, gemm=75.0, moe=4.0)
    (shift,) = compare(before, now).mix_shifts
    assert shift.category == "attention"
    assert shift.share_before == pytest.approx(0.35, abs=0.01)
    assert shift.share_now == pytest.approx(0.564, abs=0.01)
    assert shift.time_now_s == pytest.approx(shift.time_before_s)
    assert shift.faster == ("moe",)
    said = ceiling_is_mix_shift(before, now, "attention", 0.5)
    assert said.startswith("MIX SHIFT: attention rose from")
    assert "moe became faster" in said
    assert ceiling_is_mix_shift(before, now, "attention", 0.6) is None, "the ceiling holds"


def test_a_category_that_became_slower_itself_is_no_mix_shift(tmp_path):
    before, now = summary(tmp_path), summary(tmp_path, attention=60.0)
    assert compare(before, now).mix_shifts == ()
    assert ceiling_is_mix_shift(before, now, "attention", 0.4) is None


def test_a_summary_survives_its_stored_form(tmp_path):
    found = real("graph")
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(found)), Summary)
    assert again == found
    assert compare(found, again).change_s == 0.0


def test_what_makes_two_captures_hard_to_compare_is_said(tmp_path):
    base = summary(tmp_path)
    diff = compare(base, msgspec.structs.replace(summary(tmp_path, batch=8), taxonomy="x", device="Other"))
    assert len(diff.comparable) == 3


def test_an_empty_capture_is_refused():
    with pytest.raises(ValueError, match="GPU events"):
        summarise([])


def test_launch_bound_on_the_h200_without_graphs():
    found = diagnose(real("nograph"))
    assert found.bound == "launch"
    assert "75.8 %" in str(found)
    assert diagnose(real("graph")).bound == "compute: gemm"


STORY = Facts(
    pcie_bytes_per_second=200e6,
    pcie_ceiling=64e9,
    pcie_link="Gen5 x16",
    early_tokens_per_second=900.0,
    steady_tokens_per_second=2500.0,
)


def test_the_story_that_looks_like_three_faults_and_is_none(tmp_path):
    parts = {"idle": 2.0, "attention": 570.0, "gemm": 393.0}
    before = summary(tmp_path, moe=610.0, nccl=8.0, **parts)
    now = summary(tmp_path, moe=19.0, nccl=8.0, **parts)
    assert now.categories["attention"].share == pytest.approx(0.57, abs=0.001)
    assert now.categories["communication"].share == pytest.approx(0.008, abs=0.0005)
    found = diagnose(now, STORY, before)
    assert found.bound == "compute: attention"
    said = str(found)
    assert "compute-bound in attention: 57.0 % of busy time" in said
    assert "not communication-bound: PCIe is at 0.31 % of Gen5 x16, communication is 0.80 % of busy time" in said
    assert "is the prefill ramp, not the decode speed" in said
    assert "MIX SHIFT: attention rose" in said
    assert "its own time did not" in said


def test_exposed_communication_binds_and_says_whether_it_is_latency(tmp_path):
    now = summary(tmp_path, idle=2.0, nccl=60.0)
    found = diagnose(now, STORY)
    assert found.bound == "communication"
    assert "far from its ceiling: latency, not bandwidth" in str(found)


def test_waiting_for_a_late_rank_is_named(tmp_path):
    def rows(rank):
        found = []
        for n in range(6):
            begin, mine = 1000.0 * n, 1000.0 * n + (700.0 if rank == 3 else 0.0)
            found += [kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", mine, begin + 720.0 - mine)]
            found += [kernel(GEMM, begin + 730.0, 200.0), step(mine, 200.0)]
        return found

    traces = [read(tracefile.write(tmp_path / f"TP-{r}.json", rows(r), rank=r, world=4)) for r in range(4)]
    found = diagnose(summarise(traces))
    assert found.bound == "communication"
    assert "waiting for a late rank, not transfer; rank 3 comes last" in str(found)


def test_the_client_and_prefill_can_bind_too(tmp_path):
    now = summary(tmp_path, idle=2.0)
    assert diagnose(now, Facts(client_cpu_share=0.99)).bound == "client"
    assert diagnose(now, Facts(prefill_share=0.7)).bound == "prefill"
