"""Adapters to the streaming endpoints: how a request is written, and how an event maps to cumulative tokens."""

from __future__ import annotations

from tpgate.load.engines import chat, completions, generate
from tpgate.load.engines.base import Engine, Reader
from tpgate.specs import Api

__all__ = ["ENGINES", "Engine", "Reader", "engine_of"]

ENGINES: dict[Api, Engine] = {
    "generate": generate.ENGINE,
    "completions": completions.ENGINE,
    "chat": chat.ENGINE,
}
"""The adapters by the name that a LoadSpec gives them."""


def engine_of(api: Api) -> Engine:
    """Return the adapter of ``api``."""
    return ENGINES[api]
