"""One answer in the making: takes tokens from the scheduler and puts them on the wire, with the scripted faults."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpgate.server.standin.events import GARBAGE, Writer, error_event
from tpgate.server.standin.scheduler import Job

if TYPE_CHECKING:
    from tpgate.server.standin.asks import Ask
    from tpgate.server.standin.http import Connection
    from tpgate.server.standin.script import Script

DEATH_STATUS = 17


@dataclass(slots=True, eq=False)
class Answer:
    """The answer to one request.

    Attributes:
        number: Number of the request.
        ask: What was asked.
        script: Its fate.
        writer: Makes its events.
        connection: Where it goes.
        cached: Prompt tokens that are said to come from the prefix cache.
        interval: Tokens a chunk, after the first.
        sent: Tokens put on the wire.
        first_sent_ns: When the first of them was.
        last_sent_ns: When the latest of them was.
        over: Whether nothing more will be sent.
    """

    number: int
    ask: Ask
    script: Script
    writer: Writer
    connection: Connection
    cached: int = 0
    interval: int = 1
    sent: int = 0
    first_sent_ns: int = 0
    last_sent_ns: int = 0
    over: bool = False

    def open(self) -> None:
        """Send what comes before the first token."""
        if self.script.trickle:
            self.connection.trickle()
        if self.ask.stream:
            self.connection.begin()
            self.connection.chunk(self.writer.opening())

    def token(self, job: Job) -> None:
        """Take the next token; ``over`` is set once the answer has ended, well or not."""
        tokens = job.tokens
        if self.script.die_at == tokens:
            os._exit(DEATH_STATUS)
        if self.script.silent_at and tokens >= self.script.silent_at:
            return
        finish = self.script.finish if job.finished else None
        if not self.ask.stream:
            if job.finished:
                self._stamp(tokens)
                self.connection.answer(200, self.writer.whole(tokens, self.script.finish))
                self.over = True
            return
        if finish is None and tokens != 1 and tokens % self.interval:
            return
        if self._broken(tokens):
            return
        data = self.writer.chunk(self.sent, tokens, finish)
        self.connection.chunk(data)
        if tokens == self.script.duplicate_at:
            self.connection.chunk(data)
        self._stamp(tokens)
        if job.finished:
            self.connection.chunk(self.writer.closing(tokens))
            self.connection.end()
            self.over = True

    def _broken(self, tokens: int) -> bool:
        """Carry out a scripted break; return whether the answer is over by it."""
        script = self.script
        if script.drop_at and tokens >= script.drop_at:
            self.over = True
            self.connection.drop()
        elif script.error_at and tokens >= script.error_at:
            self.over = True
            self.connection.chunk(error_event())
            self.connection.end()
        elif script.garbage_at == tokens:
            self.connection.chunk(GARBAGE)
        return self.over

    def _stamp(self, tokens: int) -> None:
        self.sent = tokens
        self.last_sent_ns = time.monotonic_ns()
        self.first_sent_ns = self.first_sent_ns or self.last_sent_ns
