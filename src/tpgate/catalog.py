"""Scenarios by name, read from a Python or TOML file: the library holds none of its own."""

from __future__ import annotations

import runpy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tpgate.errors import ConfigError, TpgateError
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, pairs

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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", expected="valid TOML") from error
    if not isinstance(tables, list):
        raise ConfigError(f"{path}: 'scenario' is not an array of tables", expected="[[scenario]] tables")
    return [_scenario(table, f"{path}: scenario {number + 1}") for number, table in enumerate(tables)]


def _scenario(table: dict[str, Any], where: str) -> Scenario:
    table = dict(table)
    server = dict(table.pop("server", {}))
    model = dict(server.pop("model", {}))
    cells, gates = table.pop("cells", []), table.pop("gates", [])
    if "config" in model:
        spec = ModelSpec.dummy(str(model.pop("name", "model")), model.pop("config"))
    else:
        spec = _convert(model, ModelSpec, f"{where}: server.model")
    server["options"] = pairs(**server.pop("options", {}))
    server["environment"] = tuple(sorted(server.pop("environment", {}).items()))
    server["model"] = spec
    table["server"] = _build(server, ServerSpec, f"{where}: server")
    table["cells"] = tuple(_convert(cell, LoadSpec, f"{where}: cells") for cell in cells)
    table["gates"] = tuple(_convert(gate, Gate, f"{where}: gates") for gate in gates)
    table["profile_cells"] = tuple(table.get("profile_cells", ()))
    table["settings"] = pairs(**table.pop("settings", {}))
    scenario: Scenario = _build(table, Scenario, where)
    return scenario


def _build(fields: dict[str, Any], kind: Any, where: str) -> Any:  # noqa: ANN401 - one of the spec classes
    _known(fields, kind, where)
    try:
        return kind(**fields)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}", expected=", ".join(kind.__dataclass_fields__)) from error


def _convert(fields: dict[str, Any], kind: Any, where: str) -> Any:  # noqa: ANN401 - one of the spec classes
    _known(fields, kind, where)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}", expected=", ".join(kind.__dataclass_fields__)) from error


def _known(fields: dict[str, Any], kind: Any, where: str) -> None:  # noqa: ANN401 - one of the spec classes
    unknown = sorted(set(fields) - set(kind.__dataclass_fields__))
    if unknown:
        raise ConfigError(f"{where}: unknown field {', '.join(unknown)}", expected=", ".join(kind.__dataclass_fields__))
