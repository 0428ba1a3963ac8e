from __future__ import annotations

import json
from pathlib import Path

import pytest
import tracefile

from tpgate.cli import main

GOLDEN = Path(__file__).parents[1] / "golden"
GRAPH = str(GOLDEN / "h200-llama8b-graph-c64-TP-0.trace.json.gz")
NOGRAPH = str(GOLDEN / "h200-llama8b-nograph-c64-TP-0.trace.json.gz")


def test_a_breakdown_of_a_real_trace(capsys):
    assert main(["trace", GRAPH, "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert "GPU busy 96.8 % of a span of 52.0 ms; CUDA graphs 96.0 % of kernels" in out
    assert "8 decode steps (step annotations on the GPU), 64 tokens a step" in out
    assert any(
        line.split() == ["attention", "23.9", "%", "12.0", "ms", "23.5", "µs", "520"] for line in out.splitlines()
    )
    assert "_fwd_grouped_kernel_stage1" in out


def test_a_difference_of_two_real_traces_says_where_it_is(capsys):
    assert main(["trace", NOGRAPH, "--diff", GRAPH]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("time per token rose from 101 µs to 398 µs")
    assert out[1].startswith("idle: host launched too late explains")
    assert "CUDA graphs are off now" in out[2]
    assert out[3] == "no kernel became slower by an amount that matters"


def test_json_has_everything(capsys):
    assert main(["trace", NOGRAPH, "--diff", GRAPH, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["now"]["graph_share"] == 0.0
    assert found["diff"]["rows"][0]["name"] == "idle: host launched too late"
    assert main(["trace", GRAPH, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 8


def test_a_folder_is_one_capture_with_its_ranks(tmp_path, capsys):
    for rank in range(2):
        tracefile.write(tmp_path / f"a-TP-{rank}.trace.json.gz", tracefile.decode_steps(nccl=5.0), rank=rank, world=2)
    assert main(["trace", str(tmp_path), "--tokens-per-step", "4"]) == 0
    out = capsys.readouterr().out
    assert "2 ranks (medians)" in out
    assert "4 collectives matched over the ranks (0 calls not)" in out


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda folder: folder / "gone.json", 2, "no such file"),
        (lambda folder: folder, 2, "no .json or .json.gz file"),
        (
            lambda folder: tracefile.write(folder / "cpu.json", [tracefile.event("cpu_op", "aten::mm", 1, 1)]),
            6,
            "1 cpu_op",
        ),
    ],
)
def test_a_wrong_path_is_named_with_what_to_do(tmp_path, capsys, make, code, said):
    path = make(tmp_path)
    assert main(["trace", str(path)]) == code
    err = capsys.readouterr().err
    assert str(path) in err
    assert said in err


def test_a_cut_off_file_is_shown_with_a_warning(tmp_path, capsys):
    whole = tracefile.write(tmp_path / "a.json.gz", tracefile.decode_steps(2000))
    whole.write_bytes(whole.read_bytes()[:-20000])
    assert main(["trace", str(whole)]) == 0
    assert "cut off" in capsys.readouterr().err


def test_a_file_of_own_rules_is_used(tmp_path, capsys):
    trace = tracefile.write(tmp_path / "a.json", [tracefile.kernel("zorblax_v1", 10.0 * n, 5.0) for n in range(20)])
    rules = tmp_path / "mine.toml"
    rules.write_text('[[rule]]\ncategory = "moe"\nmatch = "zorblax"\nwhy = "ours"\n')
    assert main(["trace", str(trace), "--taxonomy", str(rules), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["categories"]["moe"]["share"] == 1.0
