"""Timing of device work: rotated inputs, graph replay, events, warm-up apart, the median of many."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from tpgate.errors import ConfigError

Call = Callable[[], object]
WARMUP_S = 0.05
"""Seconds of untimed work before the first sample, so that compilation and clocks are past."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call, from repeated samples.

    Attributes:
        samples_s: Seconds a call of each sample; a sample is one pass over all rotated inputs.
        calls: Calls a sample.
        rotated_bytes: Bytes that the rotated inputs hold together, or None where unknown.
        method: ``graph``, ``events`` or ``host``.
        clock_hz: Multiprocessor clock read right behind the samples, or None where it cannot be read.
    """

    samples_s: tuple[float, ...]
    calls: int
    method: str
    rotated_bytes: int | None = None
    clock_hz: float | None = None

    @property
    def median_s(self) -> float:
        """Median seconds a call."""
        return median(self.samples_s)

    @property
    def spread(self) -> float:
        """Median absolute deviation over the median."""
        middle = self.median_s
        return median(abs(sample - middle) for sample in self.samples_s) / middle


def rotations(bytes_each: int, device: str, most: int = 64) -> int:
    """Return how many input sets must take turns so that none is found in the L2: three times its size together."""
    if torch.device(device).type != "cuda":
        return 1
    cache = int(torch.cuda.get_device_properties(device).L2_cache_size)
    return max(2, min(most, -(-3 * cache // bytes_each)))


def time_calls(
    calls: Sequence[Call],
    *,
    device: str,
    samples: int = 25,
    graph: bool = True,
    rotated_bytes: int | None = None,
    repeat: int = 1,
    warmups: int | None = None,
) -> Timing:
    """Time ``calls`` (one a rotated input set), all of them in turn a sample.

    Args:
        calls: What to time; each launches device work and returns without waiting.
        device: Torch device; ``cpu`` is timed by the host's clock.
        samples: Samples to take.
        graph: Whether to capture one pass in a CUDA graph and time its replays, which shrinks the launch gaps.
        rotated_bytes: Noted in the result.
        repeat: Passes over ``calls`` a sample.
        warmups: Untimed samples first; by default as many as fill :data:`WARMUP_S`. Ranks that work together need a
            fixed number.

    Raises:
        ConfigError: There is nothing to time.
    """
    if not calls or samples < 1 or repeat < 1:
        raise ConfigError(f"{len(calls)} calls, {samples} samples, {repeat} passes", expected="at least one of each")

    def once() -> None:
        for _ in range(repeat):
            for call in calls:
                call()

    if torch.device(device).type != "cuda":
        for _ in range(warmups or 1):
            once()
        taken = [_host(once) for _ in range(samples)]
        method, clock = "host", None
    else:
        run = _captured(once, device) if graph else once
        _warm(run, warmups)
        taken = _events(run, samples)
        method, clock = ("graph" if graph else "events"), clock_hz(device)
    each = len(calls) * repeat
    return Timing(tuple(t / each for t in taken), each, method, rotated_bytes, clock)


def clock_hz(device: str) -> float | None:
    """Return the multiprocessor clock as the driver tells it now, or None where it cannot be read."""
    try:
        return float(torch.cuda.clock_rate(torch.device(device))) * 1e6
    except (RuntimeError, ModuleNotFoundError, AttributeError):
        return None


def _host(once: Call) -> float:
    start = time.perf_counter()
    once()
    return time.perf_counter() - start


def _captured(once: Call, device: str) -> Call:
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        once()
    torch.cuda.current_stream(device).wait_stream(side)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    replay: Call = graph.replay
    return replay


def _warm(run: Call, times: int | None) -> None:
    if times is not None:
        for _ in range(times):
            run()
        torch.cuda.synchronize()
        return
    start = time.perf_counter()
    while time.perf_counter() - start < WARMUP_S:
        run()
        torch.cuda.synchronize()


def _events(run: Call, samples: int) -> list[float]:
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(samples)]
    for start, end in pairs:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in pairs]
