"""The kernels against the float64 reference, through Triton's interpreter: fresh inputs, poison, holes, short rows."""

from __future__ import annotations

import secrets

import pytest
import torch

from tpgate.errors import ConfigError, TpgateError
from tpgate.kernels.choice import MAKERS, choose
from tpgate.kernels.inputs import make_inputs, spoil_slot
from tpgate.kernels.mla import Tile, bytes_requested, cut, spread
from tpgate.kernels.reference import check_error, mla_reference, relative_error, worst_row_error
from tpgate.kernels.shapes import MlaShape

NAIVE = Tile(1, 16)
NARROW = MlaShape(3, 80, 16, "bf16", latent=64, rope=16)
ODD = MlaShape(2, 72, 20, "bf16", latent=64, rope=16)
SMALL_FLOAT8 = MlaShape(3, 80, 32, "fp8", latent=64, rope=16)
FULL_WIDTH = MlaShape(1, 48, 16)


def errors(kernel: str, shape: MlaShape, tile: Tile, **options) -> tuple[float, float]:
    inputs = make_inputs(shape, device="cpu", seed=secrets.randbits(24), **options)
    spoil_slot(inputs, inputs.slots - 1)
    inputs.poison()
    MAKERS[kernel](inputs, tile)()
    want = mla_reference(inputs)
    return relative_error(inputs.out, want), worst_row_error(inputs.out, want)


@pytest.mark.parametrize("shape", [NARROW, ODD, SMALL_FLOAT8, FULL_WIDTH], ids=lambda shape: shape.name)
@pytest.mark.parametrize("hard", [False, True], ids=["whole", "ragged"])
def test_the_naive_kernel_is_right(shape, hard):
    assert max(errors("naive", shape, NAIVE, ragged=hard and shape.batch > 1, holes=0.2 * hard)) < 1e-2


@pytest.mark.parametrize("shape", [NARROW, ODD, SMALL_FLOAT8, FULL_WIDTH], ids=lambda shape: shape.name)
@pytest.mark.parametrize("hard", [False, True], ids=["whole", "ragged"])
@pytest.mark.parametrize("splits", [1, 2, 3])
def test_the_head_shared_kernel_is_right_with_and_without_splits(shape, hard, splits):
    tile = Tile(16, 16, splits)
    assert max(errors("shared", shape, tile, ragged=hard and shape.batch > 1, holes=0.2 * hard)) < 1e-2


@pytest.mark.parametrize("tile", [Tile(32, 16), Tile(16, 64, 2), Tile(64, 32)], ids=lambda tile: tile.name)
def test_tiles_wider_than_heads_or_lists_are_masked(tile):
    assert max(errors("shared", ODD, tile, ragged=True, holes=0.1)) < 1e-2


@pytest.mark.parametrize("kernel", ["naive", "shared"])
def test_a_row_of_holes_and_a_row_of_no_length_are_zero(kernel):
    inputs = make_inputs(NARROW, device="cpu", seed=3)
    inputs.indices[0] = -1
    inputs.lengths[1] = 0
    inputs.poison()
    MAKERS[kernel](inputs, Tile(16, 16, 1) if kernel == "shared" else NAIVE)()
    assert (inputs.out[:2] == 0).all()
    assert torch.isfinite(inputs.out.float()).all()


def test_slots_beyond_the_cache_are_no_tokens():
    inputs = make_inputs(NARROW, device="cpu", seed=4)
    inputs.indices[:, ::3] = inputs.slots + 7
    inputs.poison()
    MAKERS["shared"](inputs, Tile(16, 16, 2))()
    assert worst_row_error(inputs.out, mla_reference(inputs)) < 1e-2


def test_large_logits_do_not_overflow():
    inputs = make_inputs(NARROW, device="cpu", seed=5)
    inputs.q.mul_(64)
    inputs.poison()
    MAKERS["shared"](inputs, Tile(16, 16, 2))()
    assert worst_row_error(inputs.out, mla_reference(inputs)) < 2e-2


def test_the_reference_is_a_softmax_by_hand():
    inputs = make_inputs(MlaShape(1, 2, 1, "bf16", latent=16, rope=16), device="cpu", seed=6)
    keys = inputs.cache.view(-1, 32)[inputs.indices[0].long()].double()
    logits = (keys @ inputs.q[0, 0].double()) * inputs.scale
    weights = torch.exp(logits) / torch.exp(logits).sum()
    torch.testing.assert_close(mla_reference(inputs)[0, 0], weights @ keys[:, :16])


def test_an_output_that_was_not_written_is_seen():
    inputs = make_inputs(NARROW, device="cpu", seed=7)
    want = mla_reference(inputs)
    out = want.to(torch.bfloat16)
    out[2, 15, 63] = float("nan")
    with pytest.raises(TpgateError, match="relative error nan"):
        check_error(relative_error(out, want), "unwritten")
    assert worst_row_error(out, want) != worst_row_error(out, want)


def test_one_wrong_head_in_many_is_seen_row_by_row():
    shape = MlaShape(64, 8, 64, "bf16", latent=16, rope=16)
    want = mla_reference(make_inputs(shape, device="cpu", seed=8))
    out = want.clone()
    out[5, 9] *= 1.1
    assert relative_error(out, want) < 1e-2
    assert worst_row_error(out, want) == pytest.approx(0.1)
    with pytest.raises(TpgateError, match="the kernel is wrong"):
        check_error(worst_row_error(out, want), "one head")


def test_rows_share_no_token_where_the_cache_has_room_and_seeds_differ():
    one, two = (make_inputs(NARROW, device="cpu", seed=seed) for seed in (1, 2))
    assert one.indices.unique().numel() == one.indices.numel()
    assert not torch.equal(one.q, two.q)
    assert torch.isnan(one.out).all()


@pytest.mark.parametrize("tile", [Tile(8, 16), Tile(16, 24)], ids=lambda tile: tile.name)
def test_a_tile_that_the_matrix_units_cannot_take_is_refused(tile):
    with pytest.raises(ConfigError, match="a power of two"):
        MAKERS["shared"](make_inputs(NARROW, device="cpu", seed=1), tile)


def test_the_hopper_kernel_refuses_what_it_was_not_written_for():
    with pytest.raises(ConfigError, match="bf16 cache"):
        MAKERS["hopper"](make_inputs(SMALL_FLOAT8, device="cpu", seed=1), Tile(64, 64, 1, 8))
    with pytest.raises(ConfigError, match="h64n64"):
        MAKERS["hopper"](make_inputs(NARROW, device="cpu", seed=1), Tile(16, 64, 1, 8))


def test_parts_are_whole_tiles_and_cover_the_list():
    for total in (1, 63, 64, 2048):
        for parts in (1, 2, 3, 7):
            length = cut(total, parts, 32)
            assert length % 32 == 0
            assert length * parts >= total


def test_splits_fill_the_device_once_and_stay_longer_than_two_tiles():
    tile = Tile(64, 64)
    assert spread(MlaShape(64, 2048, 128), tile, 132).splits == 1
    assert spread(MlaShape(1, 2048, 128), tile, 132).splits == 16
    assert spread(MlaShape(8, 2048, 128), tile, 132).splits == 8
    assert spread(MlaShape(1, 64, 16), Tile(16, 32), 132).splits == 1


def test_the_naive_kernel_asks_for_every_entry_once_a_head():
    shape = MlaShape(64, 2048, 128)
    assert bytes_requested(shape, Tile(1, 16)) / shape.least_bytes == pytest.approx(115, abs=1)
    assert bytes_requested(shape, Tile(64, 64)) / shape.least_bytes == pytest.approx(1.9, abs=0.05)
    assert bytes_requested(MlaShape(64, 2048, 16), Tile(16, 32)) == MlaShape(64, 2048, 16).least_bytes


def test_the_choice_follows_shape_and_device():
    headline = MlaShape(64, 2048, 128)
    assert choose(headline, capability=(9, 0), processors=132)[0] == "hopper"
    assert choose(headline, capability=(10, 0), processors=148)[0] == "shared"
    assert choose(MlaShape(64, 2048, 128, "fp8"), capability=(9, 0), processors=132)[0] == "shared"
    assert choose(MlaShape(64, 2048, 16), capability=(9, 0), processors=132)[1].block_h == 16
    assert choose(headline, capability=None, processors=1) == ("shared", Tile(16, 32, 1, 4, 2))
