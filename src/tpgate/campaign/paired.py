"""Two sides of one scenario launched in turn, A B B A, on this host, and judged against each other in pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from tpgate.baseline.contract import Demand, demands, gather
from tpgate.campaign.attribution import attribution
from tpgate.campaign.making import MOST_DISCARDED, why, write_json
from tpgate.measure.definitions import metric
from tpgate.measure.definitions.trace import CATEGORIES
from tpgate.measure.promises import promises
from tpgate.measure.result import SCHEMA_VERSION, Launch, Result, is_passing
from tpgate.measure.session import Settings, measure_launch, new_id
from tpgate.redaction import redact
from tpgate.report.folder import JUDGEMENT_FILE, RESULT_FILE
from tpgate.specs import Scenario
from tpgate.stats.paired import decide, paired_effect
from tpgate.stats.verdict import Comparison, Judgement, Verdict, worst

ORDER = ("base", "head", "head", "base")
"""One round. Neighbours make a pair: the first two launches, and the last two."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Duel:
    """What is compared with what.

    Attributes:
        scenario: The scenario that both sides run.
        base: How the base is launched.
        head: How the head is launched.
        results: Folder that gets the result folder.
        rounds: Rounds of four launches, at most; the duel ends as soon as every check is decided.
        progress: Told what goes on.
    """

    scenario: Scenario
    base: Settings
    head: Settings
    results: Path
    rounds: int
    progress: Say


@dataclass
class _Side:
    """The launches of one side, and its result file."""

    name: str
    duel: Duel
    settings: Settings
    folder: Path
    launches: list[Launch] = field(default_factory=list)
    discarded: list[Launch] = field(default_factory=list)

    def result(self) -> Result:
        scenario = self.duel.scenario
        settings = self.settings
        return Result(
            schema_version=SCHEMA_VERSION,
            result_id=f"{self.folder.parent.name}-{self.name}",
            scenario=scenario.name,
            scenario_digest=scenario.digest(),
            cells=settings.cells or tuple(load.cell for load in scenario.cells),
            gates=promises(scenario, settings.cells),
            launches=tuple(self.launches),
            discarded=tuple(self.discarded),
            partial=bool(settings.cells),
            experiment=tuple(redact(f"{n}={value}") for n, value in (*settings.extra, *settings.extra_environment)),
        )

    def launch(self) -> None:
        """Launch once more, and again where the client or the host spoiled it."""
        number = len(self.launches) + 1
        launch = self._attempt(number)
        while is_passing(launch) and len(self.discarded) < MOST_DISCARDED:
            self.discarded.append(launch)
            self.duel.progress(f"{self.name}, launch {number}: void, and made again: {why(launch)}")
            launch = self._attempt(number)
        self.launches.append(launch)
        write_json(self.folder / RESULT_FILE, self.result())

    def _attempt(self, number: int) -> Launch:
        return measure_launch(
            self.duel.scenario,
            folder=self.folder,
            settings=self.settings,
            progress=lambda text: self.duel.progress(f"{self.name}, launch {number}: {text}"),
            save=lambda _launch: None,
        )


def fight(duel: Duel) -> tuple[Judgement, Path]:
    """Launch both sides in turn until every check is decided or the rounds are spent.

    Returns:
        The judgement, base as "baseline" and head as "now", and the folder of both results.

    Raises:
        ConfigError: The scenario cannot be run as asked.
        HostError: The machine lacks what it needs.
    """
    folder = duel.results / f"{new_id()}-ab-{duel.scenario.name}"
    sides = {
        "base": _Side("base", duel, duel.base, folder / "base"),
        "head": _Side("head", duel, duel.head, folder / "head"),
    }
    for side in sides.values():
        side.folder.mkdir(parents=True)
    for number in range(1, duel.rounds + 1):
        for name in ORDER:
            duel.progress(f"round {number} of at most {duel.rounds}: {name}")
            sides[name].launch()
            if any(launch.failure for launch in sides[name].launches):
                break
        judgement = judge_pairs(sides["base"].result(), sides["head"].result())
        write_json(folder / JUDGEMENT_FILE, judgement)
        if judgement.verdict is not Verdict.INCONCLUSIVE:
            break
    return judgement, folder


def judge_pairs(base: Result, head: Result) -> Judgement:
    """Judge every declared check of ``head`` against ``base``, launch i against launch i.

    In A B B A order, launch i of either side stand next to each other in time. Anything void makes the whole void: a
    build that is broken is neither good nor bad in speed.
    """
    declared = demands(base)
    comparisons = [_compare(one, base, head) for one in declared]
    gated = {(one.cell, one.metric) for one in declared}
    watched = [row for row in (_compare(one, base, head) for one in _watched(base, gated)) if row.now or row.baseline]
    where = attribution(watched + comparisons)
    comparisons = [
        msgspec.structs.replace(row, attribution=where) if row.verdict is Verdict.REGRESSED else row
        for row in comparisons
    ]
    failed = [launch.failure for side in (base, head) for launch in side.launches if launch.failure]
    verdicts = [row.verdict for row in comparisons] + [Verdict.VOID] * bool(failed)
    pairs = min(len(base.launches), len(head.launches))
    return Judgement(
        result_id=head.result_id,
        scenario=head.scenario,
        verdict=Verdict.VOID if Verdict.VOID in verdicts else worst(verdicts),
        comparisons=tuple(comparisons),
        observed=tuple(watched),
        baseline_path=f"launches of the base, in turn with the head's ({pairs} pairs)",
        baseline_launches=len(base.launches),
        baseline_days=1,
        differences=_differences(base, head),
        doubts=tuple(_doubts("base", base) + _doubts("head", head)),
        warnings=tuple(f"a launch failed: {reason}" for reason in failed),
        launches=len(head.launches),
    )


def _watched(base: Result, gated: set[tuple[str, str]]) -> list[Demand]:
    names = [f"{name}_time_per_token" for name in (*CATEGORIES, "idle", "communication_wait")]
    return [Demand(cell, name, 0.05) for cell in base.cells for name in names if (cell, name) not in gated]


def _compare(one: Demand, base: Result, head: Result) -> Comparison:
    definition = metric(one.metric)
    sides = [gather(result, one.cell, one.metric) for result in (base, head)]
    values = [list(side.values) for side in sides]
    row = Comparison(
        cell=one.cell,
        metric=one.metric,
        unit=definition.unit.symbol,
        better=definition.better.value,
        verdict=Verdict.VOID,
        reason="",
        tolerance=one.tolerance,
        bar=one.tolerance,
        baseline=median(values[0]) if values[0] else None,
        now=median(values[1]) if values[1] else None,
        baseline_launches=len(values[0]),
        launches=len(values[1]),
    )
    for name, side in zip(("base", "head"), sides, strict=True):
        if side.verdict is not None:
            return msgspec.structs.replace(row, verdict=side.verdict, reason=f"{name}: {side.reason}")
    pairs = min(len(values[0]), len(values[1]))
    if not pairs:
        return msgspec.structs.replace(row, reason="no pair of launches was measured")
    before, after = values[0][:pairs], values[1][:pairs]
    if all(abs(b - a) <= definition.absolute_floor for a, b in zip(before, after, strict=True)):
        return msgspec.structs.replace(row, verdict=Verdict.OK, effect=0.0, reason="no change that counts")
    try:
        found = paired_effect(before, after, definition.better, noise_floor=definition.noise_floor)
    except ValueError as error:
        return msgspec.structs.replace(row, verdict=Verdict.INCONCLUSIVE, reason=str(error))
    verdict, reason = decide(found, definition.better, one.tolerance)
    return msgspec.structs.replace(row, verdict=verdict, reason=reason, effect=found.effect)


def _differences(base: Result, head: Result) -> tuple[tuple[str, str, str], ...]:
    if not base.launches or not head.launches:
        return ()
    found = base.launches[0].identity.differences(head.launches[0].identity)
    return tuple((name, str(before), str(now)) for name, before, now in found)


def _doubts(side: str, result: Result) -> list[tuple[str, str, str, str]]:
    return [
        (f"{side} {cell}", one.check, one.reason, one.advice)
        for launch in result.launches
        for cell, run in launch.runs.items()
        for one in run.doubts
    ]
