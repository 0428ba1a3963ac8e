"""Faults of the front process: counts that are wrong, requests that end badly, prompts that share a prefix."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

Hook = tuple[str, Callable[..., Any], str]

_TOKENIZER = "sglang.srt.managers.tokenizer_manager.TokenizerManager"


def miscount(size: float, _: dict[str, float]) -> list[Hook]:
    """Count one token too many after every ``size`` tokens."""
    every = int(size)

    def before(_manager: object, batch: Any, *_: Any, **__: Any) -> None:  # noqa: ANN401
        counts = getattr(batch, "completion_tokens", None)
        if counts is not None:
            batch.completion_tokens = [count + count // every for count in counts]

    return [(f"{_TOKENIZER}._handle_batch_output", before, "BEFORE")]


def _limit(request: Any) -> int:  # noqa: ANN401
    """Return the output tokens that a request asks for; 0 for what is no stream."""
    sampling = getattr(request, "sampling_params", None)
    if not getattr(request, "stream", False) or not isinstance(sampling, dict):
        return 0
    return int(sampling.get("max_new_tokens") or 0)


async def _cut(stream: AsyncIterator[Any], after: int, error: Exception) -> AsyncIterator[Any]:
    sent = 0
    async for event in stream:
        if sent >= after:
            raise error
        sent += 1
        yield event


def _cut_every(size: float, error: Callable[[str], Exception]) -> list[Hook]:
    every, numbers = int(size), itertools.count(1)

    def around(original: Callable[..., Any], manager: object, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        stream = original(manager, request, *args, **kwargs)
        limit = _limit(request)
        if limit < 2 or next(numbers) % every:
            return stream
        return _cut(stream, limit // 2, error("tpgate-faults: scripted failure"))

    return [(f"{_TOKENIZER}.generate_request", around, "AROUND")]


def drop_every(size: float, _: dict[str, float]) -> list[Hook]:
    """Close every ``size``-th stream in the middle, by an error that SGLang does not handle."""
    return _cut_every(size, RuntimeError)


def error_event_every(size: float, _: dict[str, float]) -> list[Hook]:
    """End every ``size``-th stream by an error event inside its 200 answer, by an error that SGLang handles."""
    return _cut_every(size, ValueError)


def shared_prefix(size: float, _: dict[str, float]) -> list[Hook]:
    """Give every prompt the same first ``size`` (a fraction), so that a prefix cache that is left on has hits."""

    def before(_manager: object, request: Any, *_: Any, **__: Any) -> None:  # noqa: ANN401
        ids = getattr(request, "input_ids", None)
        if _limit(request) >= 2 and isinstance(ids, list) and ids and isinstance(ids[0], int):
            shared = int(len(ids) * size)
            request.input_ids = [7] * shared + ids[shared:]

    return [(f"{_TOKENIZER}.generate_request", before, "BEFORE")]
