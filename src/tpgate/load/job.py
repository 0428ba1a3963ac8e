"""What one client process is to do, and what it brings back."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from tpgate.errors import LoadError
from tpgate.load.engines import engine_of
from tpgate.load.prompts import prompt_ids
from tpgate.load.records import RequestRecord
from tpgate.specs import LoadSpec

Progress = Callable[[int, int], None]
INTERRUPTED = "interrupted"
"""``LoadResult.stalled`` of a load that Ctrl-C ended: what had come in by then is kept."""


@dataclass(frozen=True, slots=True)
class Job:
    """The part of a cell that one process drives: requests ``first``, ``first + step``, ... below the total.

    Attributes:
        url: Base URL of the server.
        load: The whole cell.
        vocabulary: Size of the model's vocabulary.
        salt: Salt of the prompts.
        model: Model name for the OpenAI-compatible endpoints.
        first: First index of this process.
        step: Number of processes.
        connections: Connections of this process.
        stall_timeout_s: Seconds without a byte from any stream after which the load ends, or from one stream that had
            begun after which that request fails.
        request_timeout_s: Seconds that one request may take.
    """

    url: str
    load: LoadSpec
    vocabulary: int
    salt: str
    model: str
    first: int
    step: int
    connections: int
    stall_timeout_s: float
    request_timeout_s: float

    @property
    def total(self) -> int:
        """Requests of the whole cell, warm-up included."""
        return self.load.warmup_requests + self.load.requests

    @property
    def indices(self) -> range:
        """Indices that this process drives."""
        return range(self.first, self.total, self.step)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        return address_of(self.url)

    def request(self, index: int) -> bytes:
        """Return the bytes of request ``index``, head and body."""
        engine = engine_of(self.load.api)
        ids = prompt_ids(self.load, index, vocabulary=self.vocabulary, salt=self.salt)
        body = engine.body(self.load, ids, self.model)
        host, port = self.address
        path = urlsplit(self.url).path.rstrip("/") + engine.path
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: text/event-stream\r\nX-Request-Id: tpgate-{index}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(slots=True)
class Share:
    """What one process brought back; the parts of several are merged exactly.

    Attributes:
        records: Its records, by index.
        started_ns: When it began.
        ended_ns: When its last answer ended.
        lags_ns: Delays of its loop.
        cpu_share: CPU seconds per wall second while the load ran.
        cpu_ns: CPU time of it all, parsing included.
        token_reads: Socket reads that held at least one token-bearing event.
        late_reads: Those that held more than one.
        stalled: Why it ended early, or None.
    """

    records: list[RequestRecord]
    started_ns: int
    ended_ns: int
    lags_ns: array[int]
    cpu_share: float
    cpu_ns: int
    token_reads: int
    late_reads: int
    stalled: str | None


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of an http URL.

    Raises:
        LoadError: It is not an http URL with a host.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port:
        raise LoadError(
            f"server URL {url!r}",
            expected="http://HOST:PORT (the client measures on a plain connection)",
            next_step="pass the server's own address, not that of a TLS proxy",
        )
    return parts.hostname, port
