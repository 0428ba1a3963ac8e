"""Cuts prefill steps out of a capture of decode steps, where the scheduler's annotations say which is which."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpgate.trace.events import Ints, Launches, Trace


def without_prefill(trace: Trace) -> tuple[Trace, int]:
    """Return the trace without its prefill steps, as if they had taken no time, and the ns that were cut out.

    A step reaches from its first kernel to the first kernel of the next step, so the idle time behind a step is its
    own. Events and launches after a cut move forward by it; those inside are dropped. A trace without annotated
    prefill steps on the GPU's time line, or without decode steps, is returned as it is.
    """
    steps = sorted(trace.gpu_steps, key=lambda step: step.start_ns)
    stages = {step.stage for step in steps}
    if stages <= {"DECODE"} or "DECODE" not in stages:
        return trace, 0
    begins = np.array([step.start_ns for step in steps], dtype=np.int64)
    last = steps[-1]
    end_of_last = int(trace.end_ns.max()) + 1 if last.stage != "DECODE" else last.start_ns + last.duration_ns
    ends = np.append(begins[1:], end_of_last)
    cut = np.array([step.stage != "DECODE" for step in steps])
    starts, stops = begins[cut], ends[cut]
    keep = ~_inside(trace.start_ns, starts, stops)
    moved = _moved(trace.start_ns[keep], starts, stops)
    return (
        replace(
            trace,
            name_ids=trace.name_ids[keep],
            kinds=trace.kinds[keep],
            start_ns=moved,
            duration_ns=trace.duration_ns[keep],
            streams=trace.streams[keep],
            devices=trace.devices[keep],
            correlations=trace.correlations[keep],
            launches=Launches(
                trace.launches.ids,
                _moved(trace.launches.starts, starts, stops),
                _moved(trace.launches.ends, starts, stops),
            ),
        ),
        int((stops - starts).sum()),
    )


def _inside(times: Ints, starts: Ints, stops: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    at = np.searchsorted(starts, times, side="right") - 1
    return (at >= 0) & (times < stops[np.maximum(at, 0)])


def _moved(times: Ints, starts: Ints, stops: Ints) -> Ints:
    """Map times to a clock that stands still during the cuts."""
    before = np.concatenate(([0], np.cumsum(stops - starts)))
    at = np.searchsorted(starts, times, side="right")
    inside = _inside(times, starts, stops)
    moved = times - before[at]
    moved[inside] = starts[at[inside] - 1] - before[at[inside] - 1]
    return moved
