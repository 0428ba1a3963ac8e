"""Random inputs of sparse-MLA decode attention, and poisoned outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tpgate.kernels.shapes import MlaShape

PAGE = 64
"""Tokens a page of the cache."""


@dataclass(frozen=True)
class MlaInputs:
    """What one call takes and writes.

    Attributes:
        shape: The shape.
        q: Queries, (batch, heads, width), bfloat16.
        cache: Paged cache, (pages, PAGE, width), bfloat16 or float8_e4m3fn; a token's slot is page x PAGE + offset.
        indices: Slots a row attends to, (batch, topk), int32; -1 (or a slot beyond the cache) is no token.
        lengths: Entries of each row of ``indices`` that count, (batch,), int32.
        out: Output, (batch, heads, latent), bfloat16; NaN until it is written.
        scale: Factor of the logits.
        cache_scale: What a cached element is multiplied with to be the true value (1 for bfloat16).
    """

    shape: MlaShape
    q: torch.Tensor
    cache: torch.Tensor
    indices: torch.Tensor
    lengths: torch.Tensor
    out: torch.Tensor
    scale: float
    cache_scale: float

    @property
    def slots(self) -> int:
        """Token slots of the cache."""
        return int(self.cache.shape[0] * self.cache.shape[1])

    def poison(self) -> None:
        """Fill the output with NaN, so that an element that no kernel writes is seen."""
        self.out.fill_(float("nan"))

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        tensors = (self.q, self.cache, self.indices, self.lengths, self.out)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def make_inputs(
    shape: MlaShape,
    *,
    device: str,
    seed: int,
    tokens: int | None = None,
    ragged: bool = False,
    holes: float = 0.0,
) -> MlaInputs:
    """Return fresh random inputs.

    Args:
        shape: The shape.
        device: Torch device.
        seed: Seed of everything random.
        tokens: Token slots of the cache; by default as many as all rows gather together, so that no entry is shared
            but by chance, and at least two pages.
        ragged: Whether rows have lengths from 0 (row 0) to ``topk``.
        holes: Share of the indices that is -1.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    wanted = max(tokens or shape.batch * shape.topk, 2 * PAGE)
    pages = -(-wanted // PAGE)
    slots = pages * PAGE

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator, device=device, dtype=torch.bfloat16)

    cache = normal(pages, PAGE, shape.width)
    cache_scale = 1.0
    if shape.cache == "fp8":
        cache_scale = 1.0 / 64
        cache = (cache.float() / cache_scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    indices = _slots_of_rows(slots, shape, generator, device)
    if holes:
        gone = torch.rand(indices.shape, generator=generator, device=device) < holes
        indices = torch.where(gone, torch.full_like(indices, -1), indices)
    lengths = torch.full((shape.batch,), shape.topk, device=device, dtype=torch.int32)
    if ragged:
        lengths = torch.randint(
            0, shape.topk + 1, (shape.batch,), generator=generator, device=device, dtype=torch.int32
        )
        lengths[0] = 0
    out = torch.full((shape.batch, shape.heads, shape.latent), float("nan"), device=device, dtype=torch.bfloat16)
    return MlaInputs(
        shape=shape,
        q=normal(shape.batch, shape.heads, shape.width),
        cache=cache,
        indices=indices,
        lengths=lengths,
        out=out,
        scale=1.0 / math.sqrt(shape.width),
        cache_scale=cache_scale,
    )


def spoil_slot(inputs: MlaInputs, slot: int) -> None:
    """Fill a cached token with NaN and take it out of every list: a kernel that reads it all the same shows it."""
    cache = inputs.cache.view(-1, inputs.shape.width)
    if inputs.shape.cache == "fp8":
        cache.view(torch.uint8)[slot] = 0x7F
    else:
        cache[slot] = float("nan")
    inputs.indices[inputs.indices == slot] = -1


def _slots_of_rows(slots: int, shape: MlaShape, generator: torch.Generator, device: str) -> torch.Tensor:
    """Return slots in random order, (batch, topk): rows share none where the cache has room, as requests do not."""
    count = shape.batch * shape.topk
    if slots >= count:
        chosen = torch.randperm(slots, generator=generator, device=device)[:count]
    else:
        chosen = torch.randint(0, slots, (count,), generator=generator, device=device)
    return chosen.to(torch.int32).view(shape.batch, shape.topk)
