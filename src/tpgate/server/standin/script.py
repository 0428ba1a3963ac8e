"""What goes wrong with which request. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tpgate.server.standin.settings import Faults


@dataclass(frozen=True, slots=True)
class Script:
    """The fate of one request; 0 means that a thing does not happen, else it happens at that output token.

    Attributes:
        limit: Output tokens that it gets.
        finish: Finish reason, as SGLang's ``meta_info`` shows it.
        refuse: It is answered 503.
        trickle: It is sent byte by byte.
        drop_at: Its connection is closed.
        error_at: It gets an error event.
        garbage_at: It gets bytes that are no event.
        silent_at: It gets nothing more, and stays open.
        duplicate_at: This chunk is sent twice.
        die_at: The process ends.
    """

    limit: int
    finish: dict[str, str | int]
    refuse: bool = False
    trickle: bool = False
    drop_at: int = 0
    error_at: int = 0
    garbage_at: int = 0
    silent_at: int = 0
    duplicate_at: int = 0
    die_at: int = 0


def script_of(faults: Faults, number: int, limit: int) -> Script:
    """Return the fate of the ``number``-th request (from 1; longer than one token) that asks for ``limit``."""

    def strikes(every: int) -> bool:
        return bool(every) and number % every == 0

    half = max(1, limit // 2)
    finish: dict[str, str | int] = {"type": "length", "length": limit}
    wanted = limit
    if strikes(faults.early_stop_every):
        wanted, finish = half, {"type": "length", "length": half}
    if strikes(faults.early_eos_every):
        wanted, finish = half, {"type": "stop", "matched": 2}

    def at(every: int) -> int:
        return half if strikes(every) else 0

    return Script(
        limit=wanted,
        finish=finish,
        refuse=strikes(faults.refuse_every),
        trickle=strikes(faults.trickle_every),
        drop_at=at(faults.drop_every),
        error_at=at(faults.error_event_every),
        garbage_at=at(faults.garbage_every),
        silent_at=at(faults.silent_every),
        duplicate_at=at(faults.duplicate_every),
        die_at=half if faults.die_after_requests and number >= faults.die_after_requests else 0,
    )
