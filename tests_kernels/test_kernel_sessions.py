"""Timing, sessions, their process, collectives over gloo, and what is said where something is missing."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
import torch

from tpgate.errors import ConfigError, HostError, TpgateError
from tpgate.kernels import choice, peers, session
from tpgate.kernels.collective_cases import parse_collective
from tpgate.kernels.collectives import measure_collectives
from tpgate.kernels.copies import measure_copies
from tpgate.kernels.inputs import make_inputs
from tpgate.kernels.reference import mla_reference
from tpgate.kernels.results import KernelSession
from tpgate.kernels.roofline import Peaks
from tpgate.kernels.shapes import MlaShape
from tpgate.kernels.timing import time_calls

PEAKS = Peaks(1e10, 1e10, "made up")
TINY = MlaShape(2, 32, 16, "bf16", latent=64, rope=16)
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="says what a machine without a GPU says")


def test_every_input_takes_its_turn_and_a_sample_is_one_pass():
    turns: list[int] = []
    calls = [lambda which=which: turns.append(which) for which in range(3)]
    timing = time_calls(calls, device="cpu", samples=4, repeat=2)
    assert turns == [0, 1, 2] * 2 * 5
    assert timing.calls == 6
    assert len(timing.samples_s) == 4
    assert timing.method == "host"
    assert timing.clock_hz is None


def test_nothing_to_time_is_an_error():
    with pytest.raises(ConfigError, match="0 calls"):
        time_calls([], device="cpu")


def test_a_session_checks_then_times_both_kernels():
    found = session.measure_session([TINY], device="cpu", samples=2, peaks=PEAKS, others=True)
    (result,) = found.shapes
    assert result.fast.kernel == "shared"
    assert result.naive is not None
    assert 0 < result.fast.error < 1e-2
    assert len(result.fast.samples_s) == 2
    assert dict(result.absent)["flash-mla"].startswith("made for")
    assert msgspec.json.decode(msgspec.json.encode(found), type=KernelSession) == found


def test_a_wrong_kernel_is_never_timed(monkeypatch):
    def wrong(inputs, tile):
        right = choice.mla.shared_call(inputs, tile)

        def call():
            right()
            inputs.out[0, 0] *= 1.05

        return call

    monkeypatch.setitem(choice.MAKERS, "shared", wrong)
    with pytest.raises(TpgateError, match="the kernel is wrong"):
        session.measure_session([TINY], device="cpu", samples=1, peaks=PEAKS, others=False)


@no_gpu
def test_a_missing_gpu_is_an_error():
    with pytest.raises(HostError, match="torch sees no GPU"):
        session.measure_session([TINY], device="cuda:0", peaks=PEAKS)
    with pytest.raises(HostError, match="no CUDA device"):
        measure_copies()
    with pytest.raises(HostError, match="over 2 ranks"):
        measure_collectives([parse_collective("all-reduce-d64-b1-n2-nccl")])


@no_gpu
def test_a_missing_library_is_said():
    with pytest.raises(HostError, match="FlashMLA: no flashmla_ops library"):
        peers.load_flash_mla()


def test_the_process_writes_a_session_and_names_a_wrong_case(tmp_path):
    command = [sys.executable, "-m", "tpgate.kernels", "--out", str(tmp_path / "s.json"), "--device", "cpu"]
    command += ["--samples", "1", "--peaks", "1e10,1e10"]
    subprocess.run([*command, "b1-k16-h16-bf16"], check=True, capture_output=True)
    found = msgspec.json.decode((tmp_path / "s.json").read_bytes(), type=KernelSession)
    assert found.shapes[0].shape.name == "b1-k16-h16-bf16"
    wrong = subprocess.run([*command, "b1-k16"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "b64-k2048-h128-bf16" in wrong.stderr


def test_collectives_over_gloo_are_right_and_timed():
    cases = [parse_collective(f"{name}-d64-b4-n2-gloo") for name in ("all-reduce", "all-gather")]
    found = measure_collectives(cases, samples=3)
    assert [timing.case for timing in found] == cases
    for timing in found:
        assert len(timing.samples_s) == 3
        assert timing.method == "host"
        assert 0 < timing.latency_s < 1
        assert timing.bus_bytes_per_s > 0


def test_collectives_of_different_ranks_do_not_mix():
    with pytest.raises(ConfigError, match="one number of ranks"):
        measure_collectives([parse_collective(f"all-reduce-d64-b1-n{ranks}-gloo") for ranks in (2, 3)])
    with pytest.raises(ConfigError, match="at least one case"):
        measure_collectives([])


def test_a_packed_cache_stands_for_nearly_the_same_tokens():
    inputs = make_inputs(MlaShape(1, 64, 16), device="cpu", seed=1)
    packed, true = peers.pack_fp8(inputs)
    assert packed.shape == (2, 64, 1, 656)
    flat = inputs.cache.view(-1, 576).float()
    assert torch.equal(true[:, 512:], flat[:, 512:])
    assert float((true - flat).norm() / flat.norm()) < 0.04
    raw = packed.view(torch.uint8).view(128, 656)
    scales = raw[:, 512:528].contiguous().view(torch.float32)
    first = raw[:, :128].contiguous().view(torch.float8_e4m3fn).float() * scales[:, :1]
    assert torch.equal(first, true[:, :128])
    assert mla_reference(inputs).shape == (1, 16, 512)
