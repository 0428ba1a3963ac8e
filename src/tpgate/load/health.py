"""Whether a run may have measured its own client: doubts as plain values, with what to do about them."""

from __future__ import annotations

from tpgate.load.records import ClientHealth

CPU_LIMIT = 0.7
"""CPU share of the busiest client process above which it may have been the bottleneck: one thread has one core."""
LAG_LIMIT = 0.5
"""Largest 99th percentile of the loop's delay, as a share of the time per token."""
LAG_FLOOR_S = 0.001
"""A delay below this is never doubted."""
FREEZE_S = 0.25
"""A single delay above this is doubted, however rare: it moves throughput, and every latency of that moment."""
LATE_LIMIT = 0.05
"""Largest share of reads with more than one emission of a stream, where the loop was late as well."""

_ADVICE = "give the client more cores of its own (taskset, --client-processes), keep other work off the machine"

Finding = tuple[str, str, str]


def client_doubts(health: ClientHealth, tpot: float | None, lag_limit: float = LAG_LIMIT) -> list[Finding]:
    """Return (check, reason, advice) for every sign that the client, and not the server, may have set the pace.

    Reads that held several emissions are a sign only where the loop was late too (by a tenth of the time per token):
    a server that writes several events at once looks the same, and that is the server's doing.

    Args:
        health: The client's self-check of the run.
        tpot: Median time per output token in seconds; None where there is none.
        lag_limit: Largest 99th percentile of the loop's delay, as a share of the time per token.
    """
    found: list[Finding] = []
    if health.cpu_share > CPU_LIMIT:
        found.append(
            (
                "client_cpu",
                f"the client's busiest process used {health.cpu_share:.0%} of a core (limit {CPU_LIMIT:.0%})",
                f"use more client processes: {health.processes + 1} or more; {_ADVICE}",
            )
        )
    step = tpot or 0.0
    limit = max(LAG_FLOOR_S, lag_limit * step)
    if health.loop_lag_p99_s > limit:
        found.append(
            (
                "client_lag",
                f"the client's loop was {health.loop_lag_p99_s * 1e3:.1f} ms late at the 99th percentile "
                f"(limit {limit * 1e3:.1f} ms, {lag_limit:.0%} of the time per token)",
                _ADVICE,
            )
        )
    if health.loop_lag_max_s > FREEZE_S:
        found.append(
            (
                "client_freeze",
                f"the client stood still for {health.loop_lag_max_s:.2f} s (limit {FREEZE_S:g} s)",
                "look for swapping, a suspended machine or a blocking call in the test process; run again",
            )
        )
    if health.late_stamps > LATE_LIMIT and health.loop_lag_p99_s > max(LAG_FLOOR_S, 0.2 * lag_limit * step):
        found.append(
            (
                "client_late_stamps",
                f"{health.late_stamps:.1%} of the reads held more than one emission of a stream "
                f"(limit {LATE_LIMIT:.0%}) while the loop was late",
                _ADVICE,
            )
        )
    return found
