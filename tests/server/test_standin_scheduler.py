"""The stand-in's schedule, checked against arithmetic under a fake clock."""

from __future__ import annotations

import pytest

from tpgate.server.standin.scheduler import Job, Scheduler
from tpgate.server.standin.settings import Faults, Settings
from tpgate.server.standin.steps import decode_seconds

MS = 1_000_000


class World:
    """A scheduler with a log of (job, token, planned ms)."""

    def __init__(self, **options):
        faults = options.pop("faults", Faults())
        self.scheduler = Scheduler(Settings(faults=faults, step_ms=4, per_request_ms=1, prefill_ms=10, **options))
        self.tokens = []

    def submit(self, at_ms, limit=3, name="a"):
        job = Job(limit, at_ms * MS, lambda job, ns: self.tokens.append((name, job.tokens, ns / MS)))
        self.scheduler.submit(job)
        return job

    def run_until(self, ms):
        return [(s.kind, s.start_ns / MS, s.end_ns / MS, s.running) for s in self.scheduler.advance(ms * MS)]


def test_single_request_follows_the_formula():
    world = World()
    world.submit(100)
    steps = world.run_until(1000)
    assert steps == [("prefill", 100, 110, 1), ("decode", 110, 115, 1), ("decode", 115, 120, 1)]
    assert world.tokens == [("a", 1, 110), ("a", 2, 115), ("a", 3, 120)]
    assert not world.scheduler.busy


def test_the_plan_does_not_depend_on_when_somebody_looks():
    plans = []
    for looks in ([1000], range(0, 1000, 1), [117, 118, 500]):
        world = World()
        world.submit(100)
        for ms in looks:
            world.run_until(ms)
        plans.append(world.tokens)
    assert plans[0] == plans[1] == plans[2]


def test_prefill_is_serialised_and_starves_decode():
    world = World()
    for name in "abc":
        world.submit(0, name=name)
    steps = world.run_until(1000)
    assert [s[0] for s in steps[:3]] == ["prefill"] * 3
    assert [t for t in world.tokens if t[1] == 1] == [("a", 1, 10), ("b", 1, 20), ("c", 1, 30)]
    assert steps[3] == ("decode", 30, 37, 3)


def test_a_request_that_comes_during_a_step_waits_for_the_next_one():
    world = World()
    world.submit(0, limit=5)
    world.run_until(12)
    world.submit(12, name="b")
    steps = world.run_until(1000)
    assert steps[0] == ("decode", 10, 15, 1)
    assert steps[1] == ("prefill", 15, 25, 1)
    assert steps[2] == ("decode", 25, 31, 2)


def test_late_look_still_takes_only_what_had_arrived():
    """A request that came after the planned start of a step is not in it, however late the step was planned."""
    world = World()
    world.submit(0, limit=4)
    world.run_until(10)
    world.submit(40, name="b")
    steps = world.run_until(100)
    assert steps[:3] == [("decode", 10, 15, 1), ("decode", 15, 20, 1), ("decode", 20, 25, 1)]
    assert steps[3] == ("prefill", 40, 50, 1)


@pytest.mark.parametrize("options", [{"max_running_requests": 1}, {"faults": Faults(max_running=1)}])
def test_batch_cap_queues_the_rest(options):
    world = World(**options)
    world.submit(0, limit=2, name="a")
    world.submit(0, limit=2, name="b")
    assert [s[0] for s in world.run_until(1000)] == ["prefill", "decode", "prefill", "decode"]
    assert world.tokens[-1] == ("b", 2, 30)


def test_cancelled_requests_get_nothing_more():
    world = World()
    first = world.submit(0, limit=5, name="a")
    second = world.submit(0, limit=5, name="b")
    world.scheduler.cancel(second)
    world.run_until(15)
    world.scheduler.cancel(first)
    world.run_until(1000)
    assert {name for name, _, _ in world.tokens} == {"a"}
    assert not world.scheduler.busy


def test_cancel_during_prefill_drops_the_request():
    world = World()
    job = world.submit(0, limit=5)
    world.run_until(5)
    world.scheduler.cancel(job)
    world.run_until(1000)
    assert world.tokens == []
    assert not world.scheduler.busy


def test_one_token_requests_end_with_their_prefill():
    world = World()
    world.submit(7, limit=1)
    assert world.run_until(1000) == [("prefill", 7, 17, 1)]


def test_writing_a_trace_holds_the_schedule():
    world = World()
    world.submit(0, limit=3)
    world.run_until(10)
    world.scheduler.hold(100 * MS)
    world.run_until(1000)
    assert [ms for _, _, ms in world.tokens] == [10, 115, 120]


def test_frozen_scheduler_has_nothing_due():
    world = World()
    world.submit(0)
    world.scheduler.frozen = True
    assert world.scheduler.due_ns is None
    assert world.run_until(1000) == []


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (Faults(decode_slower=0.5), [10, 17.5, 25]),
        (Faults(prefill_slower=1.0), [20, 25, 30]),
        (Faults(scheduler_sleep_ms=2), [10, 17, 24]),
        (Faults(stall_every=2, stall_ms=50), [10, 15, 70]),
        (Faults(cold_steps=1, cold_slower=1.0), [10, 20, 25]),
        (Faults(per_request_slower=1.0), [10, 16, 22]),
        (Faults(prefix_cache=0.5), [5, 10, 15]),
    ],
)
def test_faults_move_the_truth_by_their_size(faults, expected):
    world = World(faults=faults)
    world.submit(0)
    world.run_until(1000)
    assert [ms for _, _, ms in world.tokens] == pytest.approx(expected)


@pytest.mark.parametrize("running", [1, 8, 64])
def test_healthy_step_is_the_documented_formula(running):
    settings = Settings(step_ms=4, per_request_ms=0.05, tp=4)
    assert decode_seconds(settings, running) == pytest.approx((4 + 0.05 * running) / 1e3)
    one = Settings(step_ms=4, per_request_ms=0.05, tp=1)
    assert decode_seconds(one, running) == pytest.approx((4 + 0.05 * running) / 1e3)


@pytest.mark.parametrize(
    ("faults", "growth"),
    [
        (Faults(attention_slower=0.5), 0.11),
        (Faults(moe_slower=0.5), 0.14),
        (Faults(gemm_slower=0.5), 0.11),
        (Faults(all_reduce_slower=0.5), 0.06),
        (Faults(extra_all_reduce=1), 0.06),
        (Faults(graphs_off=1), 1.6),
    ],
)
def test_part_faults_grow_the_step_by_their_share(faults, growth):
    healthy = decode_seconds(Settings(tp=4), 8)
    assert decode_seconds(Settings(tp=4, faults=faults), 8) == pytest.approx(healthy * (1 + growth))
