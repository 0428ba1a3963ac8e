"""From results to the content of a baseline: one key, raw values, nothing averaged away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tpgate import __version__
from tpgate.baseline.contract import demands, gather, promises_of
from tpgate.baseline.key import explain, hardware_of
from tpgate.baseline.schema import SCHEMA_VERSION, Baseline, MetricForm, StoredLaunch
from tpgate.errors import BaselineError
from tpgate.measure.definitions import METRICS, metric
from tpgate.measure.result import SCHEMA_VERSION as RESULT_VERSION
from tpgate.measure.result import Identity, Launch, Result, Run, Validity, Value


def refusals(result: Result, *, pinned: bool = True) -> list[str]:
    """Return every reason why ``result`` may not become part of a baseline; empty where it may.

    Without ``pinned`` it only serves as one side of a comparison: then it may be an experiment or hold some cells.
    Partial, failed, void and mixed results are refused whole: leaving the bad part out would shrink the promise.
    """
    found = []
    if not result.complete:
        found.append("the session did not run to its end (complete is false)")
    if not result.launches:
        found.append("no launch was measured")
    if pinned and result.partial:
        found.append(f"only some cells were asked for ({', '.join(result.cells)})")
    if pinned and result.experiment:
        found.append(f"it is an experiment with other options than the scenario's: {', '.join(result.experiment)}")
    for launch in result.launches:
        if launch.failure:
            found.append(f"launch {launch.launch_id} failed: {launch.failure}")
        missing = [cell for cell in result.cells if cell not in launch.runs]
        if missing:
            found.append(f"launch {launch.launch_id} is partial: {', '.join(missing)} not measured")
        for cell, run in launch.runs.items():
            if run.validity is Validity.VOID:
                why = "; ".join(f"{doubt.check}: {doubt.reason}" for doubt in run.doubts if doubt.fatal)
                found.append(f"launch {launch.launch_id}, cell {cell} is VOID: {why}")
        if differing := result.launches[0].identity.differences(launch.identity):
            found.append(f"launch {launch.launch_id} has another identity than the first: {explain(differing)}")
    for demand in demands(result):
        gathered = gather(result, demand.cell, demand.metric)
        if gathered.verdict is not None and not any(gathered.reason in reason for reason in found):
            found.append(f"{demand.cell}:{demand.metric}: {gathered.reason}")
    return found


def _values(launch: Launch) -> dict[str, dict[str, float]]:
    return {
        cell: {
            name: value.value
            for name, value in sorted(run.values.items())
            if name in METRICS
            and value.value is not None
            and (value.samples is None or value.samples >= metric(name).minimum_samples)
        }
        for cell, run in launch.runs.items()
    }


def stored_launch(launch: Launch, result: Result, notes: dict[str, Any]) -> StoredLaunch:
    """Return a launch in the form of a baseline; ``notes`` are the file's own, only others are kept."""
    return StoredLaunch(
        launch_id=launch.launch_id,
        recorded_at=launch.started_at,
        result_id=result.result_id,
        commit=launch.commit,
        notes={name: value for name, value in launch.identity.notes.items() if notes.get(name) != value},
        values=_values(launch),
    )


def forms_of(launches: Iterable[StoredLaunch]) -> dict[str, MetricForm]:
    """Return unit, direction and estimator of every metric that the launches hold."""
    names = sorted({name for launch in launches for values in launch.values.values() for name in values})
    return {
        name: MetricForm(
            unit=metric(name).unit.symbol, better=metric(name).better.value, estimator=metric(name).estimator
        )
        for name in names
    }


def assemble(results: Sequence[Result], *, provenance: dict[str, str] | None = None, pinned: bool = True) -> Baseline:
    """Return the baseline that holds the launches of ``results``, in order of time.

    Args:
        results: The results.
        provenance: Notes for people.
        pinned: False where it is only one side of a comparison (see :func:`refusals`).

    Raises:
        BaselineError: A result is refused (see :func:`refusals`), or two differ in scenario, cells, gated metrics,
            load or identity.
    """
    if not results:
        raise BaselineError("no result was given", expected="at least one", next_step="tpgate run SCENARIO")
    first = results[0]
    for result in results:
        if reasons := refusals(result, pinned=pinned):
            listed = "\n    ".join(reasons)
            raise BaselineError(
                f"{result.result_id} cannot become a baseline:\n    {listed}",
                expected="complete results, every run VALID, every gated metric of every cell",
                next_step=f"measure {result.scenario} again",
            )
        _require_same(first, result)
    identity = first.launches[0].identity
    launches: dict[str, StoredLaunch] = {}
    for result in results:
        for launch in result.launches:
            launches.setdefault(launch.launch_id, stored_launch(launch, result, identity.notes))
    ordered = tuple(sorted(launches.values(), key=lambda one: (one.recorded_at, one.launch_id)))
    return Baseline(
        schema_version=SCHEMA_VERSION,
        scenario=first.scenario,
        scenario_digest=first.scenario_digest,
        hardware=hardware_of(identity),
        identity=identity,
        cells={cell: first.launches[0].runs[cell].load_digest for cell in first.cells},
        promises=promises_of(first),
        metrics=forms_of(ordered),
        launches=ordered,
        provenance={"tpgate": __version__} | (provenance or {}),
    )


def _require_same(first: Result, other: Result) -> None:
    """Refuse results that do not belong under one key; the message names every field that differs."""
    rows: list[tuple[str, object, object]] = []
    if first.scenario != other.scenario:
        rows.append(("scenario", first.scenario, other.scenario))
    if first.cells != other.cells:
        rows.append(("cells", " ".join(first.cells), " ".join(other.cells)))
    mine, theirs = ({(one.cell, one.metric) for one in promises_of(result)} for result in (first, other))
    if mine != theirs:
        rows.append(("gated checks", len(mine), len(theirs)))
    for cell in first.cells:
        digests = [one.launches[0].runs[cell].load_digest for one in (first, other) if cell in one.launches[0].runs]
        if len(set(digests)) > 1:
            rows.append((f"load of {cell}", digests[0], digests[1]))
    rows += first.launches[0].identity.differences(other.launches[0].identity)
    if rows:
        listed = "; ".join(f"{name}: {mine} and {theirs}" for name, mine, theirs in rows)
        raise BaselineError(
            f"{first.result_id} and {other.result_id} are mixed: {listed}",
            expected="results of one scenario, one load and one identity",
            next_step="refresh them one by one",
        )


def as_result(baseline: Baseline) -> Result:
    """Return a baseline in the form of a result, so that two baselines can be compared like anything else."""
    launches = tuple(
        Launch(
            launch_id=one.launch_id,
            started_at=one.recorded_at,
            identity=Identity(keys=baseline.identity.keys, notes=baseline.identity.notes | one.notes),
            runs={
                cell: Run(
                    cell=cell,
                    load_digest=baseline.cells.get(cell, ""),
                    started_at=one.recorded_at,
                    values={
                        name: Value(value=value, unit=baseline.metrics[name].unit) for name, value in values.items()
                    },
                )
                for cell, values in one.values.items()
            },
            commit=one.commit,
        )
        for one in baseline.launches
    )
    return Result(
        schema_version=RESULT_VERSION,
        result_id=f"baseline {baseline.hardware}/{baseline.scenario}",
        scenario=baseline.scenario,
        scenario_digest=baseline.scenario_digest,
        cells=tuple(baseline.cells),
        gates=tuple((one.metric, one.tolerance, (one.cell,), one.ceiling) for one in baseline.promises),
        launches=launches,
    )
