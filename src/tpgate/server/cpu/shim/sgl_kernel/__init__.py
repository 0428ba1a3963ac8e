"""Stands in for SGLang's kernel package in a CPU server, because its CUDA build cannot load without libcuda.

The CPU engine with the torch_native attention backend calls one kernel of it. Every other name that ends in ``_cpu``
is there to be imported and raises when called, so that nothing is ever computed wrongly in silence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

__version__ = "999.0.0+tpgate.cpu"


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write the cache slots of a batch into the table of requests.

    Row ``r`` of ``req_to_token``, columns ``start..end``, takes the next ``end - start`` entries of ``out_cache_loc``.

    Args:
        req_pool_indices: Row of each request, shape [batch].
        req_to_token: Table of cache slots, shape [rows, pool_len]; written in place.
        start_offset: First column of each request, shape [batch].
        end_offset: Column after the last, shape [batch].
        out_cache_loc: Slots of all requests, one after the other, shape [sum of end - start].
        pool_len: Columns of the table.
    """
    taken = 0
    rows, starts, ends = req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist()
    for row, start, end in zip(rows, starts, ends, strict=True):
        if not 0 <= start <= end <= pool_len:
            raise IndexError(f"columns {start}..{end} of a table with {pool_len}")
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[taken : taken + count].to(req_to_token.dtype)
        taken += count


def __getattr__(name: str) -> Callable[..., None]:
    if not name.endswith("_cpu"):
        raise AttributeError(f"sgl_kernel (CPU stand-in of tpgate) has no {name}")

    def missing(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError(f"sgl_kernel.{name}: the CPU stand-in of tpgate has no such kernel")

    return missing
