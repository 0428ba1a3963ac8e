"""How many decode steps a trace holds, of how many requests, and how that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tpgate.trace.events import Kind, Trace

_GRAPH_KERNELS = 16
_COMMON_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Steps:
    """The engine steps in a trace.

    Attributes:
        count: Decode steps, or None where they cannot be told.
        batch: Mean requests a decode step, or None.
        extends: Prefill (EXTEND) steps among them.
        source: How it is known, in words.
    """

    count: int | None
    batch: float | None
    extends: int
    source: str

    @property
    def tokens(self) -> float | None:
        """Tokens that the decode steps brought, one a request and step; None where unknown."""
        return None if self.count is None or self.batch is None else self.count * self.batch


def find_steps(trace: Trace) -> Steps:
    """Return the steps of a trace: from the scheduler's annotations, else from graph launches, else from counts.

    The annotations on the GPU's time line come first: the host runs ahead, and its first and last annotation may
    belong to work outside of the window.
    """
    for found, where in ((trace.gpu_steps, "GPU"), (trace.host_steps, "host")):
        decodes = [step for step in found if step.stage == "DECODE"]
        extends = sum(step.stage in ("EXTEND", "PREFILL", "MIXED") for step in found)
        if decodes:
            batches = [step.batch for step in decodes if step.batch is not None]
            batch = sum(batches) / len(batches) if batches else None
            return Steps(len(decodes), batch, extends, f"step annotations on the {where}")
        if extends:
            return Steps(0, None, extends, f"step annotations on the {where}")
    launches = graph_launches(trace)
    if launches:
        return Steps(launches, None, 0, "launches of the largest CUDA graph")
    count = _common_divisor(trace)
    if count is not None:
        return Steps(count, None, 0, "greatest common divisor of the counts of its kernels")
    return Steps(None, None, 0, "no annotation, no graph launch, no common count")


def graph_launches(trace: Trace) -> int:
    """Return how often the most frequent large graph was launched: kernels of one launch share a correlation id."""
    kernel = (trace.kinds == Kind.KERNEL) & (trace.correlations >= 0)
    _, counts = np.unique(trace.correlations[kernel], return_counts=True)
    large = counts[counts >= _GRAPH_KERNELS]
    if not len(large):
        return 0
    sizes, often = np.unique(large, return_counts=True)
    return int(often[np.argmax(sizes * often)])


def graph_share(trace: Trace) -> float:
    """Return the share of kernels that came out of a graph launch (four or more of one correlation id)."""
    kernel = trace.kinds == Kind.KERNEL
    if not kernel.any():
        return 0.0
    ids = trace.correlations[kernel]
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return float(((counts[inverse] >= 4) & (ids >= 0)).mean())


def _common_divisor(trace: Trace) -> int | None:
    """Return the divisor common to the counts of all kernels that matter; None where it is 1 or there is none."""
    kernel = trace.kinds == Kind.KERNEL
    if not kernel.any():
        return None
    counts = np.bincount(trace.name_ids[kernel], minlength=len(trace.names))
    times = np.bincount(trace.name_ids[kernel], weights=trace.duration_ns[kernel], minlength=len(trace.names))
    matter = counts[times > _COMMON_SHARE * times.sum()]
    divisor = math.gcd(*(int(count) for count in matter)) if len(matter) else 1
    return divisor if divisor > 1 else None
