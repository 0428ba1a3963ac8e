"""Head-shared sparse-MLA decode attention for Hopper, in Gluon: layouts, copies and matrix units placed by hand.

Triton's own compiler gives both warp groups the whole product of queries and keys, because it is chained to a second
product, and starts the copy of the next tile late. Here the two warp groups halve both products, and the copy of the
next tile runs under the whole of the current one. The interpreter cannot run it: it is checked on the device alone.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

LATENT = gl.constexpr(512)
ROPE = gl.constexpr(64)
WIDTH = gl.constexpr(576)
BLOCK_H = gl.constexpr(64)
BLOCK_N = gl.constexpr(64)
WIDE = gl.constexpr(gl.BlockedLayout([1, 8], [1, 32], [8, 1], [1, 0]))
"""Threads over a latent tile: a warp copies half a token at a time, 16 bytes a thread."""
NARROW = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [8, 1], [1, 0]))
"""Threads over a rotary tile."""
SCORES = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 2], [16, 32, 16]))
"""Accumulators of queries x keys: each warp group has half of the tokens."""
VALUES = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 2], [16, 256, 16]))
"""Accumulators of weights x values: each warp group has half of the latent."""
SHARED = gl.constexpr(gl.NVMMASharedLayout(128, 16))


@gluon.jit
def _slots_at(index_row, at, end, slots):
    """Slots of the list entries ``at``; -1 beyond ``end`` and for slots that the cache does not have."""
    slot = gl.load(index_row + at, mask=at < end, other=-1)
    return gl.where(slot < slots, slot, -1)


@gluon.jit
def _copy_rows(target, source, rows, first, COLUMNS: gl.constexpr, LAYOUT: gl.constexpr):
    """Start the copy of ``COLUMNS`` elements from ``first`` of the rows ``rows``; a row of -1 becomes zeros."""
    columns = gl.arange(0, COLUMNS, gl.SliceLayout(0, LAYOUT))
    base = source + rows.to(gl.int64)[:, None] * WIDTH + first
    keep = (rows >= 0)[:, None] & (columns >= 0)[None, :]
    async_copy.async_copy_global_to_shared(target, base + columns[None, :], mask=keep)


@gluon.jit
def _copy_both(latent, rope, source, wide, narrow):
    """Start the copy of the latent and the rotary part of some rows, whose numbers stand in both layouts."""
    _copy_rows(latent, source, wide, 0, LATENT, WIDE)
    _copy_rows(rope, source, narrow, LATENT, ROPE, NARROW)
    async_copy.commit_group()


@gluon.jit
def _attend(q_latent, q_rope, kv, k_rope, probabilities, cache_ptr, index_row, begin, end, slots, scale_log2):
    """The loop over a part of a row's list; the queries' copy is in flight when it begins.

    Returns:
        Weighted values not yet divided, the weights' sum, and the largest logit, of every head.
    """
    wide_n = gl.arange(0, BLOCK_N, gl.SliceLayout(1, WIDE))
    narrow_n = gl.arange(0, BLOCK_N, gl.SliceLayout(1, NARROW))
    score_n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, SCORES))
    wide = _slots_at(index_row, begin + wide_n, end, slots)
    narrow = _slots_at(index_row, begin + narrow_n, end, slots)
    _copy_both(kv.index(0), k_rope.index(0), cache_ptr, wide, narrow)
    wide = _slots_at(index_row, begin + BLOCK_N + wide_n, end, slots)
    narrow = _slots_at(index_row, begin + BLOCK_N + narrow_n, end, slots)
    here = _slots_at(index_row, begin + score_n, end, slots)
    top = gl.full([BLOCK_H], float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
    sums = gl.zeros([BLOCK_H, BLOCK_N], gl.float32, SCORES)
    no_scores = gl.zeros([BLOCK_H, BLOCK_N], gl.float32, SCORES)
    values = gl.zeros([BLOCK_H, LATENT], gl.float32, VALUES)
    for start in range(begin, end, BLOCK_N):
        now = ((start - begin) // BLOCK_N) % 2
        async_copy.wait_group(0)
        fence_async_shared()
        gl.thread_barrier()
        scores = warpgroup_mma(q_latent, kv.index(now).permute((1, 0)), no_scores, use_acc=False, is_async=True)
        scores = warpgroup_mma(q_rope, k_rope.index(now).permute((1, 0)), scores, is_async=True)
        # Everybody has waited for the product with the previous tile's values before the barrier: its buffer is free.
        _copy_both(kv.index(1 - now), k_rope.index(1 - now), cache_ptr, wide, narrow)
        wide = _slots_at(index_row, start + 2 * BLOCK_N + wide_n, end, slots)
        narrow = _slots_at(index_row, start + 2 * BLOCK_N + narrow_n, end, slots)
        next_here = _slots_at(index_row, start + BLOCK_N + score_n, end, slots)
        logits = warpgroup_mma_wait(0, deps=[scores]) * scale_log2
        logits = gl.where((here >= 0)[None, :], logits, float("-inf"))
        new_top = gl.maximum(top, gl.max(logits, axis=1))
        anchor = gl.where(new_top == float("-inf"), 0.0, new_top)
        weights = gl.exp2(logits - anchor[:, None])
        shrink = gl.exp2(top - anchor)
        sums = sums * shrink[:, None] + weights
        probabilities.store(weights.to(gl.bfloat16))
        values = values * gl.convert_layout(shrink, gl.SliceLayout(1, VALUES))[:, None]
        fence_async_shared()
        gl.thread_barrier()
        product = warpgroup_mma(probabilities, kv.index(now), values, is_async=True)
        values = warpgroup_mma_wait(0, deps=[product])
        top = new_top
        here = next_here
    async_copy.wait_group(0)
    return values, gl.sum(sums, axis=1), top


@gluon.jit
def mla_hopper_kernel(
    q_ptr, cache_ptr, index_ptr, length_ptr, out_ptr, partial_ptr, lse_ptr,
    scale_log2, value_scale, slots, heads, topk, split_len, SPLITS: gl.constexpr,
):  # fmt: skip
    """Sixty-four heads of one row, one part of its top-k list. Grid: (head blocks, splits, batch); 8 warps."""
    row = gl.program_id(2).to(gl.int64)
    split = gl.program_id(1)
    first_head = gl.program_id(0) * BLOCK_H
    q_latent = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, LATENT], SHARED)
    q_rope = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, ROPE], SHARED)
    kv = gl.allocate_shared_memory(gl.bfloat16, [2, BLOCK_N, LATENT], SHARED)
    k_rope = gl.allocate_shared_memory(gl.bfloat16, [2, BLOCK_N, ROPE], SHARED)
    probabilities = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, BLOCK_N], SHARED)

    wide_h = first_head + gl.arange(0, BLOCK_H, gl.SliceLayout(1, WIDE))
    narrow_h = first_head + gl.arange(0, BLOCK_H, gl.SliceLayout(1, NARROW))
    wide_q = gl.where(wide_h < heads, wide_h, -1)
    narrow_q = gl.where(narrow_h < heads, narrow_h, -1)
    _copy_both(q_latent, q_rope, q_ptr + row * heads * WIDTH, wide_q, narrow_q)
    begin = split * split_len
    end = gl.minimum(gl.minimum(begin + split_len, gl.load(length_ptr + row)), topk)
    values, total, top = _attend(
        q_latent, q_rope, kv, k_rope, probabilities, cache_ptr, index_ptr + row * topk, begin, end, slots, scale_log2
    )

    safe = gl.where(total == 0.0, 1.0, total)
    factor = gl.convert_layout(value_scale / safe, gl.SliceLayout(1, VALUES))
    result = gl.convert_layout(values * factor[:, None], WIDE)
    d = gl.arange(0, LATENT, gl.SliceLayout(0, WIDE))
    keep = (wide_h < heads)[:, None] & (d >= 0)[None, :]
    if SPLITS == 1:
        target = out_ptr + (row * heads + wide_h)[:, None] * LATENT + d[None, :]
        gl.store(target, result.to(out_ptr.dtype.element_ty), mask=keep)
    else:
        place = (row * SPLITS + split) * heads
        gl.store(partial_ptr + (place + wide_h)[:, None] * LATENT + d[None, :], result, mask=keep)
        lse_h = first_head + gl.arange(0, BLOCK_H, gl.SliceLayout(1, SCORES))
        lse = gl.where(total == 0.0, float("-inf"), top + gl.log2(safe))
        gl.store(lse_ptr + place + lse_h, lse, mask=lse_h < heads)
