"""The true time of every step, by the part of the step that it is spent in. Pure; the scheduler and traces share it."""

from __future__ import annotations

from dataclasses import dataclass

from tpgate.server.standin.settings import Settings

SHARES: dict[str, float] = {
    "attention": 0.22,
    "moe": 0.28,
    "gemm": 0.22,
    "all_reduce": 0.12,
    "norm": 0.05,
    "routing": 0.03,
    "other": 0.02,
    "idle": 0.06,
}
"""Parts of a decode step without faults, as fractions of its time; they add up to 1."""

ALL_REDUCES_A_LAYER = 2
"""All-reduces a layer: after attention and after the experts."""

GAP_SLOWDOWN = 1.6
"""Idle time, as a multiple of the healthy step, that launching kernels one by one adds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the server.

    Attributes:
        kind: ``prefill`` or ``decode``.
        start_ns: Planned start on the monotonic clock.
        end_ns: Planned end; its tokens come out then.
        running: Requests in the batch.
        parts: For a decode step, seconds by part (see :data:`SHARES`); empty for a prefill.
    """

    kind: str
    start_ns: int
    end_ns: int
    running: int
    parts: dict[str, float]


def decode_parts(settings: Settings, running: int) -> dict[str, float]:
    """Return the seconds of a decode step of ``running`` requests by part, lasting faults included.

    With tensor parallelism 1 there is no all-reduce; its share counts as dense matrix products.
    """
    faults = settings.faults
    growth = settings.per_request_ms * (1 + faults.per_request_slower)
    healthy = (settings.step_ms + growth * running) / 1e3
    parts = {name: share * healthy for name, share in SHARES.items()}
    if settings.tp == 1:
        parts["gemm"] += parts.pop("all_reduce")
    for name, slower in (
        ("attention", faults.attention_slower),
        ("moe", faults.moe_slower),
        ("gemm", faults.gemm_slower),
        ("all_reduce", faults.all_reduce_slower),
    ):
        if name in parts:
            parts[name] *= 1 + slower
    parts = {name: seconds * (1 + faults.decode_slower) for name, seconds in parts.items()}
    if settings.tp > 1:
        each = parts["all_reduce"] / ALL_REDUCES_A_LAYER
        parts["all_reduce"] += each * faults.extra_all_reduce
        parts["wait"] = all_reduces(settings) * faults.straggler_us / 1e6
    parts["idle"] += faults.scheduler_sleep_ms / 1e3
    if faults.graphs_off:
        parts["gaps"] = GAP_SLOWDOWN * healthy
    return parts


def all_reduces(settings: Settings) -> int:
    """Return the all-reduces of one decode step; 0 with one rank."""
    if settings.tp == 1:
        return 0
    return settings.layers * (ALL_REDUCES_A_LAYER + settings.faults.extra_all_reduce)


def decode_seconds(settings: Settings, running: int) -> float:
    """Return the true seconds of a decode step of ``running`` requests, without stalls and cold steps."""
    return sum(decode_parts(settings, running).values())


def prefill_seconds(settings: Settings) -> float:
    """Return the true seconds of one prompt's prefill."""
    faults = settings.faults
    cached = 0.0 if settings.disable_radix_cache else faults.prefix_cache
    return settings.prefill_ms / 1e3 * (1 + faults.prefill_slower) * (1 - cached)


def decode_step(settings: Settings, running: int, number: int, seen: int) -> dict[str, float]:
    """Return the parts of the ``number``-th decode step (from 1), stalls and cold steps included.

    Args:
        settings: The settings.
        running: Requests in the batch.
        number: Number of the decode step since the server's start.
        seen: Decode steps of exactly this batch size before it.
    """
    faults = settings.faults
    parts = decode_parts(settings, running)
    if seen < faults.cold_steps:
        parts = {name: seconds * (1 + faults.cold_slower) for name, seconds in parts.items()}
    if faults.stall_every and number % faults.stall_every == 0:
        parts["idle"] += faults.stall_ms / 1e3
    return parts
