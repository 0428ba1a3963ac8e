"""Faults inside a decode step: attention runs again in some layers, each layer reduces once more over the ranks.

Both are real work by real kernels, so a CUDA graph captures them and a trace shows them where they belong.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

Hook = tuple[str, Callable[..., Any], str]

_ATTENTION = "sglang.srt.layers.radix_attention.RadixAttention.forward"


def repeats(layer: int, slower: float) -> int:
    """Return how often layer number ``layer`` (from 0) attends again, so that all together take that much more."""
    return math.floor((layer + 1) * slower + 1e-9) - math.floor(layer * slower + 1e-9)


def attention_slower(size: float, _: dict[str, float]) -> list[Hook]:
    """Let decode attention take ``size`` (a fraction) longer, by running it again in that share of the layers."""

    def around(original: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = original(layer, *args, **kwargs)
        if _decoding(args, kwargs):
            for _ in range(repeats(layer.layer_id, size)):
                original(layer, *args, **kwargs)
        return result

    return [(_ATTENTION, around, "AROUND")]


def extra_all_reduce(size: float, _: dict[str, float]) -> list[Hook]:
    """Reduce ``size`` times more a layer over the tensor-parallel ranks, with a tensor of the hidden state's shape."""

    def after(result: Any, _layer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        group = importlib.import_module("sglang.srt.distributed").get_tp_group()
        if group.world_size == 1 or not _decoding(args, kwargs):
            return
        for _ in range(int(size)):
            group.all_reduce(result.new_zeros((result.shape[0], result.shape[-1] * group.world_size)))

    return [(_ATTENTION, after, "AFTER")]


def _decoding(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    batch = kwargs["forward_batch"] if "forward_batch" in kwargs else args[3]
    return bool(batch.forward_mode.is_decode())
