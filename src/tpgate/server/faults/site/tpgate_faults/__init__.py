"""A plugin of SGLang that makes it worse on purpose, as the variable ``TPGATE_FAULTS`` says (JSON, name to size).

SGLang calls :func:`register` in each of its processes. Nothing of SGLang is edited: hooks are put on its functions
through its own registry.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from . import requests, scheduling, tensors

VARIABLE = "TPGATE_FAULTS"
KNOWN = {
    "attention_slower": tensors.attention_slower,
    "extra_all_reduce": tensors.extra_all_reduce,
    "scheduler_sleep_ms": scheduling.scheduler_sleep_ms,
    "stall_every": scheduling.stall_every,
    "stall_ms": scheduling.stall_ms,
    "max_running": scheduling.max_running,
    "die_after_steps": scheduling.die_after_steps,
    "hang_after_steps": scheduling.hang_after_steps,
    "miscount": requests.miscount,
    "drop_every": requests.drop_every,
    "error_event_every": requests.error_event_every,
    "shared_prefix": requests.shared_prefix,
}
"""Fault to the function that returns its hooks, as (target, hook, kind); a size of 0 is no fault."""


def register() -> None:
    """Register the hooks of every fault that is asked for, and say so in the server's log.

    Raises:
        ValueError: The variable names a fault that is not known; SGLang logs it and goes on without.
    """
    asked = json.loads(os.environ.get(VARIABLE) or "{}")
    unknown = sorted(set(asked) - set(KNOWN))
    if unknown:
        raise ValueError(f"{VARIABLE}: unknown faults {unknown}, expected some of {sorted(KNOWN)}")
    registry: Any = importlib.import_module("sglang.srt.plugins.hook_registry")
    for name, size in asked.items():
        if not size:
            continue
        for target, hook, kind in KNOWN[name](size, asked):
            registry.HookRegistry.register(target, hook, registry.HookType[kind])
            sys.stderr.write(f"tpgate-faults: {name}={size} on {target}\n")
