"""Our own gate, the very code that judges builds, fed with numbers instead of a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import msgspec

from tpgate.baseline.adaptive import next_launch
from tpgate.baseline.assemble import assemble
from tpgate.baseline.judge import judge
from tpgate.baseline.schema import Baseline, Tolerance
from tpgate.measure.definitions import metric
from tpgate.measure.result import SCHEMA_VERSION, Identity, Launch, Result, Run, Value
from tpgate.stats.bars import fitting_tolerance
from tpgate.stats.verdict import Judgement

TOLERANCES = {"output_tokens_per_second": (0.03, 0.10), "tpot_p50": (0.03, 0.10), "ttft_p50": (0.10, 0.30)}
"""Metric to (wanted, largest accepted) tolerance; within them the measured spread decides, cell by cell."""

TODAY = date(2026, 5, 31)

Values = Mapping[tuple[str, str], float]
"""(cell, metric) to value: what one launch measured."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gate said, and the launches that it spent."""

    judgement: Judgement
    launches: int


def _launch(
    number: int, values: Values, keys: Mapping[str, str], notes: Mapping[str, str], commit: str, day: str
) -> Launch:
    runs: dict[str, dict[str, Value]] = {}
    for (cell, name), value in values.items():
        runs.setdefault(cell, {})[name] = Value(value=value, unit=metric(name).unit.symbol)
    return Launch(
        launch_id=f"launch-{number}",
        started_at=f"{day}T00:00:00Z",
        identity=Identity(keys={"hardware": "mi355x-x8", **keys}, notes=dict(notes)),
        runs={
            cell: Run(cell=cell, load_digest=cell, started_at=f"{day}T00:00:00Z", values=held)
            for cell, held in runs.items()
        },
        commit=commit,
    )


def result_of(
    launches: Sequence[Values],
    *,
    keys: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    commit: str = "new",
    days: Sequence[str] = (),
    first: int = 1000,
    tolerances: Mapping[str, tuple[float, float]] = TOLERANCES,
) -> Result:
    """Return a result of the given launches; what every launch holds is what is declared."""
    both = set(launches[0]).intersection(*launches[1:])
    cells = tuple(sorted({cell for cell, _ in both}))
    gates = tuple(
        (name, tolerances[name][0], tuple(cell for cell in cells if (cell, name) in both), None)
        for name in sorted({name for _, name in both})
    )
    made = [
        _launch(
            first + index,
            {check: one[check] for check in sorted(both)},
            keys or {},
            notes or {},
            commit,
            days[index] if days else "2026-05-30",
        )
        for index, one in enumerate(launches)
    ]
    return Result(
        schema_version=SCHEMA_VERSION,
        result_id="replay",
        scenario="replay",
        scenario_digest="replay",
        cells=cells,
        gates=gates,
        launches=tuple(made),
    )


def pin(launches: Sequence[Values], **more) -> Baseline:
    """Return a baseline of recorded nights."""
    days = more.pop("days", None) or [f"2026-05-{1 + index % 28:02d}" for index in range(len(launches))]
    tolerances = more.get("tolerances", TOLERANCES)
    baseline = assemble([result_of(launches, first=0, commit=more.pop("commit", "old"), days=days, **more)])
    fitted = []
    for promise in baseline.promises:
        least, most = tolerances[promise.metric]
        floor = metric(promise.metric).noise_floor
        fit = fitting_tolerance(
            baseline.values(promise.cell, promise.metric), least=least, most=most, noise_floor=floor
        )
        fitted.append(
            Tolerance(
                cell=promise.cell,
                metric=promise.metric,
                tolerance=fit,
                reason="fitted to the spread of the baseline",
                who="scoreboard",
                when=days[-1],
            )
        )
    return msgspec.structs.replace(baseline, tolerances=tuple(fitted))


def ask(baseline: Baseline, first: Values, again: Callable[[], Values], *, most: int = 4, **more) -> Answer:
    """Judge one launch, and further ones where the gate wants them, as a build would."""
    known = {(one.cell, one.metric) for one in baseline.promises}
    launches = [{check: value for check, value in first.items() if check in known}]
    while True:
        result = result_of(launches, **more)
        if not next_launch(result, baseline, most=most, today=TODAY).more:
            break
        launches.append({check: value for check, value in again().items() if check in launches[0]})
    # cells that the night did not measure are no broken promise of a replay
    partial = any(check not in launches[0] for check in known)
    judged = judge(_partial(result) if partial else result, baseline, today=TODAY, planned=most)
    return Answer(judged, len(launches))


def _partial(result: Result) -> Result:
    return msgspec.structs.replace(result, partial=True)


def seeded(*words: object) -> random.Random:
    """Return a generator that depends on ``words`` alone."""
    return random.Random("|".join(map(str, words)))
