"""The verdict of a campaign: which baseline it is compared with, and how an experiment is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from tpgate.baseline.contract import uncovered
from tpgate.baseline.judge import STALE_DAYS, judge
from tpgate.baseline.key import hardware_of
from tpgate.baseline.reading import load_baseline
from tpgate.baseline.schema import Baseline
from tpgate.baseline.store import Found, NotFound
from tpgate.campaign.attribution import attributed
from tpgate.campaign.plan import Campaign
from tpgate.measure.promises import promises
from tpgate.measure.result import Launch, Result
from tpgate.stats.verdict import Judgement

EXPERIMENTAL_KEYS = ("server.", "env.")
"""Identity fields that an experiment with other server options may change and still be compared."""


def foresee(campaign: Campaign) -> tuple[str, ...]:
    """Read every baseline of this scenario before anything is started: a broken file costs no GPU minute.

    Returns:
        What is known before the first launch: checks that a baseline cannot judge, promises that are no longer
        declared, and baselines that are old. Such a launch may be wanted, to be taken in; so it is said, not refused.

    Raises:
        BaselineError: A file cannot be used.
    """
    checks = [(cell, name) for name, _, cells, _ in promises(campaign.scenario, campaign.cells) for cell in cells]
    notes = []
    for path in (path for root in campaign.store.folders for path in root.glob(f"*/{campaign.scenario.name}.json")):
        baseline = load_baseline(path, in_store=True)
        if missing := uncovered(baseline, checks):
            notes.append(f"{path} does not hold {_some(missing)}: NO BASELINE until tpgate refresh takes it in")
        dropped = [f"{one.cell}:{one.metric}" for one in baseline.promises if (one.cell, one.metric) not in checks]
        if dropped and not campaign.cells:
            notes.append(f"{path} promises {_some(dropped)}, not declared any more: VOID until it is declared again")
        if (age := (datetime.now(UTC).date() - date.fromisoformat(baseline.newest_day())).days) > STALE_DAYS:
            notes.append(f"{path}: its newest launch is {age} days old: refresh it")
    return tuple(sorted(notes))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def find(campaign: Campaign, launch: Launch) -> Found | NotFound:
    """Return the baseline of a launch; an experiment may differ from it in the server's arguments."""
    if not launch.identity.keys:
        return NotFound("the launch ended before its identity was known", (), campaign.baselines)
    found = campaign.store.find(hardware_of(launch.identity), campaign.scenario.name, launch.identity)
    if isinstance(found, NotFound) and campaign.experiment and _only_experimental(found.differences):
        return Found(
            load_baseline(found.path, in_store=True), found.path, found.path.is_relative_to(campaign.baselines)
        )
    return found


def _only_experimental(differences: Sequence[tuple[str, Any, Any]]) -> bool:
    return bool(differences) and all(name.startswith(EXPERIMENTAL_KEYS) for name, _, _ in differences)


def compared(result: Result, baseline: Baseline | None) -> Result:
    """Return the result as it is compared: an experiment's own fields are not held against it."""
    if baseline is None or not result.experiment:
        return result
    launches = []
    for launch in result.launches:
        keys = dict(launch.identity.keys)
        for name, _, _ in baseline.identity.differences(launch.identity):
            if name.startswith(EXPERIMENTAL_KEYS):
                keys.pop(name, None)
                if name in baseline.identity.keys:
                    keys[name] = baseline.identity.keys[name]
        identity = msgspec.structs.replace(launch.identity, keys=keys)
        launches.append(msgspec.structs.replace(launch, identity=identity))
    return msgspec.structs.replace(result, launches=tuple(launches))


def decide(campaign: Campaign, result: Result, found: Found | NotFound) -> Judgement:
    """Return the judgement of a result against what was found for it; an experiment is labelled as one."""
    if isinstance(found, NotFound):
        hint = (
            "record one with --record (tpgate run) or --tpgate-record (pytest), or take results in with tpgate refresh"
        )
        return judge(
            result,
            None,
            reason_without=f"{found.reason}; {hint}",
            differences=found.differences,
            planned=campaign.max_launches,
        )
    judgement = judge(compared(result, found.baseline), found.baseline, path=found.path, planned=campaign.max_launches)
    judgement = attributed(judgement)
    if not result.experiment:
        return judgement
    differences = found.baseline.identity.differences(result.launches[0].identity)
    rows = tuple((name, str(before), str(now)) for name, before, now in differences)
    note = f"experiment ({', '.join(result.experiment)}), judged against the plain scenario's baseline"
    return msgspec.structs.replace(
        judgement, differences=rows + judgement.differences, warnings=(note, *judgement.warnings)
    )
