"""Warming up for one concurrency, until it takes no longer the second time.

The first batches at a size compile kernels, fill caches and grow pools; the first of five identical runs was seen to be
many times slower than the others. Short waves are driven until one takes about as long as the one before it. The cell's
own warm-up requests come after the cache flush and are handed over without draining; these come before it.
"""

from __future__ import annotations

import dataclasses

from tpgate.load.generator import drive
from tpgate.load.job import INTERRUPTED
from tpgate.measure.target import Progress, Target
from tpgate.specs import LoadSpec

TOKENS = 16
"""Output tokens of a warming request, at most."""
ROUNDS = 6
"""Waves at most; what still moves after them is for the stationarity check to find."""
CLOSE = 1.25
"""Ratio of two waves' durations under which the second is as warm as it gets."""


def warm(target: Target, load: LoadSpec, *, processes: int, progress: Progress) -> int:
    """Drive short waves at the cell's concurrency until they take equally long; return the requests spent.

    Args:
        target: The server and its model.
        load: The cell.
        processes: Client processes.
        progress: Told how long the first and the last wave took.
    """
    wave = dataclasses.replace(
        load,
        requests=load.concurrency,
        warmup_requests=load.concurrency,
        output_tokens=min(load.output_tokens, TOKENS),
        rate=None,
    )
    seconds: list[float] = []
    for number in range(ROUNDS):
        salt = f"{target.salt}warm{number}"
        result = drive(
            target.server.url,
            wave,
            vocabulary=target.vocabulary,
            salt=salt,
            processes=processes,
            stall_timeout_s=target.stall_timeout_s,
        )
        if result.stalled == INTERRUPTED:
            raise KeyboardInterrupt
        seconds.append((result.ended_ns - result.started_ns) / 1e9)
        if result.stalled or (number and max(seconds[-2:]) < CLOSE * min(seconds[-2:])):
            break
    progress(f"{load.cell}: warm after {len(seconds)} waves ({seconds[0]:.2f} s, then {seconds[-1]:.2f} s)")
    return len(seconds) * (wave.requests + wave.warmup_requests)
