"""Synthetic traces: their sums are the known parts of the step, on every rank."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict

import pytest

from tpgate.server.standin.profile import Profile
from tpgate.server.standin.settings import Faults, Settings
from tpgate.server.standin.steps import Step, all_reduces, decode_parts, decode_seconds
from tpgate.server.standin.trace import rank_trace, step_kernels


def step_of(settings, running=8, start=1_000_000):
    parts = decode_parts(settings, running)
    return Step("decode", start, start + round(decode_seconds(settings, running) * 1e9), running, parts)


def seconds_by_part(settings, rank, step=None):
    found = defaultdict(float)
    for kernel in step_kernels(settings, step or step_of(settings), rank):
        found[kernel.part] += (kernel.end_ns - kernel.start_ns) / 1e9
    return found


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize(
    "faults", [Faults(), Faults(attention_slower=0.3), Faults(graphs_off=1), Faults(extra_all_reduce=1)]
)
def test_kernel_times_are_the_parts_of_the_step(tp, faults):
    settings = Settings(tp=tp, faults=faults)
    parts, found = decode_parts(settings, 8), seconds_by_part(settings, 0)
    for part in ("attention", "moe", "gemm", "norm", "routing", "other"):
        assert found[part] == pytest.approx(parts[part]), part
    if tp == 1:
        assert "all_reduce" not in found


def test_kernels_do_not_overlap_and_stay_inside_the_step():
    settings = Settings(tp=2, faults=Faults(straggler_us=50, graphs_off=1))
    step = step_of(settings)
    for rank in range(2):
        at = step.start_ns
        for kernel in step_kernels(settings, step, rank):
            assert kernel.start_ns >= at - 1e-3
            assert kernel.end_ns > kernel.start_ns
            at = kernel.end_ns
        assert at <= step.end_ns + 1


def test_least_duration_over_ranks_is_the_intrinsic_time_of_the_collective():
    settings = Settings(tp=4)
    calls = [
        [(k.start_ns, k.end_ns) for k in step_kernels(settings, step_of(settings), rank) if k.part == "all_reduce"]
        for rank in range(4)
    ]
    assert {len(row) for row in calls} == {all_reduces(settings)}
    for same in zip(*calls, strict=True):
        assert len({round(end) for _, end in same}) == 1
        assert len({round(start) for start, _ in same}) > 1


def test_straggler_shows_the_least_all_reduce_time():
    healthy, slow = Settings(tp=4), Settings(tp=4, faults=Faults(straggler_us=100))
    before = [seconds_by_part(healthy, rank)["all_reduce"] for rank in range(4)]
    after = [seconds_by_part(slow, rank)["all_reduce"] for rank in range(4)]
    wait = all_reduces(slow) * 100e-6
    assert after[3] == pytest.approx(before[3])
    assert after[0] == pytest.approx(before[0] + wait)
    assert decode_seconds(slow, 8) == pytest.approx(decode_seconds(healthy, 8) + wait)


def test_extra_all_reduces_are_further_calls():
    healthy, more = Settings(tp=4), Settings(tp=4, faults=Faults(extra_all_reduce=1))
    count = [sum(k.part == "all_reduce" for k in step_kernels(s, step_of(s), 0)) for s in (healthy, more)]
    assert count == [16, 24]


def test_trace_looks_like_kineto():
    settings = Settings(tp=2)
    trace = rank_trace(settings, [step_of(settings)], 1)
    assert trace["distributedInfo"]["rank"] == 1
    assert trace["distributedInfo"]["world_size"] == 2
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    assert {event["ph"] for event in kernels} == {"X"}
    assert any(event["name"].startswith("ncclDevKernel_AllReduce") for event in kernels)
    assert len({event["args"]["correlation"] for event in kernels}) == 1, "one graph launch a step"


def test_graphs_off_launches_one_by_one():
    settings = Settings(faults=Faults(graphs_off=1))
    events = rank_trace(settings, [step_of(settings)], 0)["traceEvents"]
    launches = [event for event in events if event["name"] == "cudaLaunchKernel"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len(launches) == len(kernels) > 10
    assert not any(event["name"] == "cudaGraphLaunch" for event in events)


def test_empty_trace_has_cpu_events_only():
    settings = Settings(faults=Faults(empty_trace=1))
    events = rank_trace(settings, [step_of(settings)], 0)["traceEvents"]
    assert not any(event.get("cat") == "kernel" for event in events)
    assert any(event.get("cat") == "cuda_runtime" for event in events)


def written(tmp_path, **options):
    settings = Settings(tp=options.pop("tp", 2), faults=Faults(**options))
    profile = Profile.of({"output_dir": str(tmp_path), "num_steps": 2, "profile_id": "9", "profile_prefix": "run"})
    assert not profile.take(Step("prefill", 0, 1, 1, {}))
    assert not profile.take(step_of(settings))
    assert profile.take(step_of(settings, start=9_000_000))
    return [path.name for path in profile.write(settings)]


def test_one_file_a_rank_named_as_sglang_names_them(tmp_path):
    assert written(tmp_path) == ["run-9-TP-0.trace.json.gz", "run-9-TP-1.trace.json.gz"]
    trace = json.loads(gzip.decompress((tmp_path / "run-9-TP-0.trace.json.gz").read_bytes()))
    steps = [event for event in trace["traceEvents"] if event["name"].startswith("step[DECODE")]
    assert len(steps) == 2


def test_missing_rank_and_fewer_ranks_and_cut_file(tmp_path):
    assert written(tmp_path, missing_rank_trace=1) == ["run-9-TP-0.trace.json.gz"]
    assert written(tmp_path, fewer_ranks=1) == ["run-9-TP-0.trace.json.gz"]
    written(tmp_path, cut_trace=1)
    with pytest.raises(EOFError):
        gzip.decompress((tmp_path / "run-9-TP-1.trace.json.gz").read_bytes())


def test_profile_by_stage_has_its_suffix(tmp_path):
    profile = Profile.of({"output_dir": str(tmp_path), "num_steps": 1, "profile_id": "9", "profile_by_stage": True})
    profile.take(step_of(Settings()))
    assert [path.name for path in profile.write(Settings())] == ["9-TP-0-DECODE.trace.json.gz"]
