"""The events of a stream and the bodies of plain answers, in the words of SGLang's endpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from tpgate.server.standin.asks import Ask
from tpgate.server.standin.settings import Settings

DONE = b"data: [DONE]\n\n"
GARBAGE = b'\x00\xff\xfe{not an event\n\ndata: {"output_ids": [1,\n\n'


def event(value: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def error_event() -> bytes:
    """Return the event by which an error shows itself inside a 200 stream."""
    return event(
        {"error": {"object": "error", "message": "scripted failure", "type": "InternalServerError", "code": 500}}
    )


class Writer:
    """Writes the events of one answer.

    Args:
        settings: The stand-in's settings.
        ask: The request.
        number: Its number, which makes its token ids.
        cached: Prompt tokens that are said to come from the prefix cache.
    """

    def __init__(self, settings: Settings, ask: Ask, number: int, cached: int) -> None:
        self._settings = settings
        self._ask = ask
        self._number = number
        self._cached = cached
        self._name = f"{'chatcmpl' if ask.api == 'chat' else 'cmpl'}-{number}"
        self._created = int(time.time())
        meta = {"id": str(number), "prompt_tokens": ask.prompt_tokens, "cached_tokens": cached}
        self._meta = orjson.dumps(meta)[1:-1]
        self._off = settings.faults.miscount

    def ids(self, first: int, last: int) -> list[int]:
        """Return the ids of output tokens ``first`` (from 0) to ``last`` (not included)."""
        base, size = self._number * 7919, self._settings.vocabulary
        return [(base + 31 * index) % size for index in range(first, last)]

    def counted(self, tokens: int) -> int:
        """Return the tokens that the server says there are: one too many after every n under ``--fault-miscount n``."""
        return tokens + (tokens // self._off if self._off else 0)

    def opening(self) -> bytes:
        """Return what is sent before the first token: a chat's role, which holds no token."""
        if self._ask.api != "chat":
            return b""
        return event(self._chat({"role": "assistant", "content": ""}, None, None))

    def chunk(self, sent: int, tokens: int, finish: dict[str, Any] | None) -> bytes:
        """Return the event for tokens ``sent`` (not included) to ``tokens``, both cumulative."""
        if self._ask.api == "generate":
            first = sent if self._settings.incremental_streaming_output else 0
            counts = b"" if self._settings.faults.no_counts else b',"completion_tokens":%d' % self.counted(tokens)
            return b'data: {"output_ids":%s,"meta_info":{%s,"finish_reason":%s%s,"weight_version":"default"}}\n\n' % (
                orjson.dumps(self.ids(first, tokens)),
                self._meta,
                orjson.dumps(finish),
                counts,
            )
        text = self._text(sent, tokens)
        usage = self._usage(tokens) if self._ask.running_usage else None
        reason = None if finish is None else str(finish["type"])
        if self._ask.api == "completions":
            return event(self._completion(text, reason, usage))
        thinking = tokens <= self._settings.reasoning_tokens
        return event(self._chat({"reasoning_content" if thinking else "content": text}, reason, usage))

    def closing(self, tokens: int) -> bytes:
        """Return what is sent after the last token: counts, where asked for, and the end mark."""
        if self._ask.api == "generate" or not self._ask.usage:
            return DONE
        value = self._completion("", None, self._usage(tokens))
        if self._ask.api == "chat":
            value = self._chat({}, None, self._usage(tokens))
        return event({**value, "choices": []}) + DONE

    def whole(self, tokens: int, finish: dict[str, Any]) -> bytes:
        """Return the body of an answer that is not streamed."""
        if self._ask.api == "generate":
            meta = {
                "id": str(self._number),
                "finish_reason": finish,
                "prompt_tokens": self._ask.prompt_tokens,
                "completion_tokens": self.counted(tokens),
                "cached_tokens": self._cached,
                "weight_version": "default",
            }
            return orjson.dumps({"output_ids": self.ids(0, tokens), "meta_info": meta})
        text, reason = self._text(0, tokens), str(finish["type"])
        if self._ask.api == "completions":
            return orjson.dumps(self._completion(text, reason, self._usage(tokens)))
        value = self._chat({}, reason, self._usage(tokens))
        message = {"role": "assistant", "content": text}
        return orjson.dumps({**value, "choices": [{"index": 0, "message": message, "finish_reason": reason}]})

    def _text(self, first: int, last: int) -> str:
        return "".join(f" t{token}" for token in self.ids(first, last))

    def _usage(self, tokens: int) -> dict[str, Any]:
        prompt, counted = self._ask.prompt_tokens, self.counted(tokens)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": counted,
            "total_tokens": prompt + counted,
            "prompt_tokens_details": {"cached_tokens": self._cached},
            "reasoning_tokens": min(tokens, self._settings.reasoning_tokens) if self._ask.api == "chat" else 0,
        }

    def _frame(self, kind: str, choices: Sequence[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
        model = self._settings.served_model_name
        head = {"id": self._name, "object": kind, "created": self._created, "model": model}
        return {**head, "choices": list(choices), "usage": usage}

    def _completion(self, text: str, reason: str | None, usage: dict[str, Any] | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason, "matched_stop": None}
        return self._frame("text_completion", [choice], usage)

    def _chat(self, delta: dict[str, Any], reason: str | None, usage: dict[str, Any] | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._frame("chat.completion.chunk", [choice], usage)
