"""Scenarios by name, read from a Python or TOML file: the library holds none of its own."""

from __future__ import annotations

import json
import math
import runpy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tpgate.errors import ConfigError, TpgateError
from tpgate.specs import Gate, LoadSpec, ModelSpec, Pairs, Scenario, ServerSpec

DEFAULT_PATH = Path("perf_tests/scenarios.py")
"""Where scenarios are looked for when no file is named."""


def load(path: Path) -> dict[str, Scenario]:
    """Return the scenarios of a file, by name, in the file's order.

    A Python file binds ``SCENARIOS`` to a sequence of :class:`~tpgate.specs.Scenario`; it is executed, as a conftest.py
    is. A TOML file has one ``[[scenario]]`` table each; docs/quickstart.md shows one.

    Raises:
        ConfigError: The file is missing, is neither, or a scenario in it is wrong.
    """
    if not path.is_file():
        raise ConfigError(
            f"scenario file {path} does not exist",
            expected="a .py or .toml file that defines scenarios",
            next_step="run this in the folder that holds perf_tests/, or name the file (--scenarios FILE, "
            "--tpgate-scenarios FILE in pytest)",
        )
    if path.suffix == ".toml":
        found = _from_toml(path)
    elif path.suffix == ".py":
        found = _from_python(path)
    else:
        raise ConfigError(f"scenario file {path}", expected="a name that ends in .py or .toml")
    names = [scenario.name for scenario in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        what = f"scenarios {', '.join(twice)} stand twice" if twice else "no scenario"
        raise ConfigError(f"{path}: {what}", expected="at least one scenario, with distinct names")
    return {scenario.name: scenario for scenario in found}


def find(scenarios: Mapping[str, Scenario], name: str, path: Path) -> Scenario:
    """Return the scenario called ``name``.

    Raises:
        ConfigError: There is none; the known names are listed.
    """
    if name not in scenarios:
        known = ", ".join(scenarios)
        raise ConfigError(f"no scenario {name!r} in {path}", expected=f"one of {known}")
    return scenarios[name]


def _from_python(path: Path) -> list[Scenario]:
    try:
        names = runpy.run_path(str(path))
    except TpgateError:
        raise
    except Exception as error:  # the user's own file may raise anything; it is named and chained
        raise ConfigError(f"{path}: {type(error).__name__}: {error}", expected="a file that runs") from error
    scenarios = names.get("SCENARIOS")
    if not isinstance(scenarios, list | tuple) or not all(isinstance(s, Scenario) for s in scenarios):
        raise ConfigError(
            f"{path}: SCENARIOS is {type(scenarios).__name__}", expected="a tuple of tpgate.specs.Scenario"
        )
    return list(scenarios)


def _from_toml(path: Path) -> list[Scenario]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("scenario", [])
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}", expected="valid TOML") from error
    if not isinstance(tables, list):
        raise ConfigError(f"{path}: 'scenario' is not an array of tables", expected="[[scenario]] tables")
    return [_scenario(table, f"{path}: scenario {number + 1}") for number, table in enumerate(tables)]


def _scenario(given: object, where: str) -> Scenario:
    table = _table(given, where)
    server = _table(table.get("server", {}), f"{where}: server")
    server["model"] = _model(_table(server.get("model", {}), f"{where}: server.model"), f"{where}: server.model")
    server["options"] = _pairs(server.get("options", {}), f"{where}: server.options")
    server["environment"] = _pairs(server.get("environment", {}), f"{where}: server.environment")
    _known(server, ServerSpec, f"{where}: server")
    for name, kind in (("cells", LoadSpec), ("gates", Gate)):
        rows = table.get(name, [])
        if not isinstance(rows, list):
            raise ConfigError(f"{where}: {name} is not an array", expected=f"[[scenario.{name}]] tables")
        for row in rows:
            _known(_table(row, f"{where}: {name}"), kind, f"{where}: {name}")
    table |= {"server": server, "settings": _pairs(table.get("settings", {}), f"{where}: settings")}
    scenario: Scenario = _convert(table, Scenario, where)
    return scenario


def _model(table: dict[str, Any], where: str) -> dict[str, Any]:
    if "config" not in table:
        return _known(table, ModelSpec, where)
    config = _table(table.pop("config"), f"{where}.config")
    _known(table, ModelSpec, where)
    try:
        text = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}.config: {error}", expected="the content of a config.json") from error
    return {"name": "model"} | table | {"config_json": text}


def _table(value: object, where: str) -> dict[str, Any]:
    """Return a copy of a table."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is {type(value).__name__}", expected="a table")
    return dict(value)


def _pairs(value: object, where: str) -> Pairs:
    """Return a table of plain values as sorted pairs."""
    table = _table(value, where)
    for name, item in table.items():
        if not isinstance(item, str | int | float) or not (isinstance(item, str | int) or math.isfinite(item)):
            raise ConfigError(f"{where}.{name} is {item!r:.60}", expected="a string, a finite number, true or false")
    return tuple(sorted(table.items()))


def _convert(fields: dict[str, Any], kind: Any, where: str) -> Any:  # noqa: ANN401 - one of the spec classes
    _known(fields, kind, where)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}", expected=", ".join(kind.__dataclass_fields__)) from error


def _known(fields: dict[str, Any], kind: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 - one of the spec classes
    unknown = sorted(set(fields) - set(kind.__dataclass_fields__))
    if unknown:
        raise ConfigError(f"{where}: unknown field {', '.join(unknown)}", expected=", ".join(kind.__dataclass_fields__))
    return fields
