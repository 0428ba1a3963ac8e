"""SGLang's native ``/generate``: token ids in, cumulative or incremental events out."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from tpgate.load.engines.base import Engine, Reader, message_of
from tpgate.specs import LoadSpec

_ABSENT = msgspec.Raw(b"")


class _Meta(msgspec.Struct, gc=False):
    completion_tokens: int = 0
    finish_reason: str | dict[str, Any] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Event(msgspec.Struct, gc=False):
    meta_info: _Meta | None = None
    output_ids: msgspec.Raw = _ABSENT
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class GenerateReader(Reader):
    """Counts by ``meta_info.completion_tokens``, which is cumulative in both kinds of stream.

    The ids tell the kinds apart: an event that holds more ids than tokens came new repeats the older ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0
        self._last = _ABSENT
        self._cumulative = False

    def read(self, payload: bytes) -> int:
        """Return ``completion_tokens`` of the event; see the base class."""
        event = _decode(payload)
        meta = event.meta_info
        if meta is None:
            self.error = message_of(event.error) or "an event without meta_info"
            return self.tokens
        tokens = meta.completion_tokens
        self._last = event.output_ids
        if not self._cumulative:
            count = _length(event.output_ids)
            self._cumulative = count > max(tokens - self.tokens, 0) and self.tokens > 0
            self._seen += count
        if meta.finish_reason is not None:
            self._finish(meta, tokens)
        if tokens > self.tokens:
            self.tokens = tokens
        return tokens

    def _finish(self, meta: _Meta, tokens: int) -> None:
        reason = meta.finish_reason
        if isinstance(reason, dict):
            if reason.get("type") == "abort":
                self.error = f"abort: {reason.get('message', 'no message')}"[:200]
            reason = str(reason.get("type"))
        self.finish_reason = reason
        self.output_tokens = tokens
        self.input_tokens = meta.prompt_tokens
        self.cached_tokens = meta.cached_tokens
        self.reasoning_tokens = meta.reasoning_tokens

    @property
    def arrived_tokens(self) -> int | None:
        """Ids that came: those of the last event of a cumulative stream, else the sum over the events."""
        if self._cumulative:
            return _length(self._last)
        return self._seen or None


def _length(ids: msgspec.Raw) -> int:
    """Return how many elements a JSON array of numbers has, without decoding them."""
    text = bytes(ids)
    if len(text) < 3:
        return 0
    return text.count(b",") + 1 if text[0] == 91 and text[1:-1].strip() else 0


def _body(load: LoadSpec, ids: list[int], model: str) -> bytes:
    del model
    sampling = {"temperature": 0.0, "max_new_tokens": load.output_tokens, "ignore_eos": True}
    return orjson.dumps({"input_ids": ids, "sampling_params": sampling, "stream": True})


ENGINE = Engine("/generate", _body, GenerateReader)
"""The adapter."""
