"""The float64 reference of sparse-MLA decode attention, written for clarity and not for speed."""

from __future__ import annotations

import torch

from tpgate.errors import TpgateError
from tpgate.kernels.inputs import MlaInputs

BF16_TOLERANCE = 1e-2
"""Largest relative error of a bfloat16 output that passes."""


def mla_reference(inputs: MlaInputs) -> torch.Tensor:
    """Return softmax(scale x q k^T) v in float64, (batch, heads, latent); a row without tokens is all zeros."""
    shape = inputs.shape
    cache = inputs.cache.view(-1, shape.width)
    rows = []
    for row in range(shape.batch):
        slots = inputs.indices[row, : int(inputs.lengths[row])].long()
        slots = slots[(slots >= 0) & (slots < inputs.slots)]
        if slots.numel() == 0:
            rows.append(torch.zeros(shape.heads, shape.latent, dtype=torch.float64, device=inputs.q.device))
            continue
        keys = take(cache, slots).to(torch.float64) * inputs.cache_scale
        logits = (inputs.q[row].to(torch.float64) @ keys.T) * inputs.scale
        rows.append(torch.softmax(logits, dim=-1) @ keys[:, : shape.latent])
    return torch.stack(rows)


def take(cache: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Return the cached tokens ``slots``; one-byte elements are gathered as bytes, which every device can."""
    if cache.element_size() > 1:
        return cache[slots]
    return cache.view(torch.uint8)[slots].view(cache.dtype)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return ``|got - want| / |want|`` over all elements (Frobenius norm); NaN where ``got`` holds a NaN."""
    difference = torch.linalg.vector_norm(got.to(torch.float64) - want)
    size = torch.linalg.vector_norm(want)
    return float(difference / size) if float(size) > 0 else float(difference)


def worst_row_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the largest relative error of any (row, head); rows whose reference is zero must be zero.

    A wrong head in a large batch hardly moves the error over all elements: this sees it.
    """
    difference = torch.linalg.vector_norm(got.to(torch.float64) - want, dim=-1)
    size = torch.linalg.vector_norm(want, dim=-1)
    error = torch.where(size > 0, difference / torch.where(size > 0, size, 1.0), difference)
    return float(error.max()) if bool(torch.isfinite(error).all()) else float("nan")


def check_error(error: float, what: str, tolerance: float = BF16_TOLERANCE) -> float:
    """Return ``error`` where it is under ``tolerance``.

    Raises:
        TpgateError: It is not, or it is not a number; a kernel that is wrong is not timed.
    """
    if not error < tolerance:
        raise TpgateError(
            f"{what}: relative error {error:.2e} against the float64 reference",
            expected=f"under {tolerance:.0e}",
            next_step="the kernel is wrong on this machine: its time means nothing",
        )
    return error
