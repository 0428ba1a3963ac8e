"""What a launch ran on and with: the fields that must match before numbers are compared, and those that are shown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tpgate import __version__
from tpgate.host import packages, processor, topology
from tpgate.host.arguments import Plain, argument_keys, variable_keys
from tpgate.host.nvml import Gpu, Library, Missing, open_library
from tpgate.host.secrets import redact
from tpgate.specs import ModelSpec, ServerSpec, digest_of

Kind = Literal["key", "note"]

FIELDS: dict[str, tuple[Kind, str]] = {
    "hardware": ("key", "another machine is another baseline; also the baseline's folder"),
    "scenario": ("key", "digest of model shape, server options and loads: what was asked for"),
    "engine": ("key", "the stand-in's numbers are nobody's baseline for SGLang"),
    "gpu": ("key", "model of the GPUs"),
    "gpus": ("key", "how many the server was given"),
    "topology": ("key", "NVLink, PCIe peer-to-peer or the host: which all-reduce can run"),
    "pcie_link": ("key", "widest link that GPU and slot agree on; the ceiling of PCIe traffic"),
    "power_limit_w": ("key", "a lowered limit lowers clocks"),
    "mig": ("key", "a part of a GPU is another GPU"),
    "ecc": ("key", "takes memory and bandwidth on some models"),
    "driver_major": ("key", "a new branch brings new compilers and schedulers"),
    "driver": ("note", "its last digits hardly ever move numbers"),
    "cuda_driver": ("note", "follows the driver"),
    "cpu": ("key", "launch overhead, tokenizing and streaming run there"),
    "cpu_cores": ("key", "cores that the server may use"),
    "kernel": ("note", "changes with every security update"),
    "model_config": ("key", "digest of config.json: the shape that is computed"),
    "weights": ("key", "random weights route experts otherwise than real ones"),
    "sglang": ("key", "as the running server says, not as the installer meant"),
    "sglang_installed": ("note", "shown where it is not what the server says: a stale tree or another interpreter"),
    "measuring_code": ("key", "the way of measuring; a new minor version may measure differently"),
    "tpgate": ("note", "exact version of this package"),
    "python": ("note", "a new interpreter is rarely felt; the packages are keys"),
    "packages_digest": ("note", "everything that is installed; the packages that matter are keys"),
    "kv_cache_tokens": ("note", "follows the memory that was free at the start"),
    "gpu_uuids": ("note", "equal cards differ by a little; kept apart from what must match"),
    "hostname": ("note", "two equal machines share a baseline; shown, for heat differs between them"),
    "not_read": ("note", "what could not be read, and why"),
    "server.*": ("key", "every resolved argument that moves numbers: the backend that auto chose is among them"),
    "env.*": ("key", "variables that change kernels, collectives or scheduling"),
    "package.*": ("key", "libraries that hold kernels, collectives or the serving loop"),
}
"""Every field: whether it is a key or a note, and why. A name that ends in ``.*`` stands for a family."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a launch ran on and with, as plain values.

    Attributes:
        keys: Must be equal before numbers are compared.
        notes: Shown when they differ.
    """

    keys: dict[str, Plain]
    notes: dict[str, Plain]


def kind_of(name: str) -> Kind:
    """Return whether a field is a key or a note.

    Raises:
        KeyError: It does not stand in :data:`FIELDS`.
    """
    return FIELDS[name if name in FIELDS else name.partition(".")[0] + ".*"][0]


def identity(
    *,
    spec: ServerSpec,
    scenario_digest: str,
    server_info: Mapping[str, Any],
    python: str | None = None,
    gpus: Sequence[str | Gpu] = (),
    process_environment: Mapping[str, str] | None = None,
) -> Fingerprint:
    """Return what a launch ran on and with; nothing secret is in it, and what cannot be read is said so.

    Args:
        spec: How the server was started.
        scenario_digest: Digest of the scenario.
        server_info: What the running server answered on /server_info.
        python: The server's interpreter; None for a server that was not started here.
        gpus: The GPUs that it was given, by UUID.
        process_environment: The server's variables; None means this process's, under the ones of ``spec``.
    """
    variables = dict(os.environ) | dict(spec.environment) if process_environment is None else process_environment
    uuids = [gpu.uuid if isinstance(gpu, Gpu) else gpu for gpu in gpus]
    installed = packages.read(python, variables)
    values: dict[str, Plain] = {
        "scenario": scenario_digest,
        "engine": spec.engine,
        "cpu": processor.model(),
        "cpu_cores": processor.cores(),
        "kernel": platform.release(),
        "hostname": platform.node(),
        "measuring_code": ".".join(__version__.split(".")[:2]),
        "tpgate": __version__,
        "sglang": _version(server_info, installed),
        "python": installed.python,
        "packages_digest": installed.digest(),
        "kv_cache_tokens": _number(server_info.get("max_total_num_tokens")),
    }
    missing = [] if installed.reason is None else [f"packages: {installed.reason}"]
    own = installed.versions.get("sglang")
    if own is not None and own != values["sglang"]:
        values["sglang_installed"] = own
    values |= {f"package.{n}": installed.versions[n] for n in packages.WATCHED if n in installed.versions}
    values |= argument_keys(server_info) | variable_keys(variables)
    values |= _model(spec.model, variables, missing)
    values |= _gpus(uuids, missing) if spec.device == "cuda" else {"hardware": cpu_hardware()}
    if missing:
        values["not_read"] = "; ".join(missing)
    clean = {name: redact(value) for name, value in values.items()}
    return Fingerprint(
        keys={name: value for name, value in clean.items() if kind_of(name) == "key"},
        notes={name: value for name, value in clean.items() if kind_of(name) == "note" and value is not None},
    )


def cpu_hardware() -> str:
    """Return the name of this machine without GPUs, such as ``cpu-intel-xeon-gold-6430-32cores``."""
    return f"cpu-{processor.slug(processor.model())}-{processor.cores()}cores"


def gpu_hardware(names: Sequence[str]) -> str:
    """Return the name of some GPUs, such as ``nvidia-h200-x4``; of an unlike set, every model with its number."""
    counts = {name: names.count(name) for name in sorted(set(names))}
    return "-".join(f"{processor.slug(name)}-x{count}" for name, count in counts.items())


def _version(info: Mapping[str, Any], installed: packages.Packages) -> str | None:
    said = info.get("version")
    return str(said) if said else installed.versions.get("sglang")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _model(model: ModelSpec, variables: Mapping[str, str], missing: list[str]) -> dict[str, Plain]:
    if model.config is not None:
        return {"model_config": digest_of(model.config), "weights": "random"}
    path = Path(variables.get(model.path_variable or "", "")) / "config.json"
    try:
        return {"model_config": digest_of(json.loads(path.read_text(encoding="utf-8"))), "weights": model.name}
    except (OSError, ValueError) as error:
        missing.append(f"config.json of {model.name}: {type(error).__name__}")
        return {"model_config": None, "weights": model.name}


def _gpus(uuids: Sequence[str], missing: list[str]) -> dict[str, Plain]:
    library = open_library()
    if isinstance(library, Missing):
        missing.append(f"GPUs: {library.reason}")
        return {"hardware": f"unknown-gpu-x{len(uuids)}", "gpu": None, "gpus": len(uuids)}
    with library:
        found = library.gpus()
        chosen = [] if isinstance(found, Missing) else [gpu for gpu in found if gpu.uuid in uuids]
        if not chosen:
            missing.append(f"GPUs: {found.reason if isinstance(found, Missing) else 'NVML shows none of them'}")
            return {"hardware": f"unknown-gpu-x{len(uuids)}", "gpu": None, "gpus": len(uuids)}
        return _read_gpus(library, chosen, missing)


def _read_gpus(library: Library, gpus: Sequence[Gpu], missing: list[str]) -> dict[str, Plain]:
    def plain(name: str, value: Any) -> Any:  # noqa: ANN401 - a reading
        if isinstance(value, Missing):
            missing.append(f"{name}: {value.reason}")
            return None
        return value

    def each(name: str, values: Sequence[Any]) -> Plain:
        texts = {str(item) for value in values if (item := plain(name, value)) is not None}
        return ", ".join(sorted(texts)) or None

    def link(gpu: Gpu) -> str | Missing:
        generation, width = library.number(gpu, "link_generation_max"), library.number(gpu, "link_width_max")
        if isinstance(generation, Missing):
            return generation
        return width if isinstance(width, Missing) else f"Gen{generation:.0f} x{width:.0f}"

    def limit(gpu: Gpu) -> str | Missing:
        watts = library.number(gpu, "power_limit_w")
        return watts if isinstance(watts, Missing) else f"{watts:.0f}"

    driver = plain("driver", library.driver())
    return {
        "hardware": gpu_hardware([gpu.name for gpu in gpus]),
        "gpu": ", ".join(sorted({gpu.name for gpu in gpus})),
        "gpus": len(gpus),
        "gpu_uuids": ", ".join(gpu.uuid for gpu in gpus),
        "topology": topology.describe(library, gpus),
        "pcie_link": each("pcie_link", [link(gpu) for gpu in gpus]),
        "power_limit_w": each("power_limit_w", [limit(gpu) for gpu in gpus]),
        "mig": each("mig", [library.mode(gpu, "Mig") for gpu in gpus]),
        "ecc": each("ecc", [library.mode(gpu, "Ecc") for gpu in gpus]),
        "driver": driver,
        "driver_major": driver.partition(".")[0] if isinstance(driver, str) else None,
        "cuda_driver": plain("cuda_driver", library.cuda()),
    }
