"""Naive tiled sparse-MLA decode attention: every query head gathers its keys and values again.

This is the kernel that a first port tends to have: right, tiled, with an online softmax, and one program a head. The
gathered cache entries pass from the caches to the multiprocessors once a query head, 64 or 128 times in all.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mla_naive_kernel(
    q_ptr,
    cache_ptr,
    index_ptr,
    length_ptr,
    out_ptr,
    scale_log2,
    value_scale,
    slots,
    heads,
    topk,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One head of one row. Grid: (heads, batch)."""
    head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    width: tl.constexpr = LATENT + ROPE
    d = tl.arange(0, LATENT)
    r = tl.arange(0, ROPE)
    n = tl.arange(0, BLOCK_N)
    q_row = q_ptr + (row * heads + head) * width
    q_latent = tl.load(q_row + d).to(tl.float32)
    q_rope = tl.load(q_row + LATENT + r).to(tl.float32)
    top = float("-inf")
    total = 0.0
    acc = tl.zeros([LATENT], tl.float32)
    end = tl.minimum(tl.load(length_ptr + row), topk)
    for start in range(0, end, BLOCK_N):
        at = start + n
        slot = tl.load(index_ptr + row * topk + at, mask=at < end, other=-1)
        good = (slot >= 0) & (slot < slots)
        base = cache_ptr + slot.to(tl.int64)[:, None] * width
        kv = tl.load(base + d[None, :], mask=good[:, None], other=0.0).to(tl.float32)
        k_rope = tl.load(base + LATENT + r[None, :], mask=good[:, None], other=0.0).to(tl.float32)
        logits = tl.sum(q_latent[None, :] * kv, axis=1) + tl.sum(q_rope[None, :] * k_rope, axis=1)
        logits = tl.where(good, logits * scale_log2, float("-inf"))
        new_top = tl.maximum(top, tl.max(logits, axis=0))
        anchor = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2(logits - anchor)
        shrink = tl.exp2(top - anchor)
        total = total * shrink + tl.sum(weights, axis=0)
        acc = acc * shrink + tl.sum(weights[:, None] * kv, axis=0)
        top = new_top
    result = acc * (value_scale / tl.where(total == 0.0, 1.0, total))
    tl.store(out_ptr + (row * heads + head) * LATENT + d, result.to(out_ptr.dtype.element_ty))
