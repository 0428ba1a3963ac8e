"""The sparse-MLA kernels as calls: buffers are made once, and what is returned launches the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import triton.language as tl
from triton import knobs

from tpgate.errors import ConfigError
from tpgate.kernels.inputs import MlaInputs
from tpgate.kernels.mla_combine import mla_combine_kernel
from tpgate.kernels.mla_hopper import mla_hopper_kernel
from tpgate.kernels.mla_naive import mla_naive_kernel
from tpgate.kernels.mla_shared import mla_shared_kernel
from tpgate.kernels.shapes import CACHE_BYTES, MlaShape

LOG2_E = math.log2(math.e)
INTERPRETED = bool(knobs.runtime.interpret)
"""Whether Triton's interpreter runs the kernels; it multiplies no bfloat16 matrices, so they are float32 there."""
Call = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Tile:
    """How a kernel cuts its work.

    Attributes:
        block_h: Query heads that share one loaded tile (1 in the naive kernel).
        block_n: Cached tokens a tile.
        splits: Parts into which a row's top-k list is cut, combined by a second kernel.
        warps: Warps a program.
        stages: Depth of the software pipeline.
    """

    block_h: int
    block_n: int
    splits: int = 1
    warps: int = 4
    stages: int = 2

    @property
    def name(self) -> str:
        """Short name, such as ``h64n64x1w8s3``."""
        return f"h{self.block_h}n{self.block_n}x{self.splits}w{self.warps}s{self.stages}"


def cut(total: int, parts: int, step: int) -> int:
    """Return the length of a part: ``total`` in ``parts``, rounded up to whole steps of ``step``."""
    part = (total + parts - 1) // parts
    return (part + step - 1) // step * step


def spread(shape: MlaShape, tile: Tile, processors: int) -> Tile:
    """Return ``tile`` with as many splits as fill ``processors`` once, and no split shorter than two tiles."""
    programs = shape.batch * -(-shape.heads // tile.block_h)
    most = max(1, shape.topk // (2 * tile.block_n))
    return replace(tile, splits=max(1, min(most, processors // programs)))


def bytes_requested(shape: MlaShape, tile: Tile) -> int:
    """Return the bytes that a kernel's loads and stores ask for, before any cache serves them.

    The gathered entries and indices are asked for once a block of heads; split partial results are written and read
    once in float32. Counted from the grid and the tile, not from a hardware counter.
    """
    blocks = -(-shape.heads // tile.block_h)
    gathered = shape.batch * shape.topk * (shape.width * CACHE_BYTES[shape.cache] + 4) * blocks
    queries = shape.batch * shape.heads * shape.width * 2 * tile.splits
    output = shape.batch * shape.heads * shape.latent * 2
    partial = 2 * shape.batch * tile.splits * shape.heads * (shape.latent + 1) * 4 if tile.splits > 1 else 0
    return gathered + queries + output + partial


def naive_call(inputs: MlaInputs, tile: Tile) -> Call:
    """Return a call of the naive tiled kernel, which gathers a row's entries once a query head."""
    shape = inputs.shape

    def call() -> None:
        mla_naive_kernel[(shape.heads, shape.batch)](
            inputs.q,
            inputs.cache,
            inputs.indices,
            inputs.lengths,
            inputs.out,
            inputs.scale * inputs.cache_scale * LOG2_E,
            inputs.cache_scale,
            inputs.slots,
            shape.heads,
            shape.topk,
            LATENT=shape.latent,
            ROPE=shape.rope,
            BLOCK_N=tile.block_n,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    return call


def shared_call(inputs: MlaInputs, tile: Tile) -> Call:
    """Return a call of the head-shared kernel, and of the combination behind it where ``tile`` has splits.

    Raises:
        ConfigError: A tile's sides are not powers of two of at least 16, as the matrix units need them.
    """
    shape = inputs.shape
    for side in (tile.block_h, tile.block_n):
        if side < 16 or side & (side - 1):
            raise ConfigError(f"tile {tile.name}: a side is {side}", expected="a power of two, 16 or more")
    partial, lse = _partials(inputs, tile)
    grid = (-(-shape.heads // tile.block_h), tile.splits, shape.batch)

    def call() -> None:
        mla_shared_kernel[grid](
            inputs.q,
            inputs.cache,
            inputs.indices,
            inputs.lengths,
            inputs.out,
            partial,
            lse,
            inputs.scale * inputs.cache_scale * LOG2_E,
            inputs.cache_scale,
            inputs.slots,
            shape.heads,
            shape.topk,
            cut(shape.topk, tile.splits, tile.block_n),
            LATENT=shape.latent,
            ROPE=shape.rope,
            BLOCK_H=tile.block_h,
            BLOCK_N=tile.block_n,
            SPLITS=tile.splits,
            COMPUTE=tl.float32 if INTERPRETED else tl.bfloat16,
            STAGES=tile.stages,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
        if tile.splits > 1:
            combine(partial, lse, inputs.out, tile.splits)

    return call


def hopper_call(inputs: MlaInputs, tile: Tile) -> Call:
    """Return a call of the head-shared kernel written for Hopper: 64 heads a block, bfloat16 cache.

    Raises:
        ConfigError: The cache is not bfloat16, or the tile is not 64 heads by 64 tokens on 8 warps.
    """
    shape = inputs.shape
    fits = shape.cache == "bf16" and (shape.latent, shape.rope) == (512, 64)
    if not fits or (tile.block_h, tile.block_n, tile.warps) != (64, 64, 8):
        raise ConfigError(
            f"Hopper kernel: tile {tile.name}, {shape.latent} + {shape.rope} elements of {shape.cache} a token",
            expected="h64n64 on 8 warps, 512 + 64 elements of bf16, a bf16 cache",
        )
    partial, lse = _partials(inputs, tile)
    grid = (-(-shape.heads // tile.block_h), tile.splits, shape.batch)

    def call() -> None:
        mla_hopper_kernel[grid](
            inputs.q,
            inputs.cache,
            inputs.indices,
            inputs.lengths,
            inputs.out,
            partial,
            lse,
            inputs.scale * inputs.cache_scale * LOG2_E,
            inputs.cache_scale,
            inputs.slots,
            shape.heads,
            shape.topk,
            cut(shape.topk, tile.splits, tile.block_n),
            SPLITS=tile.splits,
            num_warps=tile.warps,
        )
        if tile.splits > 1:
            combine(partial, lse, inputs.out, tile.splits)

    return call


def _partials(inputs: MlaInputs, tile: Tile) -> tuple[torch.Tensor, torch.Tensor]:
    shape = inputs.shape
    parts = tile.splits if tile.splits > 1 else 0
    like = {"device": inputs.q.device, "dtype": torch.float32}
    partial = torch.empty(shape.batch, parts, shape.heads, shape.latent, **like)
    return partial, torch.empty(shape.batch, parts, shape.heads, **like)


def combine(partial: torch.Tensor, lse: torch.Tensor, out: torch.Tensor, splits: int) -> None:
    """Combine partial results, (batch, splits, heads, latent), by ``lse``, (batch, splits, heads), into ``out``."""
    batch, heads, latent = out.shape
    mla_combine_kernel[(heads, batch)](partial, lse, out, heads, LATENT=latent, SPLITS=splits, num_warps=4)
