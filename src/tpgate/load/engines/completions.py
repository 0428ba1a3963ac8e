"""OpenAI-compatible ``/v1/completions``: token ids in, text out, counts from ``usage``."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from tpgate.load.engines.base import Engine, Reader, message_of
from tpgate.specs import LoadSpec


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """The ``usage`` member of an event."""

    completion_tokens: int | None = 0
    prompt_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Choice(msgspec.Struct, gc=False):
    text: str | None = None
    finish_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    object: str = ""
    message: str = ""


_decode = msgspec.json.Decoder(_Event).decode


class UsageReader(Reader):
    """Counts by the ``usage`` of each event (``continuous_usage_stats``).

    A server that gives usage only at the end shows no tokens, only chunks. Then a chunk with text is taken as one
    token, and the response is usable only where the total says that this was so: nothing is spread over chunks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._uncounted = 0
        self._jumped = False
        self._total: int | None = None

    def read(self, payload: bytes) -> int:
        """Return the cumulative tokens after the event; see the base class."""
        event = _decode(payload)
        if event.error is not None or event.object == "error":
            self.error = message_of(event.error) or event.message[:200] or "no message"
            return self.tokens
        if not event.choices:
            if event.usage is not None:
                self.take(event.usage)
            return self.tokens
        choice = event.choices[0]
        return self.count(event.usage, bool(choice.text), choice.finish_reason)

    def count(self, usage: Usage | None, has_text: bool, finish_reason: str | None) -> int:
        """Take in an event that has a choice, and return the cumulative tokens after it."""
        if finish_reason is not None:
            self.finish_reason = finish_reason
        if usage is not None:
            tokens = usage.completion_tokens or 0
            self._jumped = self._jumped or (self._uncounted > 0 and tokens > self.tokens + 1)
            if finish_reason is not None:
                self.take(usage)
            else:
                self._total = tokens
        elif has_text:
            tokens = self.tokens + 1
            self._uncounted += 1
        else:
            return self.tokens
        if tokens > self.tokens:
            self.tokens = tokens
        return tokens

    def take(self, usage: Usage) -> None:
        """Keep the totals of a complete ``usage`` member."""
        self._total = usage.completion_tokens
        self.input_tokens = usage.prompt_tokens
        prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
        if prompt is not None:
            self.cached_tokens = prompt.cached_tokens
        reasoning = completion.reasoning_tokens if completion is not None else None
        self.reasoning_tokens = usage.reasoning_tokens if reasoning is None else reasoning

    def complaint(self) -> str | None:
        """Return why the counts cannot be used: no total, or chunks whose tokens were not counted one by one."""
        self.output_tokens = self._total
        if self._uncounted and self._total is not None and (self._jumped or self.tokens != self._total):
            return (
                f"tokens per chunk are not known: {self._total} tokens, {self._uncounted} chunks without usage "
                "(the server ignores stream_options.continuous_usage_stats)"
            )
        return super().complaint()


STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
"""Asks for cumulative counts in every event, so that chunks need not be taken for tokens."""


def _body(load: LoadSpec, ids: list[int], model: str) -> bytes:
    return orjson.dumps(
        {
            "model": model,
            "prompt": ids,
            "max_tokens": load.output_tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": STREAM_OPTIONS,
        }
    )


ENGINE = Engine("/v1/completions", _body, UsageReader)
"""The adapter."""
