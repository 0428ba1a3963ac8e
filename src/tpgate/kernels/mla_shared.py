"""Head-shared sparse-MLA decode attention: each gathered KV tile is loaded once for a block of query heads."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softmax_step(logits, top):
    """One tile of an online softmax in base 2: weights, the factor for what was summed before, and the new maximum.

    A row of which nothing was seen so far keeps minus infinity as its maximum, weights of 0 and no NaN.
    """
    new_top = tl.maximum(top, tl.max(logits, axis=1))
    anchor = tl.where(new_top == float("-inf"), 0.0, new_top)
    return tl.exp2(logits - anchor[:, None]), tl.exp2(top - anchor), new_top


@triton.jit
def mla_shared_kernel(
    q_ptr, cache_ptr, index_ptr, length_ptr, out_ptr, partial_ptr, lse_ptr, scale_log2, value_scale, slots,
    heads, topk, split_len, LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr, SPLITS: tl.constexpr, COMPUTE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One block of heads, one row of the batch, one part of its top-k list.

    Grid: (head blocks, splits, batch). With one split the result goes to ``out``; with more, an unnormalised-by-others
    (but locally normalised) partial result and its base-2 log-sum-exp go to ``partial`` and ``lse``.
    """
    head_block = tl.program_id(0)
    split = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    width: tl.constexpr = LATENT + ROPE

    h = head_block * BLOCK_H + tl.arange(0, BLOCK_H)
    d = tl.arange(0, LATENT)
    r = tl.arange(0, ROPE)
    n = tl.arange(0, BLOCK_N)
    h_ok = h < heads
    q_row = q_ptr + (row * heads + h[:, None]) * width
    q_latent = tl.load(q_row + d[None, :], mask=h_ok[:, None], other=0.0).to(COMPUTE)
    q_rope = tl.load(q_row + LATENT + r[None, :], mask=h_ok[:, None], other=0.0).to(COMPUTE)

    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, LATENT], tl.float32)

    begin = split * split_len
    end = tl.minimum(tl.minimum(begin + split_len, tl.load(length_ptr + row)), topk)
    index_row = index_ptr + row * topk
    for start in tl.range(begin, end, BLOCK_N, num_stages=STAGES):
        at = start + n
        slot = tl.load(index_row + at, mask=at < end, other=-1)
        good = (slot >= 0) & (slot < slots)
        base = cache_ptr + slot.to(tl.int64)[:, None] * width
        kv = tl.load(base + d[None, :], mask=good[:, None], other=0.0).to(COMPUTE)
        k_rope = tl.load(base + LATENT + r[None, :], mask=good[:, None], other=0.0).to(COMPUTE)
        logits = tl.dot(q_latent, tl.trans(kv))
        logits = tl.dot(q_rope, tl.trans(k_rope), logits) * scale_log2
        logits = tl.where(good[None, :], logits, float("-inf"))
        weights, shrink, top = softmax_step(logits, top)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = acc * shrink[:, None]
        acc = tl.dot(weights.to(COMPUTE), kv, acc)

    result = acc * (value_scale / tl.where(total == 0.0, 1.0, total))[:, None]
    if SPLITS == 1:
        target = out_ptr + (row * heads + h[:, None]) * LATENT + d[None, :]
        tl.store(target, result.to(out_ptr.dtype.element_ty), mask=h_ok[:, None])
    else:
        place = (row * SPLITS + split) * heads + h
        tl.store(partial_ptr + place[:, None] * LATENT + d[None, :], result, mask=h_ok[:, None])
        lse = tl.where(total == 0.0, float("-inf"), top + tl.log2(tl.where(total == 0.0, 1.0, total)))
        tl.store(lse_ptr + place, lse, mask=h_ok)
