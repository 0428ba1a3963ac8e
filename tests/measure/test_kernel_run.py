"""Kernel sessions become runs and results; what is missing says why, and what cannot be is void."""

from __future__ import annotations

import pytest

from tpgate.errors import ConfigError
from tpgate.kernels.collective_cases import CollectiveTiming, parse_collective
from tpgate.kernels.results import KernelSession, KernelTiming, ShapeResult
from tpgate.kernels.roofline import Peaks, bound_of
from tpgate.kernels.shapes import MlaShape
from tpgate.measure.kernel_run import kernel_launch, kernel_result, kernel_values
from tpgate.measure.kernel_suite import DEVICE_CELL, KernelSuite
from tpgate.measure.result import Validity
from tpgate.specs import Gate

SHAPE = MlaShape(64, 2048, 128)
PEAKS = Peaks(4e12, 8e14, "made up")
LEAST = bound_of(SHAPE, PEAKS).seconds
COLLECTIVE = "all-reduce-d1024-b1-n2-gloo"
SUITE = KernelSuite(
    "kernels",
    (SHAPE.name, COLLECTIVE),
    (Gate("kernel_time", 0.05), Gate("collective_latency", 0.1), Gate("device_copy_bytes_per_second", 0.05)),
)


def timing(
    kernel: str = "shared", *, share: float = 0.7, samples: tuple[float, ...] = (1.0, 1.01, 0.99)
) -> KernelTiming:
    return KernelTiming(
        kernel=kernel,
        shape=SHAPE,
        tile="h64n64x1w8s3",
        samples_s=tuple(LEAST / share * sample for sample in samples),
        sets=2,
        method="graph",
        error=3e-3,
        row_error=4e-3,
        requested_bytes=2 * SHAPE.least_bytes,
        clock_hz=1.98e9,
    )


def session(result: ShapeResult) -> KernelSession:
    collective = CollectiveTiming(parse_collective(COLLECTIVE), (1e-5, 2e-5), 20, "host")
    return KernelSession("cpu", None, None, PEAKS, (result,), (collective,), (("torch", "2.13.0"),))


def test_values_of_a_shape_by_hand():
    values = kernel_values(ShapeResult(SHAPE, timing(), timing("naive", share=0.07)), PEAKS)
    assert values["kernel_time"].value == pytest.approx(LEAST / 0.7)
    assert values["kernel_roofline_fraction"].value == pytest.approx(0.7)
    assert values["kernel_reread_factor"].value == pytest.approx(2.0)
    assert values["kernel_speedup_over_naive"].value == pytest.approx(10.0)
    assert values["kernel_flops_per_second"].value == pytest.approx(SHAPE.flops * 0.7 / LEAST)
    assert values["kernel_time"].samples == 3


def test_what_was_not_measured_is_missing_with_its_reason_and_never_zero():
    absent = (("flash-mla", "no flashmla_ops library"),)
    values = kernel_values(ShapeResult(SHAPE, timing(), None, (), absent), PEAKS)
    assert values["kernel_speedup_over_naive"].value is None
    assert "naive" in values["kernel_speedup_over_naive"].reason
    assert values["kernel_time_over_flash_mla"].reason == "no flashmla_ops library"


def test_the_time_over_somebody_elses_kernel():
    values = kernel_values(ShapeResult(SHAPE, timing(share=0.6), None, (timing("flash-mla", share=0.9),)), PEAKS)
    assert values["kernel_time_over_flash_mla"].value == pytest.approx(1.5)


def launch(result: ShapeResult):
    return kernel_launch(SUITE, session(result), started_at="2026-12-01T05:00:00+00:00")


def test_a_session_is_a_launch_with_a_run_for_every_declared_cell():
    made = launch(ShapeResult(SHAPE, timing(), timing("naive", share=0.07)))
    assert set(made.runs) == set(SUITE.cells)
    assert all(run.validity is Validity.VALID for run in made.runs.values())
    assert made.runs[COLLECTIVE].values["collective_latency"].value == pytest.approx(1.5e-5)
    assert made.runs[DEVICE_CELL].values["device_copy_bytes_per_second"].value == 4e12
    assert made.identity.keys["engine"] == "kernels"
    assert made.identity.keys["package.torch"] == "2.13.0"
    assert "sglang" not in made.identity.keys
    assert made.runs[SHAPE.name].details["timings"][1]["kernel"] == "naive"


def test_another_shape_is_another_load():
    other = launch(ShapeResult(SHAPE, timing())).runs[SHAPE.name]
    assert other.load_digest == launch(ShapeResult(SHAPE, timing(share=0.5))).runs[SHAPE.name].load_digest
    assert other.load_digest != launch(ShapeResult(MlaShape(1, 512, 16), timing())).runs["b1-k512-h16-bf16"].load_digest


def test_a_timing_faster_than_the_device_is_void():
    run = launch(ShapeResult(SHAPE, timing(share=1.2))).runs[SHAPE.name]
    assert run.validity is Validity.VOID
    assert [doubt.check for doubt in run.doubts] == ["faster_than_possible"]


def test_scattered_samples_are_void_in_the_naive_kernel_too():
    wild = timing("naive", share=0.07, samples=(1.0, 1.5, 0.6, 1.4))
    run = launch(ShapeResult(SHAPE, timing(), wild)).runs[SHAPE.name]
    assert [doubt.check for doubt in run.doubts] == ["kernel_spread"]
    assert "naive" in run.doubts[0].reason


def test_the_result_carries_the_promises_with_their_cells():
    result = kernel_result(SUITE, [launch(ShapeResult(SHAPE, timing()))], "r")
    assert result.gates == (
        ("kernel_time", 0.05, (SHAPE.name,), None),
        ("collective_latency", 0.1, (COLLECTIVE,), None),
        ("device_copy_bytes_per_second", 0.05, (DEVICE_CELL,), None),
    )
    assert result.cells == SUITE.cells


def test_gpus_that_a_suite_needs():
    assert SUITE.gpus == 1
    assert KernelSuite("many", ("all-reduce-d8-b1-n4-nccl",), (Gate("collective_latency", 0.1),)).gpus == 4


@pytest.mark.parametrize(
    ("cases", "gates", "match"),
    [
        ((), (Gate("kernel_time", 0.05),), "distinct names"),
        ((SHAPE.name, SHAPE.name), (), "distinct names"),
        (("b64",), (), "collective case 'b64'"),
        ((SHAPE.name,), (Gate("kernel_tine", 0.05),), "kernel_tine"),
        ((SHAPE.name,), (Gate("kernel_time", 0.05, cells=("b1-k1-h1-bf16",)),), "names the cell"),
    ],
)
def test_a_suite_that_makes_no_sense_is_refused(cases, gates, match):
    with pytest.raises(ConfigError, match=match):
        KernelSuite("kernels", cases, gates)
