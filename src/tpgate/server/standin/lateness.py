"""How late the stand-in was: planned against real time of everything it sent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

KEPT = 20_000


@dataclass(slots=True)
class Lateness:
    """The latest :data:`KEPT` steps' lateness in nanoseconds, and the truth of the latest requests."""

    steps: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def clear(self) -> None:
        """Forget everything so far."""
        self.steps.clear()
        self.requests.clear()

    def summary(self) -> dict[str, float | int | None]:
        """Return count, median, 99th percentile and maximum (seconds) of the lateness; None where no step ran."""
        values = sorted(self.steps)
        if not values:
            return {"steps": 0, "late_p50_s": None, "late_p99_s": None, "late_max_s": None}
        return {
            "steps": len(values),
            "late_p50_s": values[len(values) // 2] / 1e9,
            "late_p99_s": values[min(len(values) - 1, len(values) * 99 // 100)] / 1e9,
            "late_max_s": values[-1] / 1e9,
        }
