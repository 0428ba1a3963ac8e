"""Injects the faults one by one, each in a campaign of its own against a baseline that was recorded just before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tpgate.campaign import Campaign, Outcome, measure
from tpgate.errors import ConfigError, HostError, ServerError
from tpgate.measure.definitions import metric
from tpgate.measure.result import is_passing
from tpgate.selftest.assess import Row, Seen, assess, look, silent_gates
from tpgate.selftest.sweep import Probe, sweep
from tpgate.server.faults.case import Case
from tpgate.server.faults.inject import Injection, fitted, injection_of
from tpgate.specs import Scenario
from tpgate.stats.verdict import Verdict

Say = Callable[[str], None]
NOTHING = Case("nothing", "none", "OK")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a self-test does.

    Attributes:
        scenario: Scenario whose server gets the faults.
        cases: Faults, in order.
        results: Folder for results; the recorded baseline is kept beside it.
        python: Interpreter that has the server.
        silent_launches: Launches without a fault, which must be OK.
        max_launches: Launches a fault, at most.
        profile: Whether traces are taken, so that time can be attributed.
        processes: Client processes.
        demand_every_gate: Whether a gate that no fault turned red is a failure.
    """

    scenario: Scenario
    cases: tuple[Case, ...]
    results: Path
    python: str
    silent_launches: int = 3
    max_launches: int = 4
    profile: bool = True
    processes: int = 1
    demand_every_gate: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What a self-test found.

    Attributes:
        rows: The detection table.
        silence: Verdicts of the launches without a fault.
        probes: The changes on paper.
        silent: Gates that no fault turned red; None where that is not demanded.
        left_out: Faults that do not exist on this server.
        repeated: Measurements that were repeated because the client itself was disturbed.
    """

    rows: tuple[Row, ...]
    silence: tuple[str, ...]
    probes: tuple[Probe, ...]
    silent: tuple[str, ...] | None
    left_out: tuple[str, ...]
    repeated: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything was as it must be."""
        return (
            bool(self.rows)
            and all(row.ok for row in self.rows)
            and all(verdict == Verdict.OK for verdict in self.silence)
            and all(probe.ok for probe in self.probes)
            and not self.silent
        )


def run(plan: Plan, say: Say, progress: Say) -> Report:
    """Record a baseline, demand silence without a fault, then inject every fault and compare with the table.

    Args:
        plan: What to do.
        say: Told each result as it comes.
        progress: Told what goes on.

    Raises:
        ConfigError: No fault of the table exists on this server.
        ServerError: The healthy server does not start.
        HostError: No baseline could be recorded of the healthy server, so nothing was injected.
    """
    if not plan.profile:
        plan = replace(plan, scenario=untraced(plan.scenario))
    server = plan.scenario.server
    chosen = [(fitted(case, server), injection_of(case, server)) for case in plan.cases]
    left_out = tuple(case.name for case, injection in chosen if not _usable(case, injection, plan))
    wanted = [(case, one) for case, one in chosen if one is not None and _usable(case, one, plan)]
    if not wanted:
        raise ConfigError(f"no fault can be put into {plan.scenario.name}", expected="at least one of the table")
    campaign = Campaign(
        scenario=plan.scenario,
        results=plan.results,
        baselines=plan.results / "no-checked-in-baselines",
        python=plan.python,
        progress=progress,
        max_launches=plan.max_launches,
        profile=plan.profile,
        processes=plan.processes,
    )
    calm = _Calm(say)
    first = calm.measure(replace(campaign, record=True))
    if first.baseline is None:
        doubts = first.judgement.doubts
        raise HostError(
            f"the healthy server could not be recorded: {doubts[0][2] if doubts else first.judgement.verdict}",
            expected="launches without a fault that are valid and agree",
            next_step="end other work on this machine; every launch is kept with --results DIR",
        )
    probes = sweep(first.result, first.baseline)
    silence = [first.judgement.verdict.value]
    for _ in range(plan.silent_launches - 1):
        silence.append(calm.measure(campaign).judgement.verdict.value)  # noqa: PERF401 - each takes seconds
    say(f"without a fault: {', '.join(silence)}")
    rows = []
    for case, injection in wanted:
        row = assess(case, inject(campaign, injection, calm))
        say(f"{case.name}: {row.seen.verdict}" + ("" if row.ok else f" (WRONG: {'; '.join(row.complaints)})"))
        rows.append(row)
    gated = [gate.metric for gate in plan.scenario.gates]
    silent = silent_gates(rows, gated) if plan.demand_every_gate else None
    return Report(tuple(rows), tuple(silence), probes, silent, left_out, calm.repeated)


def untraced(scenario: Scenario) -> Scenario:
    """Return a scenario without its profiles and without the gates that need them.

    Raises:
        ConfigError: Nothing is left to gate.
    """
    gates = tuple(gate for gate in scenario.gates if metric(gate.metric).source != "trace")
    return replace(scenario, gates=gates, profile_cells=())


def _usable(case: Case, injection: Injection | None, plan: Plan) -> bool:
    return injection is not None and (plan.profile or not case.traced) and case.fault != NOTHING.fault


@dataclass(slots=True)
class _Calm:
    """Measures, once more where the host spoiled every attempt of a campaign, and counts what was made again."""

    say: Say
    repeated: int = 0

    def measure(self, campaign: Campaign) -> Outcome:
        outcome = measure(campaign)
        if any(is_passing(launch) for launch in outcome.result.launches):
            self.say("this host spoiled every attempt: measured again")
            self.repeated += len(outcome.result.launches)
            outcome = measure(campaign)
        self.repeated += len(outcome.result.discarded)
        return outcome


def inject(campaign: Campaign, injection: Injection, calm: _Calm) -> Seen:
    """Measure with a fault and return what was seen of it."""
    try:
        outcome = calm.measure(replace(campaign, extra=injection.options, extra_environment=injection.environment))
    except ServerError as error:
        return Seen("ERROR", launches=1, reason=error.what)
    return look(outcome.result, outcome.judgement)


def selected(cases: Sequence[Case], *, quick: bool) -> tuple[Case, ...]:
    """Return the cases, or with ``quick`` the largest size of each fault that needs no deadline to pass."""
    if not quick:
        return tuple(cases)
    slow = {"silent-stream", "hangs", "never-ready", "missing-rank-trace", "cut-trace"}
    last = {case.fault: case for case in cases}
    return tuple(case for case in cases if last[case.fault] is case and case.fault not in slow)
