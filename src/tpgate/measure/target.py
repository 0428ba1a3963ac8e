"""What a cell is driven against."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from tpgate.load.health import LAG_LIMIT
from tpgate.measure.validity import DRIFT_FATAL

STALL_TIMEOUT_S = 60.0
"""Seconds without any byte from the server after which a load is given up, unless a scenario says otherwise."""

Progress = Callable[[str], None]
"""Told what goes on, in words."""


class Server(Protocol):
    """What a measurement needs of a server, started here or attached to."""

    @property
    def url(self) -> str:
        """Base URL."""

    def alive(self) -> str | None:
        """None while it lives, else why it does not."""

    def pids(self) -> Collection[int]:
        """Its processes of now; none where they are not known."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a cell is driven against.

    Attributes:
        server: The server.
        vocabulary: Size of the model's vocabulary; prompts are drawn from it.
        model_config: Content of the model's config.json, or None where it is not known.
        tensor_parallel: Ranks.
        gpus: UUIDs of the GPUs that the server was given; empty on a CPU engine.
        client_lag_limit: Largest delay of the client's loop (99th percentile), as a share of the time per token.
        stall_timeout_s: Seconds without any byte from the server that end a load.
        drift_limit: Ratio of TPOT between the first and last third of a run at which it is void.
        salt: Makes the prompts of this launch differ from those of another launch on the same server.
    """

    server: Server
    vocabulary: int
    model_config: dict[str, Any] | None
    tensor_parallel: int
    gpus: tuple[str, ...] = ()
    client_lag_limit: float = LAG_LIMIT
    drift_limit: float = DRIFT_FATAL
    stall_timeout_s: float = STALL_TIMEOUT_S
    salt: str = ""


def death(server: Server, patience_s: float = 5.0) -> str | None:
    """Return why the server is no more, None where it lives; one that stopped answering is given a moment to end."""
    deadline = time.monotonic() + patience_s
    while (dead := server.alive()) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return dead
