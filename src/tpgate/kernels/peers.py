"""Other people's kernels for the same shapes, run side by side where they are installed: FlashMLA from SGLang's wheel.

The compiled library is loaded by its path; the package around it is not imported. Calls follow the operators' own
schemas (``torch.ops.sgl_kernel.sparse_prefill_fwd`` and ``sparse_decode_fwd``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import torch

from tpgate.errors import HostError
from tpgate.kernels.inputs import PAGE, MlaInputs

Result = Callable[[], torch.Tensor]
SCALE_TILE = 128
"""Latent elements that share one float32 scale in FlashMLA's fp8 cache: 512 B, 4 scales, 64 bfloat16: 656 B a token."""
HEADS = (64, 128)
"""Query heads that FlashMLA's sparse kernels are built for."""


def load_flash_mla() -> str:
    """Load FlashMLA's operators and return the path of their library.

    Raises:
        HostError: The library is not installed, or cannot be loaded here; the message says which.
    """
    found = importlib.util.find_spec("sgl_kernel")
    folders = list(found.submodule_search_locations or ()) if found else []
    paths = [path for folder in folders for path in sorted(Path(folder).glob("flashmla_ops*.so"))]
    if not paths:
        raise HostError(
            "FlashMLA: no flashmla_ops library in a package sgl_kernel on the path",
            expected="the wheel that SGLang calls sglang-kernel or sgl-kernel",
            next_step="pip install sglang, or leave the side-by-side comparison out",
        )
    try:
        torch.ops.load_library(str(paths[0]))
    except OSError as error:
        raise HostError(f"FlashMLA: {paths[0]} cannot be loaded: {error}") from error
    return str(paths[0])


def flash_mla_bf16(inputs: MlaInputs) -> Result:
    """Return a call of FlashMLA's sparse bfloat16 kernel; each row of the batch is one query with its own list.

    The kernel is made for prefill and takes no lengths, so rows must be whole.
    """
    kv = inputs.cache.view(-1, 1, inputs.shape.width)
    lists = inputs.indices.view(inputs.shape.batch, 1, inputs.shape.topk)

    def call() -> torch.Tensor:
        found: torch.Tensor = torch.ops.sgl_kernel.sparse_prefill_fwd(
            inputs.q, kv, lists, inputs.scale, inputs.shape.latent, None, None
        )[0]
        return found

    return call


def flash_mla_fp8(inputs: MlaInputs, packed: torch.Tensor) -> Result:
    """Return a call of FlashMLA's sparse fp8 decode kernel on a cache that :func:`pack_fp8` made.

    The first call plans the split of the work; later calls take the plan over, as the server does within a step.
    """
    shape = inputs.shape
    q = inputs.q.view(shape.batch, 1, shape.heads, shape.width)
    lists = inputs.indices.view(shape.batch, 1, shape.topk)
    plan: list[torch.Tensor | None] = [None, None]

    def call() -> torch.Tensor:
        out, _, plan[0], plan[1] = torch.ops.sgl_kernel.sparse_decode_fwd(
            q, packed, lists, None, None, plan[0], plan[1], None, None, None, shape.latent, inputs.scale
        )
        found: torch.Tensor = out.view(shape.batch, shape.heads, shape.latent)
        return found

    return call


def pack_fp8(inputs: MlaInputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a bfloat16 cache in FlashMLA's fp8 form, (pages, PAGE, 1, 656), and what it stands for, (slots, width).

    A token is 512 e4m3 latent elements, one float32 scale for each 128 of them, and 64 bfloat16 rotary elements.
    """
    latent = inputs.shape.latent
    flat = inputs.cache.view(-1, inputs.shape.width)
    tiles = flat[:, :latent].float().view(flat.shape[0], -1, SCALE_TILE)
    scales = (tiles.abs().amax(dim=-1) / 448.0).clamp(min=1e-12)
    small = (tiles / scales[..., None]).to(torch.float8_e4m3fn)
    rope = flat[:, latent:].contiguous()
    parts = [
        small.view(flat.shape[0], latent).view(torch.uint8),
        scales.contiguous().view(torch.uint8).view(flat.shape[0], -1),
        rope.view(torch.uint8).view(flat.shape[0], -1),
    ]
    packed = torch.cat(parts, dim=1).contiguous()
    true = torch.cat([(small.float() * scales[..., None]).view(flat.shape[0], latent), rope.float()], dim=1)
    return packed.view(torch.float8_e4m3fn).view(-1, PAGE, 1, packed.shape[1]), true
