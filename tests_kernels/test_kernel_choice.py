"""The chosen tiles against the sweep that they were chosen from, as kept in docs/data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tpgate.kernels.choice import MIDDLE, NAIVE, NARROW, NARROW_SHORT, WIDE, choose
from tpgate.kernels.mla import Tile, spread
from tpgate.kernels.shapes import MlaShape, parse_shape

KEPT = json.loads((Path(__file__).parents[1] / "docs" / "data" / "kernels-h200.json").read_text(encoding="utf-8"))
SWEPT = [row for row in KEPT["cases"] if not row["round"]]
CASES = sorted({row["case"] for row in SWEPT})
H200 = {"capability": (9, 0), "processors": 132}


def fastest(case: str, *kernels: str) -> dict:
    rows = [row for row in SWEPT if row["case"] == case and row["kernel"] in kernels]
    return min(rows, key=lambda row: row["us"])


def microseconds(case: str, kernel: str, tile: str) -> float | None:
    for row in SWEPT:
        if (row["case"], row["kernel"], row["tile"]) == (case, kernel, tile):
            return row["us"]
    return None


@pytest.mark.parametrize("case", CASES)
def test_the_choice_was_swept_and_is_within_two_percent_of_the_fastest(case):
    kernel, tile = choose(parse_shape(case), **H200)
    chosen = microseconds(case, kernel, tile.name)
    assert chosen is not None, f"{kernel} {tile.name} was not measured on {case}"
    assert chosen <= 1.02 * fastest(case, "shared", "hopper")["us"]


def test_the_tile_of_many_heads_without_the_hopper_kernel_is_the_fastest_of_triton():
    headline = "b64-k2048-h128-bf16"
    kernel, tile = choose(parse_shape(headline), capability=(10, 0), processors=132)
    best = fastest(headline, "shared")
    assert (kernel, tile.name) == ("shared", best["tile"])


def test_the_naive_kernel_is_given_its_best_tile_too():
    assert fastest("b64-k2048-h128-bf16", "naive")["tile"] == NAIVE.name


def test_a_sweep_that_says_otherwise_is_seen():
    case = "b256-k2048-h16-bf16"
    other = spread(parse_shape(case), NARROW, 2 * H200["processors"])
    assert microseconds(case, "shared", other.name) > 1.02 * fastest(case, "shared", "hopper")["us"]


def test_what_was_not_swept_follows_its_neighbour():
    assert choose(MlaShape(8, 2048, 32), **H200)[1].block_h == MIDDLE.block_h
    assert choose(MlaShape(1, 2048, 32), **H200) == ("shared", spread(MlaShape(1, 2048, 32), NARROW_SHORT, 264))
    assert choose(MlaShape(64, 2048, 64, "fp8"), **H200) == ("shared", Tile(64, 64, 2, 8, 2))
    assert choose(MlaShape(64, 2048, 96), capability=(8, 0), processors=108)[1].name == WIDE.name
