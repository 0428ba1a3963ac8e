"""Combination of split-K partial results by their base-2 log-sum-exp."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mla_combine_kernel(partial_ptr, lse_ptr, out_ptr, heads, LATENT: tl.constexpr, SPLITS: tl.constexpr):
    """One head of one row: the mean of its splits weighted by ``2 ** lse``. Grid: (heads, batch)."""
    head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    d = tl.arange(0, LATENT)
    top = float("-inf")
    for split in range(SPLITS):
        top = tl.maximum(top, tl.load(lse_ptr + (row * SPLITS + split) * heads + head))
    anchor = tl.where(top == float("-inf"), 0.0, top)
    total = 0.0
    acc = tl.zeros([LATENT], tl.float32)
    for split in range(SPLITS):
        place = (row * SPLITS + split) * heads + head
        weight = tl.exp2(tl.load(lse_ptr + place) - anchor)
        acc += weight * tl.load(partial_ptr + place * LATENT + d)
        total += weight
    acc = acc / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + (row * heads + head) * LATENT + d, acc.to(out_ptr.dtype.element_ty))
