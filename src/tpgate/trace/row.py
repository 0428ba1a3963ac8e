"""The raw bytes of one event, and the expression that finds them in the order of keys that kineto writes."""

from __future__ import annotations

import json
import re

Row = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes]
"""Category, name, pid, tid, ts, dur, args: the raw bytes of one event; ts is empty where the event did not fit."""

GPU = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
STEPS = ("gpu_user_annotation", "user_annotation")
LAUNCHES = ("cuda_runtime", "cuda_driver")
OPERATORS = ("cpu_op", "user_annotation")

_STRING = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
_NUMBER = rb'("?-?[\w.+]+(?:-\d+)?"?)'
_COLON = rb"\s*:\s*"


def expression(categories: tuple[str, ...]) -> re.Pattern[bytes]:
    """Return an expression that matches every event of some categories, fitting or not; its groups are a Row."""
    return re.compile(
        rb'"cat"' + _COLON + rb'"(' + "|".join(categories).encode() + rb')"'
        rb'(?:\s*,\s*"name"' + _COLON + _STRING + rb'\s*,\s*"pid"' + _COLON + rb'("?-?\w+"?)\s*,\s*"tid"' + _COLON +
        rb'("[^"]*"|-?\d+)\s*,\s*"ts"' + _COLON + _NUMBER + rb'\s*,\s*"dur"' + _COLON + _NUMBER +
        rb'(?:\s*,\s*"args"' + _COLON + rb"\{([^{}]*)\})?)?",
        re.DOTALL,
    )  # fmt: skip


def text_of(name: bytes) -> str:
    """Return a name's text from its raw bytes in the file."""
    if b"\\" in name:
        try:
            return str(json.loads(b'"' + name + b'"'))
        except ValueError:
            return name.decode(errors="replace")
    return name.decode(errors="replace")
