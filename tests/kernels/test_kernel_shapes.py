"""Shapes, collective cases and rooflines: the parts that need no torch."""

from __future__ import annotations

import pytest

from tpgate.errors import ConfigError
from tpgate.kernels.collective_cases import CollectiveCase, CollectiveTiming, parse_collective
from tpgate.kernels.roofline import DATASHEET, Peaks, bound_of, datasheet_of
from tpgate.kernels.shapes import MlaShape, parse_shape

HEADLINE = MlaShape(64, 2048, 128)


def test_a_shape_and_its_name_are_one():
    assert HEADLINE.name == "b64-k2048-h128-bf16"
    assert parse_shape(HEADLINE.name) == HEADLINE
    assert parse_shape("b1-k512-h16-fp8") == MlaShape(1, 512, 16, "fp8")


@pytest.mark.parametrize("name", ["b64-k2048-h128", "b64-k2048-h128-fp4", "c64", "xb1-k1-h1-bf16"])
def test_a_wrong_name_says_what_a_right_one_is(name):
    with pytest.raises(ConfigError, match=name) as caught:
        parse_shape(name)
    assert "b64-k2048-h128-bf16" in str(caught.value)


def test_a_shape_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="topk is 0"):
        MlaShape(1, 0, 16)
    with pytest.raises(ConfigError, match="fp4"):
        MlaShape(1, 512, 16, "fp4")


def test_work_and_traffic_of_the_headline_shape_by_hand():
    assert HEADLINE.flops == 2 * 64 * 128 * 2048 * (576 + 512)
    assert HEADLINE.gathered_bytes == 64 * 2048 * 576 * 2
    assert HEADLINE.least_bytes == HEADLINE.gathered_bytes + 64 * 128 * (576 + 512) * 2 + 64 * 2048 * 4
    assert MlaShape(64, 2048, 128, "fp8").gathered_bytes * 2 == HEADLINE.gathered_bytes


def test_the_bound_is_the_larger_of_two_times_and_says_which():
    slow_memory = bound_of(HEADLINE, Peaks(1e12, 1e15, "made up"))
    assert slow_memory.limit == "memory"
    assert slow_memory.seconds == pytest.approx(HEADLINE.least_bytes / 1e12)
    slow_units = bound_of(HEADLINE, Peaks(4e12, 1e14, "made up"))
    assert slow_units.limit == "arithmetic"
    assert slow_units.seconds == pytest.approx(HEADLINE.flops / 1e14)


def test_few_heads_are_bound_by_memory_and_many_by_arithmetic_on_an_h200_by_its_datasheet():
    peaks = datasheet_of("NVIDIA H200")
    assert bound_of(MlaShape(64, 2048, 16), peaks).limit == "memory"
    assert bound_of(HEADLINE, peaks).limit == "arithmetic"


def test_every_datasheet_entry_is_dated_and_an_unlisted_device_has_none():
    assert all("read 20" in peaks.source for peaks in DATASHEET.values())
    assert datasheet_of("NVIDIA GeForce GTX 970") is None


def test_collective_names_and_bus_factors():
    case = parse_collective("all-reduce-d7168-b16-n4-nccl")
    assert case == CollectiveCase("all-reduce", 7168, 16, 4, "nccl")
    assert case.name == "all-reduce-d7168-b16-n4-nccl"
    assert case.message_bytes == 7168 * 16 * 2
    assert case.bus_factor == pytest.approx(1.5)
    assert parse_collective("all-gather-d4096-b1-n4-gloo").bus_factor == pytest.approx(0.75)


@pytest.mark.parametrize(
    "name",
    [
        "all-reduce-d7168-b16-n1-nccl",
        "all-gather-d7168-b1-n3-gloo",
        "all-gather-d8-b1-n2-sglang-custom",
        "nccl",
        "all-reduce-d8-b1-n2-mpi",
    ],
)
def test_a_collective_that_makes_no_sense_is_refused(name):
    with pytest.raises(ConfigError, match="collective case"):
        parse_collective(name)


def test_bus_bandwidth_is_message_times_factor_over_the_median():
    timing = CollectiveTiming(parse_collective("all-reduce-d1024-b1-n2-gloo"), (1e-3, 2e-3, 9e-3), 20, "host")
    assert timing.latency_s == 2e-3
    assert timing.bus_bytes_per_s == pytest.approx(2048 * 1.0 / 2e-3)
