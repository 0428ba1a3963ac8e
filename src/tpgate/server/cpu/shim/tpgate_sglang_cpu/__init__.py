"""An SGLang plugin for CPU servers, loaded by SGLang itself in every one of its processes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

TARGET = "sglang.srt.distributed.parallel_state.GroupCoordinator.__init__"


def without_nccl(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any signature
    """Call ``GroupCoordinator.__init__`` with ``use_pynccl=False``: gloo moves CPU tensors, NCCL cannot."""
    bound = inspect.signature(original).bind(*args, **kwargs)
    bound.arguments["use_pynccl"] = False
    return original(*bound.args, **bound.kwargs)


def register() -> None:
    """Ask SGLang to wrap the constructor of its process groups."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(TARGET, without_nccl, HookType.AROUND)
