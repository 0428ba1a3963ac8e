"""Which head-shared kernel and tile a shape gets. Chosen from what the compiler made; no device has swept them yet."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tpgate.kernels import mla
from tpgate.kernels.inputs import MlaInputs
from tpgate.kernels.mla import Call, Tile, spread
from tpgate.kernels.shapes import MlaShape

HOPPER = Tile(64, 64, 1, 8, 2)
NAIVE = Tile(1, 16, 1, 4, 2)
MAKERS: dict[str, Callable[[MlaInputs, Tile], Call]] = {
    "naive": mla.naive_call,
    "shared": mla.shared_call,
    "hopper": mla.hopper_call,
}
"""Kernel name to what makes its calls."""


def choose(shape: MlaShape, *, capability: tuple[int, int] | None, processors: int) -> tuple[str, Tile]:
    """Return kernel name and tile for ``shape`` on a device of ``capability`` with so many multiprocessors."""
    if capability is None:
        return "shared", spread(shape, Tile(16, 32, 1, 4, 2), processors)
    if shape.heads >= 64 and shape.cache == "bf16" and capability == (9, 0):
        return "hopper", spread(shape, HOPPER, processors)
    if shape.heads >= 64:
        tile = Tile(64, 32, 1, 8, 3)
    elif shape.heads > 16:
        tile = Tile(32, 32, 1, 4, 3)
    else:
        tile = Tile(16, 32, 1, 4, 3)
    return "shared", spread(shape, tile, processors)


def device_facts(device: str) -> tuple[tuple[int, int] | None, int]:
    """Return compute capability and multiprocessors of a device; (None, 1) on the CPU."""
    if torch.device(device).type != "cuda":
        return None, 1
    properties = torch.cuda.get_device_properties(device)
    return (properties.major, properties.minor), properties.multi_processor_count
