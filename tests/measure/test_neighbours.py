"""Who else is on the GPUs of a server that really runs, before, during and after a cell: by the server's processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from types import SimpleNamespace

import pytest
from fake_nvml import MARKED, gpu, marked, script

from tpgate.host import lease
from tpgate.measure import cell as module
from tpgate.measure import session
from tpgate.measure.cell import measure_cell
from tpgate.measure.conditions import neighbour_doubts
from tpgate.measure.result import Validity
from tpgate.measure.target import Target
from tpgate.server import ports, process
from tpgate.specs import LoadSpec, ModelSpec, ServerSpec, pairs

MINE, OTHER = "FAKE-a", "FAKE-b"
PAIR = (
    gpu(MINE, processes=MARKED, memory_used=500 << 20),
    gpu(OTHER, processes=MARKED, memory_used=500 << 20),
)


def load(label):
    """A short load; the one with a visitor takes 1.4 s, longer than between two readings of the processes."""
    requests = 26 if label == "during" else 8
    return LoadSpec(concurrency=2, requests=requests, warmup_requests=2, input_tokens=8, output_tokens=24, label=label)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    spec = ServerSpec(
        ModelSpec.dummy("m", {"vocab_size": 2048}),
        options=pairs(step_ms=4.0, per_request_ms=0.1, vocabulary=2048),
        environment=(("TPGATE_TEST_GPU", MINE),),
        startup_timeout_s=20.0,
        engine="standin",
    )
    with process.start(spec, folder=tmp_path_factory.mktemp("server")) as running:
        yield running


@contextlib.contextmanager
def intruder(uuid=MINE):
    program = subprocess.Popen(["sleep", "60"], env={**os.environ, "TPGATE_TEST_GPU": uuid})
    deadline = time.monotonic() + 10
    while program.pid not in marked(uuid) and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield program.pid
    finally:
        program.kill()
        program.wait()


@pytest.fixture
def measure(nvml, tmp_path, server):
    nvml(script(*PAIR))

    def run(label, *, gpus=(MINE,), against=server):
        target = Target(against, 2048, None, 1, gpus, client_lag_limit=100.0)
        return measure_cell(target, load(label), folder=tmp_path, processes=1, progress=lambda text: None)

    return run


@pytest.fixture
def visits(monkeypatch):
    """An intruder in the cells that are called ``before``, ``during`` and ``after``, at that stage alone; its pids."""
    pids, inside = {}, contextlib.ExitStack()
    warm, drive, sampler = module.warm, module.drive, module.Sampler
    cell = ""

    def at(stage):
        inside.close()
        if cell == stage:
            pids[stage] = inside.enter_context(intruder())

    class Visited(sampler):
        def start(self):
            inside.close()  # who was there before is gone when sampling begins
            super().start()

        def stop(self):
            inside.close()
            seen = super().stop()
            at("after")
            return seen

    def warmed(target, load, **more):
        nonlocal cell
        cell = load.label
        at("before")
        return warm(target, load, **more)

    def driven(*arguments, **more):
        at("during")
        return drive(*arguments, **more)

    monkeypatch.setattr(module, "warm", warmed)
    monkeypatch.setattr(module, "drive", driven)
    monkeypatch.setattr(module, "Sampler", Visited)
    with inside:
        yield pids


def strangers(run):
    return [doubt for doubt in run.doubts if doubt.check in ("foreign_process", "gpu_ownership")]


def test_a_stranger_before_during_or_after_a_window_makes_that_window_void_and_no_other(measure, visits):
    for stage in ("before", "during", "after"):
        run = measure(stage)
        (doubt,) = strangers(run)
        assert (doubt.check, doubt.fatal) == ("foreign_process", True)
        assert f"process {visits[stage]} " in doubt.reason
        assert ("not the server's" in doubt.reason) == (stage == "during")
        assert MINE in doubt.reason
        assert run.validity is Validity.VOID
    run = measure("alone")
    assert strangers(run) == []
    assert [row["uuid"] for row in run.details["telemetry"]["gpus"]] == [MINE]


def test_a_server_on_another_gpu_than_the_leased_one_is_void(measure):
    run = measure("x", gpus=(OTHER,))
    reasons = [doubt.reason for doubt in run.doubts if doubt.check == "gpu_ownership"]
    assert len(reasons) == 2  # said once, though it was so before and after
    assert any(f"the server runs on GPU 0 (NVIDIA H200, {MINE})" in reason for reason in reasons)
    assert any(f"no process of the server is on GPU 1 (NVIDIA H200, {OTHER})" in reason for reason in reasons)
    assert run.validity is Validity.VOID


def test_processes_of_a_server_that_was_attached_to_are_not_known_and_that_is_said(measure, server):
    (doubt,) = strangers(measure("x", against=process.attach(server.url)))
    assert (doubt.check, doubt.fatal) == ("gpu_ownership", False)
    assert "does not know its processes" in doubt.reason
    assert MINE in doubt.reason


def test_a_running_server_has_the_busy_gpu_and_one_on_another_machine_has_none(nvml, monkeypatch, tmp_path):
    monkeypatch.setenv(lease.FOLDER_VARIABLE, str(tmp_path))
    nvml(script(gpu(MINE, processes=[], memory_used=0), gpu(OTHER)))
    scenario = SimpleNamespace(server=ServerSpec(ModelSpec.dummy("m", {"vocab_size": 8})))
    assert session.gpus_of(scenario, None) == (MINE,)
    assert session.gpus_of(scenario, "http://127.0.0.1:30000") == (OTHER,)
    monkeypatch.setattr(session.ports, "is_local", lambda url: False)
    assert session.gpus_of(scenario, "http://elsewhere:30000") == ()


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("localhost", True), ("192.0.2.7", False), ("", False)],
)
def test_hosts_of_this_machine(host, here):
    assert ports.is_local(f"http://{host}:30000") is here


def test_without_gpus_nobody_is_asked(nvml):
    nvml(None)
    assert neighbour_doubts((), ()) == neighbour_doubts((), {7}) == []
