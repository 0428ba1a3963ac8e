"""One launch of a scenario: start the server, drive every cell, profile, stop, and keep what was measured so far."""

from __future__ import annotations

import contextlib
import datetime
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tpgate.errors import ConfigError, HostError, ServerError, TpgateError
from tpgate.host import environment, lease, topology, validity
from tpgate.load.health import LAG_LIMIT
from tpgate.measure.cell import INTERRUPTED_COUNT, measure_cell
from tpgate.measure.client import scenario_values
from tpgate.measure.conditions import host_doubts
from tpgate.measure.profile import profile_cell, trace_values
from tpgate.measure.result import Doubt, Identity, Launch, Run
from tpgate.measure.same import change_doubts
from tpgate.measure.target import STALL_TIMEOUT_S, Progress, Target, death
from tpgate.measure.validity import DRIFT_FATAL
from tpgate.server import ports, process
from tpgate.server.api import Api
from tpgate.server.model_folder import prepare
from tpgate.specs import SCENARIO_CELL, LoadSpec, Pairs, Scenario

Save = Callable[[Launch], None]
_PROFILE_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a launch is made, as far as it moves no number.

    Attributes:
        python: Interpreter that has SGLang.
        cells: Cells to drive; empty means all.
        profile: Whether to profile after the timed cells.
        processes: Client processes.
        attach_url: URL of a server that already runs, or None to start one.
        extra: Server options on top of the scenario's, as a fault or an experiment wants them; they stand in the
            identity, which the server itself reports.
        extra_environment: Variables on top of the scenario's.
        commit: Commit of the code under test, for the record.
    """

    python: str = sys.executable
    cells: tuple[str, ...] = ()
    profile: bool = True
    processes: int = 1
    attach_url: str | None = None
    extra: Pairs = ()
    extra_environment: tuple[tuple[str, str], ...] = ()
    commit: str | None = None


@dataclass(slots=True)
class _Progressing:
    """A launch that is being made; replaced, run by run, and saved each time."""

    launch: Launch
    save: Save
    loads: dict[str, LoadSpec] = field(default_factory=dict)

    def add(self, run: Run) -> None:
        runs = {**self.launch.runs, run.cell: run}
        self.launch = msgspec.structs.replace(self.launch, runs=runs)
        self.save(self.launch)

    def fail(self, reason: str) -> None:
        self.launch = msgspec.structs.replace(self.launch, failure=reason)
        self.save(self.launch)


def new_id() -> str:
    """Return a unique name that sorts by time: UTC start and a random suffix."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def measure_launch(scenario: Scenario, *, folder: Path, settings: Settings, progress: Progress, save: Save) -> Launch:
    """Start the scenario's server once, drive its cells and return the launch.

    A server that does not start, dies or hangs ends the launch; its ``failure`` says why, and the runs made so far
    stay in it. ``save`` is called after every run with what there is.

    Args:
        scenario: What to measure.
        folder: Result folder; the launch gets a folder of its own in it.
        settings: Interpreter, cells, attach and the like.
        progress: Told what goes on.
        save: Stores a launch, whole or partial.

    Raises:
        ConfigError: The scenario cannot be run as asked; nothing was started.
        HostError: The GPUs are missing or leased to another run; nothing was started.
    """
    launch_id = new_id()
    home = folder / f"launch-{launch_id}"
    home.mkdir(parents=True)
    gpus = gpus_of(scenario, settings.attach_url)
    resources = [f"gpu-{uuid}" for uuid in gpus] or ["cpu-engine"]
    with lease.hold(resources, holder=f"tpgate {scenario.name}"):
        if settings.attach_url is None:
            _require_free(gpus)
        empty = Launch(
            launch_id=launch_id,
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            identity=Identity(keys={}),
            runs={},
            commit=settings.commit,
        )
        state = _Progressing(empty, save)
        try:
            _measure(scenario, state, home, gpus, settings, progress)
        except (ConfigError, HostError):
            raise
        except TpgateError as error:
            state.fail(str(error))
        return state.launch


def gpus_of(scenario: Scenario, attach_url: str | None) -> tuple[str, ...]:
    """Return the GPUs to watch: none of this machine's for a server that runs on another one."""
    if not scenario.server.gpus or (attach_url is not None and not ports.is_local(attach_url)):
        return ()
    return topology.choose(scenario.server.gpus, in_use=attach_url is not None)


def _require_free(gpus: tuple[str, ...]) -> None:
    """Refuse GPUs that something is wrong with, before a server is started on them.

    Raises:
        HostError: With every reason and what to do about it.
    """
    wrong = [doubt for doubt in host_doubts(gpus) if doubt.fatal]
    if wrong:
        reasons = "; ".join(f"{doubt.reason} ({doubt.advice})" for doubt in wrong)
        raise HostError(f"the GPUs are not fit to measure on: {reasons}", next_step="tpgate doctor")


@contextlib.contextmanager
def _server(
    scenario: Scenario, home: Path, gpus: tuple[str, ...], settings: Settings, progress: Progress
) -> Iterator[Any]:
    if settings.attach_url is not None:
        yield process.attach(settings.attach_url, scenario.server)
        return
    spec = replace(scenario.server, environment=scenario.server.environment + settings.extra_environment)
    with process.start(
        spec,
        folder=home,
        python=settings.python,
        extra=settings.extra,
        visible_gpus=gpus,
        progress=progress,
        gpu_pids=(lambda: validity.holders(gpus)) if gpus else None,
    ) as running:
        yield running
        progress("stopping the server")


def _measure(
    scenario: Scenario,
    state: _Progressing,
    home: Path,
    gpus: tuple[str, ...],
    settings: Settings,
    progress: Progress,
) -> None:
    config = _model_config(scenario, home)
    with _server(scenario, home, gpus, settings, progress) as server:
        fingerprint = environment.identity(
            spec=scenario.server,
            scenario_digest=scenario.digest(),
            server_info=server.info,
            python=settings.python if settings.attach_url is None else None,
            gpus=gpus,
        )
        state.launch = msgspec.structs.replace(
            state.launch,
            identity=Identity(keys=dict(fingerprint.keys), notes=dict(fingerprint.notes)),
            startup_s=server.startup_s,
        )
        target = Target(
            server=server,
            vocabulary=_vocabulary(config, scenario),
            model_config=config,
            tensor_parallel=scenario.server.tensor_parallel,
            gpus=gpus,
            drift_limit=float(dict(scenario.settings).get("drift_limit", DRIFT_FATAL)),
            client_lag_limit=float(dict(scenario.settings).get("client_lag_limit", LAG_LIMIT)),
            stall_timeout_s=float(dict(scenario.settings).get("stall_timeout_s", STALL_TIMEOUT_S)),
            salt="" if settings.attach_url is None else state.launch.launch_id,
        )
        wanted = [load for load in scenario.cells if not settings.cells or load.cell in settings.cells]
        for load in wanted:
            run = measure_cell(target, load, folder=home, processes=settings.processes, progress=progress)
            state.add(run)
            if INTERRUPTED_COUNT in run.counts:
                state.fail(f"interrupted in {load.cell}")
                raise KeyboardInterrupt
            dead = server.alive()
            if dead is not None:
                state.fail(f"the server died in {load.cell}: {dead}; the cells after it were not driven")
                return
            try:
                changed = change_doubts(server.info, Api(server.url).info())
            except ServerError as error:
                raise ServerError(f"the server died in {load.cell}: {death(server) or error.what}") from error
            if changed:
                state.add(msgspec.structs.replace(run, doubts=(*run.doubts, *changed)))
        if len(wanted) == len(scenario.cells):
            values = scenario_values([(load, state.launch.runs[load.cell].values) for load in wanted])
            started = state.launch.started_at
            state.add(Run(cell=SCENARIO_CELL, load_digest=scenario.digest(), started_at=started, values=values))
        if settings.profile:
            _profile(scenario, state, target, home, progress, settings)


def _profile(
    scenario: Scenario, state: _Progressing, target: Target, home: Path, progress: Progress, settings: Settings
) -> None:
    """Profile the cells that want it, after every timed cell, and add what the traces say to their runs."""
    for cell in scenario.profile_cells:
        run = state.launch.runs.get(cell)
        if run is None:
            continue
        progress(f"{cell}: profiling {scenario.profile_steps} decode steps")
        profile = profile_cell(
            target.server,
            scenario.cell(cell),
            vocabulary=target.vocabulary,
            folder=home / "traces" / cell,
            steps=scenario.profile_steps,
            ranks=target.tensor_parallel,
            activities=("GPU",) if scenario.server.device == "cuda" else ("CPU",),
            deadline_s=float(dict(scenario.settings).get("profile_deadline_s", _PROFILE_DEADLINE_S)),
        )
        values, doubts, details = trace_values(profile)
        run = msgspec.structs.replace(
            run,
            values=run.values | values,
            doubts=run.doubts + tuple(doubts),
            details=run.details | {"trace": details},
        )
        state.add(run)
        dead = target.server.alive()
        if dead is not None:
            advice = "lower profile_steps; the timed cells were finished before and stand"
            note = Doubt(check="profile_killed_server", reason=dead, advice=advice, fatal=False)
            state.add(msgspec.structs.replace(run, doubts=(*run.doubts, note)))
            return


def _model_config(scenario: Scenario, home: Path) -> dict[str, Any] | None:
    model = scenario.server.model
    if model.config is not None:
        return model.config
    path = prepare(model, home) / "config.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: {error}",
            expected="the model's config.json",
            next_step=f"set {model.path_variable} to a complete model folder",
        ) from error


def _vocabulary(config: dict[str, Any] | None, scenario: Scenario) -> int:
    for block in (config or {}, (config or {}).get("text_config") or {}):
        size = block.get("vocab_size")
        if isinstance(size, int) and size > 1:
            return size
    raise ConfigError(
        f"scenario {scenario.name}: config.json of model {scenario.server.model.name} has no vocab_size",
        expected="an integer above 1",
        next_step="add vocab_size to the model's config.json",
    )
