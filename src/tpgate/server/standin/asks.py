"""Requests for tokens, as the three endpoints take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["generate", "completions", "chat"]


class BadAskError(ValueError):
    """The body of a request is not what the endpoint takes."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for tokens.

    Attributes:
        api: The endpoint's kind.
        prompt_tokens: Tokens of the prompt; text counts one token a word.
        limit: Output tokens asked for.
        stream: Whether the answer is a stream of events.
        usage: Whether a last event with the token counts is wanted (OpenAI's ``include_usage``).
        running_usage: Whether every event carries the counts so far (``continuous_usage_stats``).
    """

    api: Api
    prompt_tokens: int
    limit: int
    stream: bool
    usage: bool = False
    running_usage: bool = False


def _length(prompt: object) -> int:
    if isinstance(prompt, str):
        return len(prompt.split())
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return len(prompt)
    raise BadAskError("the prompt is neither text nor a list of token ids (one prompt a request)")


def _limit(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadAskError(f"the number of output tokens is {value!r}, expected a whole number from 1")
    return value


def ask_of(api: Api, body: dict[str, Any]) -> Ask:
    """Return the request that ``body`` makes to an endpoint.

    Raises:
        BadAskError: The body is not understood.
    """
    stream = bool(body.get("stream", False))
    if api == "generate":
        sampling = body.get("sampling_params") or {}
        prompt = body.get("input_ids", body.get("text"))
        return Ask(api, _length(prompt), _limit(sampling.get("max_new_tokens", 128)), stream)
    options = body.get("stream_options") or {}
    usage, running = bool(options.get("include_usage")), bool(options.get("continuous_usage_stats"))
    if api == "completions":
        return Ask(api, _length(body.get("prompt")), _limit(body.get("max_tokens", 16)), stream, usage, running)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadAskError("messages is missing or empty")
    words = sum(_length(message.get("content", "")) for message in messages)
    limit = _limit(body.get("max_completion_tokens", body.get("max_tokens", 16)))
    return Ask(api, max(1, words), limit, stream, usage, running)
