"""The scheduler: which step runs when, on an absolute schedule. Pure apart from its own state; the clock is given."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tpgate.server.standin.settings import Settings
from tpgate.server.standin.steps import Step, decode_step, prefill_seconds


@dataclass(slots=True, eq=False)
class Job:
    """One request inside the scheduler.

    Attributes:
        limit: Output tokens after which it is finished.
        arrived_ns: When it arrived, monotonic.
        emit: Called with (job, planned ns) for every token; ``job.tokens`` already counts it.
        tokens: Output tokens so far.
        first_ns: Planned time of the first token.
        last_ns: Planned time of the latest token.
    """

    limit: int
    arrived_ns: int
    emit: Callable[[Job, int], None]
    tokens: int = 0
    first_ns: int = 0
    last_ns: int = 0

    @property
    def finished(self) -> bool:
        """Whether all its tokens are out."""
        return self.tokens >= self.limit


@dataclass(slots=True)
class Scheduler:
    """Prefill first, one prompt after the other; else one decode step for all running requests.

    A step starts at the planned end of the one before it, not at the moment when somebody looked: lateness of the host
    delays what is sent, never the plan.
    """

    settings: Settings
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    free_ns: int = 0
    decode_steps: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    step: Step | None = None
    frozen: bool = False
    _prefilled: Job | None = None

    @property
    def busy(self) -> bool:
        """Whether any request waits or runs."""
        return bool(self.waiting or self.running or self._prefilled)

    @property
    def due_ns(self) -> int | None:
        """When the current step ends, or None where nothing runs."""
        return None if self.step is None or self.frozen else self.step.end_ns

    def submit(self, job: Job) -> None:
        """Queue a request; its ``arrived_ns`` decides which step may take it."""
        self.waiting.append(job)
        if self.step is None:
            self._plan()

    def cancel(self, job: Job) -> None:
        """Forget a request whose client has gone."""
        if job in self.waiting:
            self.waiting.remove(job)
        elif job in self.running:
            self.running.remove(job)
        elif job is self._prefilled:
            job.limit = min(job.limit, job.tokens)

    def hold(self, nanoseconds: int) -> None:
        """Let the server stand still between two steps, as it does while it writes a trace."""
        if self.step is None:
            self.free_ns += nanoseconds
            return
        moved = self.step
        self.step = Step(
            moved.kind, moved.start_ns + nanoseconds, moved.end_ns + nanoseconds, moved.running, moved.parts
        )

    def advance(self, now_ns: int) -> Iterator[Step]:
        """Carry out every step that ends up to ``now_ns``, emit its tokens and yield it."""
        while self.step is not None and not self.frozen and self.step.end_ns <= now_ns:
            done = self.step
            self.step = None
            self.free_ns = done.end_ns
            self._finish(done)
            self._plan()
            yield done

    def _plan(self) -> None:
        cap = self.settings.max_running_requests
        room = len(self.running) < min(cap, self.settings.faults.max_running or cap)
        if not self.running and self.waiting:
            self.free_ns = max(self.free_ns, self.waiting[0].arrived_ns)
        start = self.free_ns
        if room and self.waiting and self.waiting[0].arrived_ns <= start:
            self._prefilled = self.waiting.popleft()
            self.step = Step("prefill", start, start + _ns(prefill_seconds(self.settings)), 1, {})
        elif self.running:
            size = len(self.running)
            parts = decode_step(self.settings, size, self.decode_steps + 1, self.sizes[size])
            self.step = Step("decode", start, start + _ns(sum(parts.values())), size, parts)

    def _finish(self, done: Step) -> None:
        if done.kind == "prefill":
            batch = [self._prefilled] if self._prefilled is not None else []
            self._prefilled = None
            self.running.extend(job for job in batch if job.limit > 0)
        else:
            batch = list(self.running)
            self.decode_steps += 1
            self.sizes[done.running] += 1
        for job in batch:
            if job.limit == 0:
                continue
            job.tokens += 1
            job.first_ns = job.first_ns or done.end_ns
            job.last_ns = done.end_ns
            job.emit(job, done.end_ns)
        self.running = [job for job in self.running if not job.finished]


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
