"""Which head-shared kernel and tile a shape gets.

Every tile is the fastest, or within 2 % of the fastest, of those swept on one H200: ``docs/data/kernels-h200.json``,
which ``tests_kernels/test_kernel_choice.py`` holds this file against. Other devices get the same tiles unmeasured. The
sweep had batches of 1, 8, 64 and 256, and 16, 32, 64 and 128 heads; what lies between follows the nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from tpgate.kernels import mla
from tpgate.kernels.inputs import MlaInputs
from tpgate.kernels.mla import Call, Tile, spread
from tpgate.kernels.shapes import MlaShape

HOPPER = Tile(64, 64, 1, 8, 2)
WIDE = Tile(64, 64, 1, 8, 2)
MIDDLE = Tile(32, 32, 1, 4, 2)
NARROW = Tile(16, 64, 1, 8, 2)
NARROW_SHORT = Tile(16, 32, 1, 4, 3)
NAIVE = Tile(1, 16, 1, 4, 2)
INTERPRETED = Tile(16, 32, 1, 4, 2)
MAKERS: dict[str, Callable[[MlaInputs, Tile], Call]] = {
    "naive": mla.naive_call,
    "shared": mla.shared_call,
    "hopper": mla.hopper_call,
}
"""Kernel name to what makes its calls."""


def choose(shape: MlaShape, *, capability: tuple[int, int] | None, processors: int) -> tuple[str, Tile]:
    """Return kernel name and tile for ``shape`` on a device of ``capability`` with so many multiprocessors."""
    if capability is None:
        return "shared", spread(shape, INTERPRETED, processors)
    if shape.heads >= 64:
        if shape.cache == "bf16" and capability == (9, 0):
            return "hopper", spread(shape, HOPPER, processors)
        return "shared", spread(shape, WIDE, processors)
    return "shared", _few_heads(shape, processors)


def _few_heads(shape: MlaShape, processors: int) -> Tile:
    """Return the tile for fewer than 64 heads, cut for two programs a multiprocessor: faster than one in the sweep."""
    room = 2 * processors
    if shape.heads > 16:
        stages = 3 if shape.cache == "fp8" else MIDDLE.stages
        tile = spread(shape, replace(MIDDLE, stages=stages), room)
        if shape.batch * tile.splits * -(-shape.heads // tile.block_h) >= processors:
            return tile
        # The finest cut leaves multiprocessors idle: smaller blocks of heads make more programs.
        return spread(shape, NARROW_SHORT, room)
    if shape.cache == "fp8":
        return spread(shape, NARROW_SHORT, room)
    tile = spread(shape, NARROW, room)
    # Long lists, left whole where the batch alone fills the device, want two programs on a multiprocessor at a time:
    # its registers hold two of 4 warps (128 threads of 214), one of 8 (256 of 151).
    return replace(tile, warps=4) if tile.splits == 1 else tile


def device_facts(device: str) -> tuple[tuple[int, int] | None, int]:
    """Return compute capability and multiprocessors of a device; (None, 1) on the CPU."""
    if torch.device(device).type != "cuda":
        return None, 1
    properties = torch.cuda.get_device_properties(device)
    return (properties.major, properties.minor), properties.multi_processor_count
