"""Frozen specifications of what is measured: model, server, load, gate, scenario.

A scenario is a value. Its digest covers everything that moves a number (model shape, server options, load) and
nothing else, so two scenarios with the same digest may be compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tpgate.errors import ConfigError

Scalar = str | int | float | bool
Pairs = tuple[tuple[str, Scalar], ...]
Device = Literal["cuda", "cpu"]
Api = Literal["generate", "completions", "chat"]
Engine = Literal["sglang", "standin"]

SCENARIO_CELL = "scenario"
"""Name of the pseudo-cell that holds metrics of a whole scenario, such as the cost of one more request."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


def digest_of(value: object) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of ``value`` as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pairs(**options: Scalar) -> Pairs:
    """Return keyword arguments as sorted pairs, the hashable form in which specs keep options."""
    return tuple(sorted(options.items()))


def _require(condition: bool, what: str, expected: str) -> None:
    if not condition:
        raise ConfigError(what, expected=expected, next_step="mend the scenario's definition")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model: either a shape with random weights, or a folder of real weights named by an environment variable.

    Attributes:
        name: Name that stands in reports.
        config_json: Canonical JSON of the model's config.json; with it the server runs on dummy weights.
        path_variable: Environment variable that holds the path of the model folder, where real weights are needed.
    """

    name: str
    config_json: str | None = None
    path_variable: str | None = None

    def __post_init__(self) -> None:
        _require(
            (self.config_json is None) != (self.path_variable is None),
            f"model {self.name!r}: config_json and path_variable are both given or both missing",
            "exactly one of them",
        )

    @classmethod
    def dummy(cls, name: str, config: Mapping[str, Any]) -> ModelSpec:
        """Return a model of the shape ``config`` (the content of a config.json) that is served with random weights."""
        return cls(name, config_json=json.dumps(config, sort_keys=True, separators=(",", ":")))

    @property
    def config(self) -> dict[str, Any] | None:
        """The content of config.json, or None where the model is a folder."""
        return None if self.config_json is None else dict(json.loads(self.config_json))


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How a server is started.

    Attributes:
        model: The model that is served.
        tensor_parallel: Number of tensor-parallel ranks; on ``cuda`` also the number of GPUs.
        device: ``cuda`` or ``cpu``.
        options: SGLang server arguments by their field name (``cuda_graph_max_bs``), rendered per SGLang version.
        environment: Variables set for the server process.
        startup_timeout_s: Seconds until the first completed token, at most.
        engine: ``sglang``, or ``standin`` for the scripted server whose truth is known.
    """

    model: ModelSpec
    tensor_parallel: int = 1
    device: Device = "cuda"
    options: Pairs = ()
    environment: tuple[tuple[str, str], ...] = ()
    startup_timeout_s: float = 900.0
    engine: Engine = "sglang"

    def __post_init__(self) -> None:
        _require(self.tensor_parallel >= 1, f"tensor_parallel is {self.tensor_parallel}", "1 or more")
        _require(self.startup_timeout_s > 0, f"startup_timeout_s is {self.startup_timeout_s}", "more than 0 s")

    @property
    def gpus(self) -> int:
        """GPUs that the server needs."""
        return self.tensor_parallel if self.device == "cuda" else 0

    def option(self, name: str, default: Scalar | None = None) -> Scalar | None:
        """Return the server argument called ``name``, or ``default``."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """One cell: a closed loop of ``concurrency`` requests in flight, or an open loop at ``rate`` requests a second.

    The warm-up requests come first and are handed over to the measured ones without draining the server.

    Attributes:
        concurrency: Requests in flight (closed loop), or their cap (open loop).
        requests: Measured requests.
        warmup_requests: Requests before them; at least one full wave in a closed loop.
        input_tokens: Tokens a prompt.
        output_tokens: Tokens asked for a request; the end-of-sequence token is ignored.
        seed: Seed of the prompts.
        label: Distinguishes two cells of one concurrency; becomes part of the cell's name.
        rate: Arrivals per second for an open loop; None is a closed loop.
        arrivals: Distribution of the arrivals of an open loop.
        api: Which endpoint is driven.
    """

    concurrency: int
    requests: int
    warmup_requests: int
    input_tokens: int = 256
    output_tokens: int = 256
    seed: int = 1
    label: str = ""
    rate: float | None = None
    arrivals: Literal["constant", "poisson"] = "constant"
    api: Api = "generate"

    def __post_init__(self) -> None:
        _require(self.concurrency >= 1, f"concurrency is {self.concurrency}", "1 or more")
        _require(self.requests >= 1, f"{self.cell}: requests is {self.requests}", "1 or more")
        _require(self.input_tokens >= 1, f"{self.cell}: input_tokens is {self.input_tokens}", "1 or more")
        _require(self.output_tokens >= 2, f"{self.cell}: output_tokens is {self.output_tokens}", "2 or more (TPOT)")
        if self.rate is None:
            _require(
                self.warmup_requests >= self.concurrency,
                f"{self.cell}: warmup_requests is {self.warmup_requests}",
                f"at least one full wave, {self.concurrency}",
            )
        else:
            _require(self.rate > 0, f"{self.cell}: rate is {self.rate}", "more than 0 requests a second")
            _require(self.warmup_requests >= 0, f"{self.cell}: warmup_requests is negative", "0 or more")

    @property
    def cell(self) -> str:
        """Name of the cell, made of names and never of a position: ``c64``, ``c64-96prompts``."""
        return f"c{self.concurrency}" + (f"-{self.label}" if self.label else "")


@dataclass(frozen=True, slots=True)
class Gate:
    """A promise about one metric.

    Attributes:
        metric: Name in :mod:`tpgate.measure.definitions`.
        tolerance: Largest relative worsening that the owner accepts, as a fraction (0.05 is 5 %).
        cells: Cells in which it is gated; empty means every cell.
        ceiling: Absolute limit in the metric's base unit, on top of the baseline.
    """

    metric: str
    tolerance: float
    cells: tuple[str, ...] = ()
    ceiling: float | None = None

    def __post_init__(self) -> None:
        _require(
            0 < self.tolerance < 1,
            f"gate {self.metric!r}: tolerance is {self.tolerance}",
            "a fraction between 0 and 1, such as 0.05 for 5 %",
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """What one suite of cells measures on one server launch, and what it promises.

    Attributes:
        name: Lower-case name, used in file names and test ids.
        server: The server.
        cells: Loads, driven in this order on one launch.
        gates: The promises.
        profile_cells: Cells that are profiled after all timed cells.
        profile_steps: Decode steps a profile.
        settings: Anything else that moves numbers and must be part of the digest.
    """

    name: str
    server: ServerSpec
    cells: tuple[LoadSpec, ...]
    gates: tuple[Gate, ...]
    profile_cells: tuple[str, ...] = ()
    profile_steps: int = 10
    settings: Pairs = field(default=())

    def __post_init__(self) -> None:
        _require(
            bool(_NAME.fullmatch(self.name)), f"scenario name {self.name!r}", "lower-case letters, digits, . and -"
        )
        names = [load.cell for load in self.cells]
        _require(bool(names), f"scenario {self.name}: no cells", "at least one LoadSpec")
        _require(len(set(names)) == len(names), f"scenario {self.name}: cells {names}", "distinct names (use label)")
        _require(bool(self.gates), f"scenario {self.name}: no gates", "at least one Gate")
        for wanted in self.profile_cells + tuple(cell for gate in self.gates for cell in gate.cells):
            _require(
                wanted in names or wanted == SCENARIO_CELL,
                f"scenario {self.name}: cell {wanted!r} is named by a gate or profile",
                f"one of {', '.join(names)}",
            )

    def cell(self, name: str) -> LoadSpec:
        """Return the cell called ``name``.

        Raises:
            ConfigError: The scenario has no such cell.
        """
        for load in self.cells:
            if load.cell == name:
                return load
        known = ", ".join(load.cell for load in self.cells)
        raise ConfigError(f"scenario {self.name} has no cell {name!r}", expected=f"one of {known}")

    def digest(self) -> str:
        """Return the digest of all that moves a number: model, server, cells; names of gates are left out."""
        value = {
            "server": _plain(asdict(self.server), drop=("startup_timeout_s",)),
            "cells": [asdict(load) for load in self.cells],
            "settings": list(self.settings),
        }
        return digest_of(json.loads(json.dumps(value)))


def _plain(value: dict[str, Any], drop: Iterable[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in set(drop)}


def load_digest(load: LoadSpec) -> str:
    """Return the digest of one cell's load."""
    return digest_of(asdict(load))
