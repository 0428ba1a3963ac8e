"""The stored form of one capture: what is kept of it, shown and compared."""

from __future__ import annotations

import msgspec


class CategoryTime(msgspec.Struct, frozen=True, kw_only=True):
    """One category (or part): median over ranks.

    Attributes:
        share: Union / GPU busy time.
        seconds: Union in the capture.
        per_token_s: Union / tokens, or None where the tokens are not known.
        calls: Events in the capture.
    """

    share: float
    seconds: float
    per_token_s: float | None
    calls: int


class KernelTime(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel family on the rank whose busy time is the median."""

    family: str
    name: str
    category: str
    part: str
    calls: int
    seconds: float
    median_s: float
    share: float


class IdleTime(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time, median over ranks, by cause; see :class:`tpgate.trace.idle.Idle`."""

    seconds: float
    launch_bound_s: float
    queued_s: float
    unknown_s: float
    gaps: int
    median_s: float
    longest_s: float


class Collectives(msgspec.Struct, frozen=True, kw_only=True):
    """What the ranks' collectives cost; see :class:`tpgate.trace.merge.Merged`."""

    matched: int
    unmatched: int
    intrinsic_s: float
    wait_s: float
    wait_share: float
    skew_s: float
    straggler: str | None
    last: dict[str, int]
    rank_wait_s: dict[str, float]
    rank_communication_s: dict[str, float]
    families: list[dict[str, str | int | float]]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one capture that is kept.

    Attributes:
        ranks: Labels of the ranks.
        steps: Decode steps (median over ranks), or None.
        steps_source: How they were counted.
        batch: Requests a step, or None.
        batch_source: How it is known.
        tokens: Steps x batch, or None.
        extends: Prefill steps that were cut out.
        span_s: First start to last end, median over ranks.
        busy_s: GPU busy time.
        busy_share: Busy time / span.
        overlap: Sum of durations / busy time.
        kernels: Kernels in the capture.
        graph_share: Share of kernels launched by a CUDA graph.
        categories: Category to its time.
        parts: ``category/part`` to its time.
        fused_s: Category to time of kernels that do its work inside another's.
        exposed_s: Communication runs and no compute, median over ranks.
        idle: Idle time by cause.
        collectives: Over ranks; None with one rank.
        top: Kernel families, longest first.
        unclassified: (name, share of busy time), longest first.
        rank_busy_s: GPU busy time of each rank.
        spread: For each of busy_share, attention and communication share: (least, most) over ranks.
        taxonomy: Digest of the rules.
        device: Name of the GPU, or None.
        notes: What a reader should know.
    """

    ranks: list[str]
    steps: int | None
    steps_source: str
    batch: float | None
    batch_source: str
    tokens: float | None
    extends: int
    span_s: float
    busy_s: float
    busy_share: float
    overlap: float
    kernels: int
    graph_share: float
    categories: dict[str, CategoryTime]
    parts: dict[str, CategoryTime]
    fused_s: dict[str, float]
    exposed_s: float
    idle: IdleTime
    collectives: Collectives | None
    top: list[KernelTime]
    unclassified: list[tuple[str, float]]
    rank_busy_s: dict[str, float]
    spread: dict[str, tuple[float, float]]
    taxonomy: str
    device: str | None
    notes: list[str]

    def per_token(self, seconds: float) -> float | None:
        """Return seconds / tokens, or None where the tokens are not known."""
        return seconds / self.tokens if self.tokens else None
