"""What an adapter is: one constant that writes requests, and one small reader per response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from tpgate.specs import LoadSpec


class Reader(ABC):
    """Reads the events of one response; the parser feeds it every data payload but ``[DONE]``.

    Attributes:
        tokens: Cumulative output tokens after the last token-bearing event.
        output_tokens: Output tokens as the server counts them; None until it said so.
        input_tokens: Prompt tokens as the server counts them, or None.
        cached_tokens: Prompt tokens from a prefix cache, or None.
        reasoning_tokens: Output tokens that were reasoning, or None.
        finish_reason: The server's reason, or None.
        error: Message of an error event inside the stream, or None.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.output_tokens: int | None = None
        self.input_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.finish_reason: str | None = None
        self.error: str | None = None

    @abstractmethod
    def read(self, payload: bytes) -> int:
        """Take in one event and return the cumulative output tokens known to have arrived with it.

        A return value that is not above the one before says that this event carried no token.

        Raises:
            msgspec.MsgspecError: The payload is not the JSON object that this endpoint sends.
        """

    @property
    def arrived_tokens(self) -> int | None:
        """Output tokens that were seen to arrive, counted apart from the server's own figure; None where none show."""
        return None

    def complaint(self) -> str | None:
        """Return why the counts of this response cannot be used, or None."""
        return None if self.output_tokens is not None else "the server never said how many tokens it sent"


@dataclass(frozen=True, slots=True)
class Engine:
    """One streaming endpoint.

    Attributes:
        path: Path of the endpoint.
        body: Builds a request's JSON body from (load, prompt ids, model name).
        reader: Makes the reader of one response.
    """

    path: str
    body: Callable[[LoadSpec, list[int], str], bytes]
    reader: Callable[[], Reader]


def message_of(error: object) -> str | None:
    """Return the message inside the value of an ``error`` member, or None where there is none."""
    if isinstance(error, dict):
        error = error.get("message", error)
    return None if error is None else str(error)[:200]
