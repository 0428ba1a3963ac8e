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


@gluon.jit
def _slots_at(index_row, at, end, slots):
    """Slots of the list entries ``at``; -1 beyond ``end`` and for slots that the cache does not have."""
    slot = gl.load(index_row + at, mask=at < end, other=-1)
    return gl.where(slot < slots, slot, -1)


@gluon.jit
def _copy_rows(target, cache_ptr, rows, first, WIDTH: gl.constexpr, COLUMNS: gl.constexpr, LAYOUT: gl.constexpr):
    """Start the copy of ``COLUMNS`` elements from ``first`` of the tokens ``rows``; a row of -1 becomes zeros."""
    columns = gl.arange(0, COLUMNS, gl.SliceLayout(0, LAYOUT))
    base = cache_ptr + rows.to(gl.int64)[:, None] * WIDTH + first
    keep = (rows >= 0)[:, None] & (columns >= 0)[None, :]
    async_copy.async_copy_global_to_shared(target, base + columns[None, :], mask=keep)


@gluon.jit
def mla_hopper_kernel(
    q_ptr,
    cache_ptr,
    index_ptr,
    length_ptr,
    out_ptr,
    partial_ptr,
    lse_ptr,
    scale_log2,
    value_scale,
    slots,
    heads,
    topk,
    split_len,
    LATENT: gl.constexpr,
    ROPE: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SPLITS: gl.constexpr,
):
    """Sixty-four heads of one row, one part of its top-k list. Grid: (head blocks, splits, batch); 8 warps."""
    BLOCK_H: gl.constexpr = 64
    WIDTH: gl.constexpr = LATENT + ROPE
    WIDE: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [8, 1], [1, 0])
    NARROW: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [8, 1], [1, 0])
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, BLOCK_N // 2, 16])
    VALUES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, LATENT // 2, 16])
    SHARED: gl.constexpr = gl.NVMMASharedLayout(128, 16)

    row = gl.program_id(2).to(gl.int64)
    split = gl.program_id(1)
    first_head = gl.program_id(0) * BLOCK_H

    q_latent = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, LATENT], SHARED)
    q_rope = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, ROPE], SHARED)
    kv = gl.allocate_shared_memory(gl.bfloat16, [2, BLOCK_N, LATENT], SHARED)
    k_rope = gl.allocate_shared_memory(gl.bfloat16, [2, BLOCK_N, ROPE], SHARED)
    probabilities = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, BLOCK_N], SHARED)

    begin = split * split_len
    end = gl.minimum(gl.minimum(begin + split_len, gl.load(length_ptr + row)), topk)
    index_row = index_ptr + row * topk
    wide_n = gl.arange(0, BLOCK_N, gl.SliceLayout(1, WIDE))
    narrow_n = gl.arange(0, BLOCK_N, gl.SliceLayout(1, NARROW))
    score_n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, SCORES))

    wide_h = first_head + gl.arange(0, BLOCK_H, gl.SliceLayout(1, WIDE))
    narrow_h = first_head + gl.arange(0, BLOCK_H, gl.SliceLayout(1, NARROW))
    q_row = q_ptr + row * heads * WIDTH
    _copy_rows(q_latent, q_row, gl.where(wide_h < heads, wide_h, -1), 0, WIDTH, LATENT, WIDE)
    _copy_rows(q_rope, q_row, gl.where(narrow_h < heads, narrow_h, -1), LATENT, WIDTH, ROPE, NARROW)
    _copy_rows(kv.index(0), cache_ptr, _slots_at(index_row, begin + wide_n, end, slots), 0, WIDTH, LATENT, WIDE)
    _copy_rows(
        k_rope.index(0), cache_ptr, _slots_at(index_row, begin + narrow_n, end, slots), LATENT, WIDTH, ROPE, NARROW
    )
    async_copy.commit_group()
    next_wide = _slots_at(index_row, begin + BLOCK_N + wide_n, end, slots)
    next_narrow = _slots_at(index_row, begin + BLOCK_N + narrow_n, end, slots)
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
        _copy_rows(kv.index(1 - now), cache_ptr, next_wide, 0, WIDTH, LATENT, WIDE)
        _copy_rows(k_rope.index(1 - now), cache_ptr, next_narrow, LATENT, WIDTH, ROPE, NARROW)
        async_copy.commit_group()
        ahead = start + 2 * BLOCK_N
        next_wide = _slots_at(index_row, ahead + wide_n, end, slots)
        next_narrow = _slots_at(index_row, ahead + narrow_n, end, slots)
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
        acc = warpgroup_mma(probabilities, kv.index(now), values, is_async=True)
        values = warpgroup_mma_wait(0, deps=[acc])
        top = new_top
        here = next_here

    async_copy.wait_group(0)
    total = gl.sum(sums, axis=1)
    safe = gl.where(total == 0.0, 1.0, total)
    factor = gl.convert_layout(value_scale / safe, gl.SliceLayout(1, VALUES))
    result = gl.convert_layout((values * factor[:, None]), WIDE)
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
