"""Launch, judge, and launch again until the verdict is decided."""

from __future__ import annotations

import time

from tpgate.baseline.adaptive import next_launch
from tpgate.baseline.history import HISTORY_FILE, remember
from tpgate.baseline.refresh import UNDECIDED, plan
from tpgate.baseline.store import Found, NotFound
from tpgate.campaign.making import Making, write_json
from tpgate.campaign.plan import Campaign, Outcome, reproduce
from tpgate.campaign.verdict import compared, decide, find, foresee
from tpgate.errors import BaselineError
from tpgate.measure.result import Launch, Result, Validity
from tpgate.report.folder import JUDGEMENT_FILE

RECORD_LAUNCHES = 3
"""Launches that a provisional local baseline is recorded from, at least."""
MOST_RECORDED = 7
"""Launches at most, where fewer differ so much that nothing could be judged by them."""


def measure(campaign: Campaign) -> Outcome:
    """Launch, judge, and launch again where the first look is suspicious; return what was decided.

    Raises:
        ConfigError: The scenario or an option is wrong; nothing was started.
        HostError: The machine lacks what the scenario needs; nothing was started.
        BaselineError: A baseline file that would be compared with cannot be used.
        ServerError: The server did not start, so that there is nothing to judge.
    """
    scenario = campaign.scenario
    for known in foresee(campaign):
        campaign.progress(f"before the first launch: {known}")
    making = Making.begin(campaign)
    first = making.launch()
    found = find(campaign, first)
    notes: tuple[str, ...] = ()
    if isinstance(found, NotFound) and campaign.record and not campaign.experiment and not campaign.cells:
        found, note = _record(campaign, making)
        notes = (note,)
        if isinstance(found, Found):
            making = Making.begin(campaign, making.seconds)
            making.launch()
    result = making.save(complete=True)
    baseline = found.baseline if isinstance(found, Found) else None
    began = time.monotonic()
    while True:
        wish = next_launch(
            compared(result, baseline),
            baseline,
            most=campaign.max_launches,
            minutes_left=None if campaign.max_minutes is None else campaign.max_minutes - _minutes(began),
            launch_minutes=max(making.seconds) / 60,
        )
        if not wish.more:
            break
        campaign.progress(f"{scenario.name}: {wish.reason}")
        making.launch()
        result = making.save(complete=True)
    judgement = decide(campaign, result, found)
    write_json(making.folder / JUDGEMENT_FILE, judgement)
    forgotten = remember(result, str(judgement.verdict), campaign.results.parent / HISTORY_FILE)
    notes = notes if forgotten is None else (*notes, forgotten)
    return Outcome(result, judgement, making.folder, reproduce(campaign, judgement), notes, baseline)


def _notes(result: Result) -> tuple[str, ...]:
    """Return what a baseline of these launches would leave open; nothing where it could not be one at all."""
    try:
        return plan(None, [result]).notes
    except BaselineError:
        return ()


def _is_void(launch: Launch) -> bool:
    return bool(launch.failure) or any(run.validity is Validity.VOID for run in launch.runs.values())


def _minutes(began: float) -> float:
    return (time.monotonic() - began) / 60


def _record(campaign: Campaign, making: Making) -> tuple[Found | NotFound, str]:
    """Record a provisional baseline into the local store: the launch that was made, and two more like it.

    Launches that cannot become one are judged themselves, without a baseline: void ones are VOID.
    """
    scenario = campaign.scenario
    campaign.progress(f"{scenario.name}: this machine has no baseline; recording a provisional one")
    wanted = int(dict(scenario.settings).get("record_launches", RECORD_LAUNCHES))
    while len(making.launches) < wanted and not _is_void(making.launches[-1]):
        making.launch()
    result = making.save(complete=True)
    while len(making.launches) < MOST_RECORDED and any(note.startswith(UNDECIDED) for note in _notes(result)):
        campaign.progress(f"{scenario.name}: the launches differ too much to judge by; recording one more")
        making.launch()
        result = making.save(complete=True)
    try:
        made = plan(None, [result], who="tpgate --record").baseline
    except BaselineError as error:
        reason = f"no baseline was recorded: {error.what}"
        return NotFound(reason, (), campaign.store.folders[-1]), reason
    path = campaign.store.write(made, campaign.store.folders[-1])
    note = (
        f"{path}: recorded from {len(result.launches)} launches, provisional and local; it is not checked in. "
        "This verdict compares one more launch with it"
    )
    return find(campaign, making.launches[0]), note
