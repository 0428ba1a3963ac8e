"""OpenAI-compatible ``/v1/chat/completions``: words in, deltas out, counts from ``usage``.

A chat prompt is text, so its length in tokens is the server's to say (``prompt_tokens``): about one token a word,
plus the chat template, whose tokens are the same in every request and may come from a prefix cache.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from tpgate.load.engines.base import Engine, message_of
from tpgate.load.engines.completions import STREAM_OPTIONS, Usage, UsageReader
from tpgate.specs import LoadSpec

_ABSENT = msgspec.Raw(b"")
_WORDS = tuple(
    "time year day man world life hand part child eye woman place work week case point company number group problem "  # noqa: SIM905
    "fact water room money story month lot right study book word business issue side kind head house service friend "
    "father power hour game line end member law car city name team minute idea body back face level office door art "
    "war history party morning".split()
)


class _Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: msgspec.Raw = _ABSENT


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    object: str = ""
    message: str = ""


_decode = msgspec.json.Decoder(_Event).decode


class ChatReader(UsageReader):
    """Counts like the completions reader; the event that only names the role never bears a token."""

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
        delta = choice.delta or _Delta()
        has_text = bool(
            delta.content or delta.reasoning_content or delta.reasoning or bytes(delta.tool_calls) not in _EMPTY
        )
        if delta.role and not has_text and choice.finish_reason is None:
            return self.tokens
        return self.count(event.usage, has_text, choice.finish_reason)


_EMPTY = (b"", b"null", b"[]")


def words_of(ids: list[int]) -> str:
    """Return one short word an id, each id spelt by its last digits in base 64, its higher ones first in the text."""
    head = [_WORDS[(ids[0] >> shift) % 64] for shift in (12, 6, 0)]
    return " ".join(head + [_WORDS[number % 64] for number in ids[3:]])


def _body(load: LoadSpec, ids: list[int], model: str) -> bytes:
    return orjson.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": words_of(ids)}],
            "max_tokens": load.output_tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": STREAM_OPTIONS,
        }
    )


ENGINE = Engine("/v1/chat/completions", _body, ChatReader)
"""The adapter."""
