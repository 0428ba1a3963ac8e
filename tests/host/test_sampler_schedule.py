from __future__ import annotations

import io
import os
import threading
import time

import pytest

from tpgate.host import sampler as module
from tpgate.host.nvml import Fields, Gpu, Missing
from tpgate.host.sampler import RARE, READINGS, STATE, Reader, Tape


class Slow:
    """A library whose third reading of the counters takes 150 ms."""

    def __init__(self):
        self.calls = 0

    def counters(self, gpu):
        self.calls += 1
        if self.calls == 3:
            time.sleep(0.15)
        return Fields(self.calls, self.calls, None, 32)

    def __getattr__(self, name):
        return lambda *_, **__: None if name == "xid" else Missing(f"no {name}")


@pytest.fixture
def running():
    read, write = os.pipe()
    with io.FileIO(read) as source:
        yield Reader(Slow(), [Tape(Gpu("GPU-a", "x", 0))], 10_000_000), source, write
    os.close(write)


def test_late_readings_are_skipped_and_never_caught_up(running):
    reader, source, write = running
    timer = threading.Timer(0.4, os.write, (write, b"stop\n"))
    began = time.perf_counter()
    timer.start()
    assert reader.run(source) is True
    timer.join()
    periods = (time.perf_counter() - began) / 0.01
    assert 5 < reader.ticks <= periods - 10
    counters = reader.tapes[0].counters
    assert len({len(column) for column in counters.values()}) == 1
    assert max(end - begin for begin, end in zip(counters["begin_ns"], counters["end_ns"], strict=True)) > 140_000_000


def test_what_cannot_be_read_is_nan_with_one_reason(running):
    reader, source, write = running
    os.write(write, b"stop\n")
    reader.open()
    reader.read_state(reader.tapes[0])
    assert reader.run(source) is True
    tape = reader.tapes[0]
    assert tape.missing["power_w"] == "no number"
    assert tape.missing["throttle"] == "no throttle"
    assert tape.missing["nvlink_tx"] == "no nvlink_bytes"
    assert tape.once == {}
    assert reader.faults == ["XID errors are not watched: no watch_xids"]
    assert set(tape.rare) == {"begin_ns", "end_ns", *RARE}
    assert set(STATE) - set(READINGS) == {"throttle"}


def test_it_ends_when_its_parent_is_another_though_the_pipe_stays_open(running, monkeypatch):
    reader, source, _ = running
    parents = iter([100, 100, 1])
    monkeypatch.setattr(module.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(module, "RARE_PERIOD_NS", 20_000_000)
    assert reader.run(source) is False


def test_the_end_of_the_pipe_is_the_end(running):
    reader, _, _ = running
    read, other = os.pipe()
    os.close(other)
    with io.FileIO(read) as ended:
        assert reader.run(ended) is False
