"""The stand-in itself: routes requests, drives the scheduler by an exact timer, keeps counters and lateness."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs

import orjson

from tpgate.server.standin import pages
from tpgate.server.standin.answers import Answer
from tpgate.server.standin.asks import Api, Ask, BadAskError, ask_of
from tpgate.server.standin.counters import Counters
from tpgate.server.standin.events import Writer
from tpgate.server.standin.http import Connection, HttpRequest
from tpgate.server.standin.lateness import Lateness
from tpgate.server.standin.profile import Profile
from tpgate.server.standin.scheduler import Job, Scheduler
from tpgate.server.standin.script import script_of
from tpgate.server.standin.settings import Settings
from tpgate.server.standin.steps import Step
from tpgate.server.standin.timer import ExactTimer

_APIS: dict[str, Api] = {"/generate": "generate", "/v1/completions": "completions", "/v1/chat/completions": "chat"}
_LOG_LINE = "standin: " + "x" * 118 + "\n"


class Standin:
    """One scripted server; needs a running event loop.

    Args:
        settings: How it behaves.
        shown: SGLang arguments that were given and change nothing, shown in /server_info.
    """

    def __init__(self, settings: Settings, shown: dict[str, str] | None = None) -> None:
        self.settings = settings
        self.shown = shown or {}
        self.scheduler = Scheduler(settings)
        self.counters = Counters()
        self.lateness = Lateness()
        self.profile: Profile | None = None
        self.answered = 0
        self.started_unix = time.time()
        self._numbered = 0
        self._answers: dict[Job, Answer] = {}
        self._flushes: list[tuple[Connection, int]] = []
        self._timer = ExactTimer(self._tick)

    def connect(self) -> Connection:
        """Return the protocol of a new client connection."""
        return Connection(self.handle)

    def handle(self, request: HttpRequest, connection: Connection) -> None:
        """Answer one request, now or token by token."""
        if request.path in _APIS:
            self._generate(request, connection, _APIS[request.path])
        elif request.path == "/start_profile":
            self._start_profile(request, connection)
        elif request.path == "/stop_profile":
            self._write_profile()
            connection.answer(200, b"Stop profiling. This will take some time.\n", "text/plain")
        elif request.path == "/flush_cache":
            self._flush(request, connection)
        else:
            pages.answer(self, request.path, connection)

    def _generate(self, request: HttpRequest, connection: Connection, api: Api) -> None:
        try:
            ask = ask_of(api, orjson.loads(request.body))
        except (orjson.JSONDecodeError, BadAskError, AttributeError) as error:
            connection.answer_json({"error": {"message": str(error), "type": "BadRequestError", "code": 400}}, 400)
            return
        faults = self.settings.faults
        if ask.limit > 1:
            self._numbered += 1
        if faults.never_ready:
            return
        if faults.hang_after_requests and self._numbered > faults.hang_after_requests:
            self.scheduler.frozen = True
        script = script_of(faults, self._numbered if ask.limit > 1 else 0, ask.limit)
        if ask.limit > 1 and script.refuse:
            connection.answer_json({"error": {"message": "scripted refusal", "code": 503}}, 503)
            return
        cached = 0 if self.settings.disable_radix_cache else int(ask.prompt_tokens * faults.prefix_cache)
        writer = Writer(self.settings, ask, self._numbered, cached)
        answer = Answer(self._numbered, ask, script, writer, connection, cached, self.settings.stream_interval)
        job = Job(script.limit, time.monotonic_ns(), self._token)
        self._answers[job] = answer
        connection.on_lost = lambda: self._lost(job)
        answer.open()
        self.scheduler.submit(job)
        self._rearm()

    def _token(self, job: Job, planned_ns: int) -> None:
        answer = self._answers.get(job)
        if answer is None:
            return
        if job.tokens > 1:
            self.counters.decode_tokens += 1
        else:
            self.counters.prefill_tokens += answer.ask.prompt_tokens - answer.cached
            self.counters.cached_tokens += answer.cached
        answer.token(job)
        if answer.over and not job.finished:
            self.counters.aborted += 1
            self._forget(job)
        elif job.finished:
            self._count(job, answer)

    def _count(self, job: Job, answer: Answer) -> None:
        self.answered += 1
        self.counters.requests += 1
        self.counters.prompt_tokens += answer.ask.prompt_tokens
        self.counters.generation_tokens += job.tokens
        self._answers.pop(job, None)
        self.lateness.requests.append(_truth(job, answer))

    def _forget(self, job: Job) -> None:
        self._answers.pop(job, None)
        self.scheduler.cancel(job)

    def _lost(self, job: Job) -> None:
        if job in self._answers:
            self.counters.aborted += 1
            self._forget(job)

    def _tick(self) -> None:
        now = time.monotonic_ns()
        for step in self.scheduler.advance(now):
            self.lateness.steps.append(now - step.end_ns)
            self._after(step)
        self._answer_flushes(now)
        self._rearm()

    def _after(self, step: Step) -> None:
        steps = self.scheduler.decode_steps
        if step.kind == "decode" and steps % self.settings.decode_log_interval == 0:
            self.counters.throughput = step.running / ((step.end_ns - step.start_ns) / 1e9)
        if self.settings.faults.fill_log_kib and step.kind == "decode" and steps % 1000 == 0:
            self.fill_log()
        if self.profile is not None and self.profile.take(step):
            self._write_profile()

    def _rearm(self) -> None:
        due = self.scheduler.due_ns
        if self._flushes:
            due = min(due or self._flushes[0][1], self._flushes[0][1])
        self._timer.at(due)
        self.counters.running = len(self.scheduler.running)
        self.counters.queued = len(self.scheduler.waiting)

    def fill_log(self) -> None:
        """Write the scripted amount to standard output, as a server that logs too much does."""
        pages.say(_LOG_LINE * (self.settings.faults.fill_log_kib * 1024 // len(_LOG_LINE)))

    def _start_profile(self, request: HttpRequest, connection: Connection) -> None:
        body: dict[str, Any] = orjson.loads(request.body) if request.body.strip() else {}
        if self.settings.faults.profile_fails or self.profile is not None:
            why = "scripted failure" if self.profile is None else "Profiling is already in progress."
            connection.answer(500, why.encode(), "text/plain")
            return
        self.profile = Profile.of(body)
        connection.answer(200, b"Start profiling.\n", "text/plain")

    def _write_profile(self) -> None:
        if self.profile is None:
            return
        self.profile.write(self.settings)
        self.profile = None
        self.scheduler.hold(round(self.settings.trace_write_ms * 1e6))

    def _flush(self, request: HttpRequest, connection: Connection) -> None:
        timeout = float(parse_qs(request.query).get("timeout", ["0"])[0])
        self._flushes.append((connection, time.monotonic_ns() + round(timeout * 1e9)))
        self._answer_flushes(time.monotonic_ns())
        self._rearm()

    def _answer_flushes(self, now: int) -> None:
        left = []
        for connection, deadline in self._flushes:
            if not self.scheduler.busy:
                connection.answer(200, b"Cache flushed.\n", "text/plain")
            elif now >= deadline:
                counts = f"running {len(self.scheduler.running)}, queued {len(self.scheduler.waiting)}"
                connection.answer(400, f"Cache not flushed: {counts}.\n".encode(), "text/plain")
            else:
                left.append((connection, deadline))
        self._flushes = sorted(left, key=lambda entry: entry[1])

    def close(self) -> None:
        """Stop the timer."""
        self._timer.close()


def _truth(job: Job, answer: Answer) -> dict[str, Any]:
    """Return the planned and real times (monotonic ns) of one finished request."""
    return {
        "number": answer.number,
        "tokens": job.tokens,
        "arrived_ns": job.arrived_ns,
        "first_planned_ns": job.first_ns,
        "last_planned_ns": job.last_ns,
        "first_sent_ns": answer.first_sent_ns,
        "last_sent_ns": answer.last_sent_ns,
    }


__all__ = ["Ask", "Standin"]
