"""Collectives at decode message sizes: what is asked for, and what came out. No torch is needed to name a case."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tpgate.errors import ConfigError

Operation = Literal["all-reduce", "all-gather"]
Backend = Literal["nccl", "gloo", "sglang-custom"]
BYTES = 2
"""Bytes of one bfloat16 element."""

_NAME = re.compile(
    r"(?P<operation>all-reduce|all-gather)-d(?P<hidden>\d+)-b(?P<batch>\d+)-n(?P<ranks>\d+)-(?P<backend>.+)"
)


@dataclass(frozen=True, slots=True, order=True)
class CollectiveCase:
    """One collective of a decode step.

    Attributes:
        operation: What the ranks do together.
        hidden: Elements a token.
        batch: Tokens in the step.
        ranks: Ranks that take part, 2 or more.
        backend: Who moves the data.
    """

    operation: Operation
    hidden: int
    batch: int
    ranks: int
    backend: Backend

    def __post_init__(self) -> None:
        if self.ranks < 2 or min(self.hidden, self.batch) < 1:
            raise ConfigError(f"collective case {self.name}", expected="2 ranks or more, hidden and batch 1 or more")
        if self.operation == "all-gather" and self.hidden % self.ranks:
            raise ConfigError(f"collective case {self.name}", expected="a hidden size that the ranks divide")
        if self.backend == "sglang-custom" and self.operation != "all-reduce":
            raise ConfigError(f"collective case {self.name}", expected="all-reduce: SGLang's own does nothing else")

    @property
    def name(self) -> str:
        """Name of the cell, such as ``all-reduce-d7168-b16-n4-nccl``."""
        return f"{self.operation}-d{self.hidden}-b{self.batch}-n{self.ranks}-{self.backend}"

    @property
    def message_bytes(self) -> int:
        """Bytes of the result on each rank: ``hidden x batch x 2``; an all-gather's ranks bring ``1 / ranks`` each."""
        return self.hidden * self.batch * BYTES

    @property
    def bus_factor(self) -> float:
        """Share of the message that each rank must send at least, as nccl-tests counts: 2(n-1)/n, or (n-1)/n."""
        share = (self.ranks - 1) / self.ranks
        return 2 * share if self.operation == "all-reduce" else share


@dataclass(frozen=True, slots=True)
class CollectiveTiming:
    """How long a collective took.

    Attributes:
        case: What was measured.
        samples_s: Seconds a call; of each sample, the slowest rank's.
        calls: Calls a sample, back to back.
        method: ``graph``, ``events`` or ``host``.
    """

    case: CollectiveCase
    samples_s: tuple[float, ...]
    calls: int
    method: str

    @property
    def latency_s(self) -> float:
        """Median seconds a call."""
        return median(self.samples_s)

    @property
    def bus_bytes_per_s(self) -> float:
        """Bus bandwidth: message x bus factor / latency."""
        return self.case.message_bytes * self.case.bus_factor / self.latency_s


def parse_collective(name: str) -> CollectiveCase:
    """Return the case called ``name``.

    Raises:
        ConfigError: The name is not of that form, or the case makes no sense.
    """
    found = _NAME.fullmatch(name)
    if found is None or found["backend"] not in ("nccl", "gloo", "sglang-custom"):
        raise ConfigError(f"collective case {name!r}", expected="a name such as all-reduce-d7168-b16-n4-nccl")
    operation: Operation = "all-gather" if found["operation"] == "all-gather" else "all-reduce"
    backend: Backend = found["backend"]  # type: ignore[assignment]
    return CollectiveCase(operation, int(found["hidden"]), int(found["batch"]), int(found["ranks"]), backend)
