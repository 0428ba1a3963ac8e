"""The record of one request, as it was seen by the client."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import orjson

OK = "ok"
"""Outcome of a request that brought the asked-for number of tokens and a proper end of stream."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request. All times are monotonic nanoseconds (``time.perf_counter_ns``) on the client's clock.

    Attributes:
        index: Position in the order of issue, from 0, over warm-up and measured requests.
        warmup: Issued as warm-up.
        scheduled_ns: When it was to be sent (open loop); equals ``started_ns`` in a closed loop.
        started_ns: Just before the first byte was written on an open connection.
        chunk_ns: Arrival of every token-bearing chunk; read-only memoryview of int64, length k.
        chunk_tokens: Cumulative output tokens as the server counts them, at those chunks; read-only memoryview of
            int32, length k, strictly increasing.
        ended_ns: When the stream ended, or the request failed.
        input_tokens: Prompt tokens as the server counts them; None if it did not say.
        cached_tokens: Prompt tokens taken from a prefix cache; None if it did not say.
        reasoning_tokens: Part of the output tokens that was reasoning; None if it did not say.
        output_tokens: Output tokens as the server counts them at the end of the stream.
        arrived_tokens: Output tokens that were seen to arrive (ids or counted text); None where the API shows none.
        finish_reason: The server's reason, such as ``length``.
        outcome: ``ok``, or a short reason why the request failed.
    """

    index: int
    warmup: bool
    scheduled_ns: int
    started_ns: int
    chunk_ns: memoryview
    chunk_tokens: memoryview
    ended_ns: int
    output_tokens: int
    input_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    arrived_tokens: int | None = None
    finish_reason: str | None = None
    outcome: str = OK

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.outcome == OK

    @property
    def ttft_ns(self) -> int | None:
        """First token-bearing chunk minus the start, or None where no token came."""
        return self.chunk_ns[0] - self.started_ns if len(self.chunk_ns) else None

    @property
    def e2e_ns(self) -> int | None:
        """Last token-bearing chunk minus the start, or None where no token came."""
        return self.chunk_ns[-1] - self.started_ns if len(self.chunk_ns) else None

    @property
    def tpot_ns(self) -> float | None:
        """(t_last - t_first) / (n_last - n_first) over token-bearing chunks; None with fewer than two of them."""
        if len(self.chunk_ns) < 2:
            return None
        return (self.chunk_ns[-1] - self.chunk_ns[0]) / (self.chunk_tokens[-1] - self.chunk_tokens[0])


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """What the client observed about itself while it drove one cell; the self-check of the load generator.

    Attributes:
        loop_lag_p99_s: 99th percentile of the delay of a periodic timer on the client's event loop.
        loop_lag_max_s: The largest delay.
        cpu_share: CPU seconds of the client's busiest process per wall second, 0 to 1.
        cpu_seconds_per_token: CPU time of all client processes per output token.
        late_stamps: Share of socket reads that held more than one emission of the same stream.
        processes: Client processes.
    """

    loop_lag_p99_s: float
    loop_lag_max_s: float
    cpu_share: float
    cpu_seconds_per_token: float | None
    late_stamps: float
    processes: int = 1


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Everything that one cell's load brought back.

    Attributes:
        records: One record a request, in order of issue.
        started_ns: Monotonic time at which the load began.
        ended_ns: Monotonic time at which it ended.
        wall_start_unix_ns: Wall clock at ``started_ns``; a label and the join with telemetry, never an interval.
        health: The client's self-check.
        stalled: Why the load was ended early (no token for a deadline, server gone), or None.
    """

    records: tuple[RequestRecord, ...]
    started_ns: int
    ended_ns: int
    wall_start_unix_ns: int
    health: ClientHealth
    stalled: str | None = None


def write_records(path: Path, result: LoadResult) -> None:
    """Write the request records as gzipped JSON lines, atomically; times in ns since the load began."""
    began = result.started_ns
    partial = path.with_name(path.name + ".part")
    with gzip.open(partial, "wb", compresslevel=1) as file:
        head = {"wall_start_unix_ns": result.wall_start_unix_ns, "stalled": result.stalled}
        file.write(orjson.dumps(head) + b"\n")
        for record in result.records:
            row = {name: getattr(record, name) for name in record.__slots__ if not name.startswith("chunk_")}
            for name in ("scheduled_ns", "started_ns", "ended_ns"):
                row[name] -= began
            row["chunk_ns"] = [at - began for at in record.chunk_ns]
            row["chunk_tokens"] = list(record.chunk_tokens)
            file.write(orjson.dumps(row) + b"\n")
    partial.replace(path)
