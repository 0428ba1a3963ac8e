"""How a fault is put into a server: options for the stand-in, environment and arguments for SGLang."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from tpgate.server.faults.case import Case
from tpgate.specs import Pairs, ServerSpec

VARIABLE = "TPGATE_FAULTS"
PLUGIN = "tpgate_faults"


@dataclass(frozen=True, slots=True)
class Injection:
    """What is added to a server.

    Attributes:
        options: Server arguments.
        environment: Environment variables.
    """

    options: Pairs = ()
    environment: tuple[tuple[str, str], ...] = ()


def site_folder() -> Path:
    """Return the folder that makes the plugin and its entry point visible when it stands on PYTHONPATH."""
    return Path(__file__).parent / "site"


def fitted(case: Case, server: ServerSpec) -> Case:
    """Return ``case`` with the size that it has on ``server``."""
    if server.engine == "standin":
        return case
    if server.device == "cpu" and case.cpu:
        return replace(case, size=case.cpu_size, plugin=case.cpu)
    return replace(case, size=case.plugin_size or case.size)


def injection_of(case: Case, server: ServerSpec) -> Injection | None:
    """Return what injects ``case`` into ``server``, or None where the fault does not exist there."""
    case = fitted(case, server)
    if server.tensor_parallel < case.ranks:
        return None
    if case.fault == "nothing":
        return Injection()
    if server.engine == "standin":
        return Injection(options=case.standin) if case.standin else None
    if case.gpu and server.device != "cuda":
        return None
    if not case.plugin:
        return Injection(options=case.sglang) if case.sglang else None
    return Injection(options=case.sglang, environment=plugin_environment(dict(case.plugin), server))


def plugin_environment(faults: dict[str, float], server: ServerSpec) -> tuple[tuple[str, str], ...]:
    """Return the variables under which SGLang loads the plugin with these faults, other plugins kept."""
    before = dict(server.environment)
    plugins = [name for name in before.get("SGLANG_PLUGINS", "").split(",") if name]
    path = [str(site_folder()), before.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))]
    return (
        ("PYTHONPATH", os.pathsep.join(entry for entry in path if entry)),
        ("SGLANG_PLUGINS", ",".join([*plugins, PLUGIN])),
        (VARIABLE, json.dumps(faults, sort_keys=True)),
    )
