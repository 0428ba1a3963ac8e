"""Where one rank's GPU time went: categories, communication, idle and its cause, kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpgate.trace.events import Ints, Kind, Trace
from tpgate.trace.idle import Idle, find_idle
from tpgate.trace.intervals import Intervals, exclusive, union
from tpgate.trace.steps import Steps, find_steps, graph_share
from tpgate.trace.taxonomy import CATEGORIES, UNCLASSIFIED, Category, Taxonomy, default

_TOP = 20


@dataclass(frozen=True, slots=True)
class Part:
    """A category (or a part of one) on one rank.

    Attributes:
        busy_s: Union of its intervals over all streams.
        sum_s: Sum of its durations.
        calls: Events.
    """

    busy_s: float
    sum_s: float
    calls: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """All launches of one kernel family.

    Attributes:
        family: Its normalised name.
        name: One full name of it.
        category: Its category.
        part: Its part of the category, or empty.
        calls: Launches.
        sum_s: Sum of their durations.
        median_s: Median duration.
        max_s: The longest.
    """

    family: str
    name: str
    category: str
    part: str
    calls: int
    sum_s: float
    median_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the time went on one rank. A share is a union over the GPU busy time and never above 1.

    Attributes:
        label: Which rank.
        span_s: First start to last end of all GPU events.
        busy_s: Union of all GPU events over all streams.
        sum_s: Sum of their durations; above ``busy_s`` where streams overlap.
        kernels: Kernels.
        categories: Category name to its part, every category present.
        parts: ``category/part`` to its part, for parts that have a name.
        fused_s: Category to the time of kernels that do its work among another's.
        exposed_communication_s: A communication kernel runs, and no compute kernel.
        idle: Idle time and its causes.
        steps: Engine steps in the trace.
        graph_share: Share of kernels launched by a CUDA graph.
        top: Kernel families, longest first.
        unclassified: Names no rule knows, with their share of busy time, longest first.
    """

    label: str
    span_s: float
    busy_s: float
    sum_s: float
    kernels: int
    categories: dict[str, Part]
    parts: dict[str, Part]
    fused_s: dict[str, float]
    exposed_communication_s: float
    idle: Idle
    steps: Steps
    graph_share: float
    top: tuple[Kernel, ...]
    unclassified: tuple[tuple[str, float], ...]

    @property
    def idle_s(self) -> float:
        """Time in the span without any GPU event."""
        return self.span_s - self.busy_s

    @property
    def busy_share(self) -> float:
        """Busy time / span."""
        return self.busy_s / self.span_s if self.span_s else 0.0

    def share(self, category: str) -> float:
        """Return the category's (or ``category/part``'s) union / busy time, 0 to 1."""
        part = self.categories.get(category) or self.parts.get(category)
        return part.busy_s / self.busy_s if part and self.busy_s else 0.0

    def busy(self, category: str) -> float:
        """Return the union of a category (or ``category/part``) in seconds, 0 where it has no kernel."""
        part = self.categories.get(category) or self.parts.get(category)
        return part.busy_s if part else 0.0


def break_down(trace: Trace, taxonomy: Taxonomy | None = None) -> Breakdown:
    """Return where the time of one rank's trace went; an empty trace gives zeros, which callers must not judge."""
    taxonomy = taxonomy or default()
    classes = [_category(taxonomy, name) for name in trace.names]
    position = {name: index for index, name in enumerate(CATEGORIES)}
    category_of = np.array([position[c.name] for c in classes], dtype=np.int64)
    categories = category_of[trace.name_ids] if len(trace) else np.zeros(0, dtype=np.int64)
    everything = union(trace.start_ns, trace.end_ns)
    masks = {name: categories == index for name, index in position.items()}
    unions = {name: _union(trace, mask) for name, mask in masks.items()}
    compute = (trace.kinds == Kind.KERNEL) & ~masks["communication"]
    return Breakdown(
        label=trace.label,
        span_s=_seconds(int(trace.end_ns.max() - trace.start_ns[0])) if len(trace) else 0.0,
        busy_s=_seconds(everything.length),
        sum_s=_seconds(int(trace.duration_ns.sum())),
        kernels=trace.kernels,
        categories={name: _part(trace, masks[name], unions[name]) for name in CATEGORIES},
        parts=_parts(trace, classes),
        fused_s=_fused(trace, classes),
        exposed_communication_s=_seconds(exclusive(unions["communication"], _union(trace, compute))),
        idle=find_idle(trace, everything),
        steps=find_steps(trace),
        graph_share=graph_share(trace),
        top=_kernels(trace, classes),
        unclassified=_unclassified(trace, classes, everything.length),
    )


def _category(taxonomy: Taxonomy, name: str) -> Category:
    return taxonomy.classify(name)


def _seconds(ns: float) -> float:
    return ns / 1e9


def _union(trace: Trace, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Intervals:
    starts = trace.start_ns[mask]
    return union(starts, starts + trace.duration_ns[mask])


def _part(trace: Trace, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], found: Intervals) -> Part:
    return Part(_seconds(found.length), _seconds(int(trace.duration_ns[mask].sum())), int(mask.sum()))


def _parts(trace: Trace, classes: list[Category]) -> dict[str, Part]:
    keys = sorted({f"{c.name}/{c.part}" for c in classes if c.part})
    parts = {}
    for key in keys:
        wanted = [index for index, c in enumerate(classes) if f"{c.name}/{c.part}" == key]
        mask = np.isin(trace.name_ids, wanted)
        parts[key] = _part(trace, mask, _union(trace, mask))
    return parts


def _fused(trace: Trace, classes: list[Category]) -> dict[str, float]:
    times = _per_name(trace, trace.duration_ns)
    fused: dict[str, float] = {}
    for index, category in enumerate(classes):
        for other in category.fused:
            fused[other] = fused.get(other, 0.0) + _seconds(float(times[index]))
    return fused


def _per_name(trace: Trace, weights: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.bincount(trace.name_ids, weights=weights, minlength=len(trace.names)).astype(np.float64)


def _kernels(trace: Trace, classes: list[Category]) -> tuple[Kernel, ...]:
    """Group by family and category, longest first; all of them, as a diff needs the rest too."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, category in enumerate(classes):
        groups.setdefault((category.name, category.family), []).append(index)
    order = np.argsort(trace.name_ids, kind="stable")
    bounds = np.searchsorted(trace.name_ids[order], np.arange(len(classes) + 1))
    found = []
    for (name, family), members in groups.items():
        durations = np.concatenate([trace.duration_ns[order[bounds[m] : bounds[m + 1]]] for m in members])
        if not len(durations):
            continue
        longest = max(members, key=lambda m: bounds[m + 1] - bounds[m])
        found.append(
            Kernel(
                family=family,
                name=trace.names[longest],
                category=name,
                part=classes[longest].part,
                calls=len(durations),
                sum_s=_seconds(int(durations.sum())),
                median_s=_seconds(float(np.median(durations))),
                max_s=_seconds(int(durations.max())),
            )
        )
    return tuple(sorted(found, key=lambda kernel: (-kernel.sum_s, kernel.family)))


def _unclassified(trace: Trace, classes: list[Category], busy_ns: int) -> tuple[tuple[str, float], ...]:
    times = _per_name(trace, trace.duration_ns)
    found = [
        (trace.names[i], float(times[i]) / busy_ns) for i, c in enumerate(classes) if c.name == UNCLASSIFIED and busy_ns
    ]
    return tuple(sorted(found, key=lambda row: -row[1])[:_TOP])
