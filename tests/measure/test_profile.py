from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tracefile

from tpgate.measure.attribution import CPU_ENGINE, explain, trace_values
from tpgate.measure.captured import Profile
from tpgate.measure.definitions import METRICS
from tpgate.measure.definitions.trace import METRICS as TRACE_METRICS
from tpgate.measure.profile import profile_cell
from tpgate.specs import LoadSpec

GOLDEN = Path(__file__).parents[1] / "golden"
LOAD = LoadSpec(8, 16, 8, input_tokens=16, output_tokens=64)


class Server:
    """The scripted stand-in, in a process of its own."""

    def __init__(self, *options: str) -> None:
        words = [sys.executable, "-m", "tpgate.server.standin", "--port", "0", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline())[0]

    def alive(self) -> str | None:
        return None if self.process.poll() is None else f"exit status {self.process.returncode}"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def server_with():
    made = []

    def start(*options: str) -> Server:
        made.append(Server(*options))
        return made[-1]

    yield start
    for server in made:
        server.close()


def captured(server, folder, *, ranks=2, steps=10, deadline_s=20.0, load=LOAD, activities=("GPU",)):
    return profile_cell(
        server,
        load,
        vocabulary=1000,
        folder=folder,
        steps=steps,
        ranks=ranks,
        activities=activities,
        deadline_s=deadline_s,
    )


def profile(*paths, **more):
    fields = {
        "folder": paths[0].parent,
        "load": LoadSpec(64, 64, 64),
        "steps": 8,
        "ranks": len(paths),
        "activities": ("GPU",),
    }
    return Profile(files=paths, **(fields | more))


def of(values, name):
    return values[name].value


def test_a_capture_under_load_gives_every_metric(tmp_path, server_with):
    found = captured(server_with("--tp", "2"), tmp_path / "traces")
    assert (found.reasons, found.notes, found.batch, len(found.files)) == ((), (), 8.0, 2)
    values, doubts, details = trace_values(found)
    assert doubts == []
    assert set(values) == {definition.name for definition in TRACE_METRICS}
    assert all(value.reason is None for value in values.values())
    assert of(values, "attention_share") == pytest.approx(0.237, abs=0.01)
    assert of(values, "nccl_share") == pytest.approx(of(values, "communication_share"))
    assert of(values, "communication_wait_time_per_token") > 0
    assert of(values, "kernels_per_step") == 98
    assert details["summary"]["steps"] == 10
    assert set(details["ranks"]) == {"0", "1"}
    json.dumps(details)


def test_slower_attention_in_the_server_is_found_and_explained(tmp_path, server_with):
    details = []
    for name, options in (("before", ()), ("now", ("--fault-attention-slower", "0.5"))):
        values, _, detail = trace_values(captured(server_with("--tp", "1", *options), tmp_path / name, ranks=1))
        details.append((values, detail))
    (before, was), (now, is_now) = details
    assert of(now, "attention_time_per_token") == pytest.approx(1.5 * of(before, "attention_time_per_token"), rel=0.02)
    assert of(now, "gemm_time_per_token") == pytest.approx(of(before, "gemm_time_per_token"), rel=0.02)
    said = "\n".join(explain(was, is_now))
    assert "attention explains" in said
    assert "_fwd_grouped_kernel_stage1 (attention) became slower" in said
    assert explain({}, is_now) == ()


def test_a_straggler_is_named_and_waiting_is_apart_from_transfer(tmp_path, server_with):
    values, _, details = trace_values(captured(server_with("--tp", "2", "--fault-straggler-us", "200"), tmp_path))
    assert details["summary"]["collectives"]["straggler"] == "rank 1"
    assert of(values, "communication_wait_time_per_token") > of(values, "communication_intrinsic_time_per_token")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--fault-missing-rank-trace", "1"), "1 of 2 ranks have a complete trace file; none of rank 1"),
        (("--fault-cut-trace", "1"), "gzip stream cut off"),
        (("--fault-profile-fails", "1"), "the profiler did not start"),
        (("--fault-empty-trace", "1"), "0 GPU kernels (the file holds"),
    ],
)
def test_a_bad_capture_is_no_verdict_and_voids_nothing(tmp_path, server_with, options, reason):
    values, doubts, details = trace_values(captured(server_with("--tp", "2", *options), tmp_path, deadline_s=2.5))
    assert all(value.value is None for value in values.values())
    assert reason in values["attention_share"].reason
    assert [(doubt.check, doubt.fatal) for doubt in doubts] == [("profile_capture", False)]
    assert reason in "; ".join(details["reasons"])


def test_a_dead_server_ends_the_wait_at_once(tmp_path, server_with):
    server = server_with("--tp", "2", "--fault-die-after-requests", "3")
    found = captured(server, tmp_path, deadline_s=15.0)
    assert found.reasons
    assert found.seconds is None or found.seconds < 12


def test_files_of_an_earlier_capture_are_not_taken_for_this_one(tmp_path, server_with):
    for rank in range(2):
        tracefile.write(tmp_path / f"old-TP-{rank}.trace.json.gz", tracefile.decode_steps(), rank=rank, world=2)
    found = captured(server_with("--tp", "2"), tmp_path)
    assert len(found.files) == 2
    assert not any(path.name.startswith("old") for path in found.files)


def test_the_real_captures_give_the_real_values():
    graph, nograph = (
        trace_values(profile(GOLDEN / f"h200-llama8b-{kind}-c64-TP-0.trace.json.gz", steps=steps))
        for kind, steps in (("graph", 8), ("nograph", 3))
    )
    assert of(graph[0], "gpu_busy_share") == pytest.approx(0.968, abs=1e-3)
    assert of(nograph[0], "gpu_busy_share") == pytest.approx(0.242, abs=1e-3)
    assert of(graph[0], "kernel_time_per_token") == pytest.approx(of(nograph[0], "kernel_time_per_token"), rel=0.03)
    assert of(nograph[0], "idle_time_per_token") > 50 * of(graph[0], "idle_time_per_token")
    assert graph[1] == nograph[1] == []
    assert of(graph[0], "communication_share") == of(graph[0], "communication_wait_time_per_token") == 0.0
    assert any("CUDA graphs are off now" in line for line in explain(graph[2], nograph[2]))


def test_a_cpu_engine_has_no_trace_metric_and_says_so(tmp_path):
    rows = [tracefile.event("cpu_op", "aten::mm", 10.0 * n, 5.0) for n in range(40)]
    path = tracefile.write(tmp_path / "a-TP-0.trace.json.gz", rows)
    values, doubts, details = trace_values(profile(path, activities=("CPU",)))
    assert {value.reason for value in values.values()} == {CPU_ENGINE}
    assert doubts == []
    assert details["files"] == [path.name]


def test_two_files_of_one_rank_are_seen(tmp_path):
    paths = [
        tracefile.write(tmp_path / f"a-TP-{n}.trace.json.gz", tracefile.decode_steps(), rank=0, world=2)
        for n in range(2)
    ]
    values, _, _ = trace_values(profile(*paths))
    assert "ranks [0, 0]: two of one rank" in values["moe_share"].reason


def test_another_number_of_steps_and_a_thin_batch_are_noted_and_judged(tmp_path):
    path = tracefile.write(tmp_path / "a-TP-0.trace.json.gz", tracefile.decode_steps(20, batch=4))
    values, doubts, _ = trace_values(profile(path))
    assert {doubt.check for doubt in doubts} == {"profile_steps", "profile_batch"}
    assert of(values, "attention_time_per_token") == pytest.approx(30e-6 / 4)


def test_a_renamed_attention_kernel_raises_the_unclassified_share(tmp_path):
    rows = [
        {**row, "name": "house_decode_v7"} if "_fwd_grouped" in row["name"] else row
        for row in tracefile.decode_steps(8)
    ]
    values, doubts, _ = trace_values(profile(tracefile.write(tmp_path / "a-TP-0.trace.json.gz", rows)))
    assert of(values, "unclassified_share") == pytest.approx(1 / 3)
    assert of(values, "attention_share") == 0.0
    (note,) = [doubt for doubt in doubts if doubt.check == "profile_unclassified"]
    assert "house_decode_v7" in note.reason


def test_a_trace_full_of_impossible_events_is_not_judged(tmp_path):
    rows = tracefile.decode_steps(10)
    for row in rows[::7]:
        if row["cat"] == "kernel":
            row["dur"] = -1.0
    values, _, _ = trace_values(profile(tracefile.write(tmp_path / "a-TP-0.trace.json.gz", rows)))
    assert "impossible or double" in values["gemm_share"].reason


def test_without_annotations_the_batch_comes_from_the_counters_or_the_load(tmp_path):
    rows = [row for row in tracefile.decode_steps(8, graphs=True) if row["cat"] != "gpu_user_annotation"]
    path = tracefile.write(tmp_path / "a-TP-0.trace.json.gz", rows)
    for batch, source in ((64.0, "the server's counters"), (None, "the load's concurrency, not seen to be reached")):
        values, _, details = trace_values(profile(path, batch=batch))
        assert (details["summary"]["batch"], details["summary"]["batch_source"]) == (64.0, source)
        assert of(values, "attention_time_per_token") == pytest.approx(30e-6 / 64)


def test_switching_to_a_custom_all_reduce_does_not_read_as_no_communication(tmp_path):
    rows = tracefile.decode_steps(nccl=15.0)
    custom = [
        {**row, "name": "void sglang::cross_device_reduce_1stage<b, 2>(R*)"} if row["name"] == tracefile.NCCL else row
        for row in rows
    ]
    found = [
        trace_values(profile(tracefile.write(tmp_path / f"{n}-TP-0.trace.json.gz", r)))[0]
        for n, r in enumerate((rows, custom))
    ]
    assert of(found[0], "communication_share") == of(found[1], "communication_share") > 0.1
    assert (of(found[0], "nccl_share") > 0.1, of(found[1], "nccl_share")) == (True, 0.0)


def test_every_trace_metric_is_defined_once_with_a_formula():
    for definition in TRACE_METRICS:
        assert METRICS[definition.name] is definition
        assert definition.source == "trace"
        assert definition.formula
