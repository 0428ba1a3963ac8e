from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from fake_nvml import gpu, script

from tpgate.host import telemetry as module
from tpgate.host.telemetry import Sampler, Telemetry


def sample(seconds, uuids=None, rate_hz=50.0):
    sampler = Sampler(uuids, rate_hz)
    sampler.start()
    began = time.perf_counter_ns()
    time.sleep(seconds)
    ended = time.perf_counter_ns()
    return sampler.stop(), began, ended


def test_a_process_of_its_own_samples_through_wraps_and_its_clock_is_ours(nvml):
    nvml(script(gpu(tx_rate=50e9, offset=2**32 - 5), gpu("GPU-bbbb")))
    seen, began, ended = sample(1.2)
    assert seen.reason is None
    assert seen.topology == "pcie p2p"
    assert [g.gpu.uuid for g in seen.gpus] == ["GPU-aaaa", "GPU-bbbb"]
    assert seen.started_ns <= began < ended <= seen.ended_ns
    assert abs(seen.wall_start_unix_ns - (time.time_ns() - (time.perf_counter_ns() - seen.started_ns))) < 50_000_000
    assert 25 < seen.achieved_hz <= 55
    assert 0 < seen.cpu_share < 1
    counter = seen.gpus[0].bytes_of("tx")
    moved, unknown = counter.between(began, ended)
    assert counter.wraps >= 10
    if unknown == 0:  # a reading may be held up on a busy machine; then the span is unknown and not wrong
        assert moved / ((ended - began) / 1e9) == pytest.approx(50e9, rel=0.02)
    begin, end = seen.gpus[0].counters["begin_ns"], seen.gpus[0].counters["end_ns"]
    assert bool(np.all(end >= begin))
    assert bool(np.all(np.diff(begin) > 0))


def test_only_the_asked_gpus_are_watched(nvml):
    nvml(script(gpu(), gpu("GPU-bbbb", power_mw=123_000)))
    seen, began, ended = sample(0.3, ["GPU-bbbb"])
    assert [g.gpu.uuid for g in seen.gpus] == ["GPU-bbbb"]
    assert seen.topology == "single"
    assert set(seen.gpus[0].between("power_w", began, ended)) == {123.0}
    assert seen.gpus[0].processes[0][1] == ((4242, 100 << 30),)
    assert seen.gpus[0].once["link_generation_max"] == 5.0


@pytest.mark.parametrize(
    ("machine", "uuids", "reason"),
    [
        (None, None, "NVML Shared Library Not Found"),
        (script(init=18), None, "version mismatch"),
        (script(), ["GPU-zzzz"], "NVML does not show GPU GPU-zzzz"),
        (script(gpu(lost=True)), None, "GPU is lost"),
    ],
)
def test_what_the_machine_lacks_is_a_reason(nvml, machine, uuids, reason):
    nvml(machine)
    seen, *_ = sample(0, uuids)
    assert seen.gpus == ()
    assert reason in seen.reason


def test_a_server_without_gpus_starts_no_process(nvml):
    nvml(script())
    seen, *_ = sample(0, [])
    assert seen.reason == "the server uses no GPU of this machine"


def test_unsupported_readings_keep_their_reason(nvml):
    nvml(script(gpu(unsupported=["power_mw", "tx", "rx", "events"])))
    seen, began, ended = sample(0.3)
    only = seen.gpus[0]
    assert only.missing["power_w"] == "nvmlDeviceGetPowerUsage: Not Supported"
    assert len(only.between("power_w", began, ended)) == 0
    assert bool(np.all(only.counters["tx"] == -1))
    assert "XID errors are not watched" in seen.faults[0]


def test_a_sampler_that_dies_says_so(nvml):
    nvml(script())
    sampler = Sampler(None)
    sampler.start()
    os.kill(sampler._process.pid, signal.SIGKILL)
    assert "ended with -9" in sampler.stop().reason


def test_a_sampler_that_cannot_start_says_why(nvml, monkeypatch):
    nvml(script())
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    seen, *_ = sample(0)
    assert "did not start" in seen.reason


def test_it_dies_with_its_parent(nvml):
    nvml(script())
    code = (
        "import os, sys; from tpgate.host.telemetry import Sampler; s = Sampler(None); s.start(); "
        "print(s._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    child = int(done.stdout)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(child).wait(timeout=10)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_stop_without_start_is_a_reason():
    assert Sampler(None).stop() == Telemetry.empty("the sampler was not started")
    with pytest.raises(ValueError, match="above 0"):
        Sampler(None, 0)


def test_the_time_axis_of_requests_is_clock_monotonic():
    first = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    middle = time.perf_counter_ns()
    last = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert first <= middle <= last


def test_a_file_in_the_current_folder_does_not_get_into_the_sampler(nvml, monkeypatch, tmp_path):
    nvml(script())
    monkeypatch.chdir(tmp_path)
    for name in ("array.py", "select.py", "msgspec.py"):
        (tmp_path / name).write_text("raise SystemExit(9)")
    seen, *_ = sample(0)
    assert seen.reason is None


def test_gpu_errors_and_nvlink_bytes_come_through(nvml):
    nvml(script(gpu(nvlink_tx_rate=1e9, nvlink_rx_rate=1e9), gpu("GPU-bbbb"), p2p="nvlink", xids=[79, 31]))
    seen, *_ = sample(0.1)
    assert [xid for _, xid in seen.xids] == [79, 31]
    assert seen.topology == "nvlink"
    first = seen.gpus[0].rare["nvlink_tx"]
    assert first[-1] > first[0]
    assert "nvlink_tx" in seen.gpus[1].missing
