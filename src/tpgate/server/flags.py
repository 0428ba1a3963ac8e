"""From a server's specification to the command line that starts it, per SGLang version.

Options in a :class:`~tpgate.specs.ServerSpec` carry the field names of SGLang's server arguments. Where a release
renamed one, either name may be given and the name of the installed release is rendered. The table was read off the
argument definitions of the releases 0.5.9, 0.5.10, 0.5.12 to 0.5.16, 0.5.20 and 0.5.23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tpgate.errors import ConfigError
from tpgate.specs import Pairs, Scalar, ServerSpec

OLDEST = (0, 5, 9)
NEWEST = (0, 5, 23)
SUPPORTED = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Rename:
    """A server argument that is called ``old`` before the release ``since`` and ``new`` from it on."""

    old: str | None
    new: str | None
    since: Version


RENAMES = (
    Rename("cuda_graph_max_bs", "cuda_graph_max_bs_decode", (0, 5, 14)),
    Rename("cuda_graph_bs", "cuda_graph_bs_decode", (0, 5, 14)),
    Rename("disable_piecewise_cuda_graph", "disable_prefill_cuda_graph", (0, 5, 14)),
    Rename("stream_output", "incremental_streaming_output", (0, 5, 10)),
    Rename(None, "disable_decode_cuda_graph", (0, 5, 14)),
    Rename(None, "cuda_graph_max_bs_prefill", (0, 5, 14)),
    Rename(None, "cuda_graph_config", (0, 5, 14)),
)
_OWN = {
    "model_path": "ServerSpec.model",
    "tp_size": "ServerSpec.tensor_parallel",
    "tp": "ServerSpec.tensor_parallel",
    "tensor_parallel_size": "ServerSpec.tensor_parallel",
    "host": "nothing: a server listens on the loopback address",
    "port": "the port argument of process.start",
}


def parse_version(version: str) -> Version:
    """Return the first three numbers of ``version``; suffixes such as ``.post1`` or ``rc2`` are left out.

    Raises:
        ConfigError: ``version`` does not begin with three numbers.
    """
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        raise ConfigError(
            f"SGLang says that its version is {version!r}",
            expected=f"a release from {SUPPORTED}",
            next_step="pip install sglang==0.5.23 in the server's environment",
        )
    return (int(found[1]), int(found[2]), int(found[3]))


def supported(version: str) -> str | None:
    """Return None where flags of ``version`` are known, else a sentence that says what is done instead.

    Raises:
        ConfigError: ``version`` is older than the oldest known release; its flags would be guesses.
    """
    parsed = parse_version(version)
    if parsed < OLDEST:
        raise ConfigError(
            f"SGLang {version} is older than the releases whose flags are known",
            expected=f"a release from {SUPPORTED}",
            next_step="upgrade SGLang in the server's environment",
        )
    if parsed > NEWEST:
        newest = ".".join(map(str, NEWEST))
        return f"SGLang {version} is newer than {newest}, the newest known; its flags are rendered as for {newest}"
    return None


def canonical(name: str, version: str) -> str:
    """Return the name that the release ``version`` gives the server argument ``name``.

    Raises:
        ConfigError: The release has no such argument.
    """
    parsed = parse_version(version)
    for rename in RENAMES:
        if name not in (rename.old, rename.new):
            continue
        current = rename.new if parsed >= rename.since else rename.old
        if current is None:
            raise ConfigError(
                f"server option {name!r}: SGLang {version} has no such argument",
                expected=f"SGLang {'.'.join(map(str, rename.since))} or newer",
                next_step="drop the option, or use a newer SGLang",
            )
        return current
    return name


def merged(spec: ServerSpec, extra: Pairs = ()) -> dict[str, Scalar]:
    """Return the options of ``spec`` with those of ``extra`` on top.

    Raises:
        ConfigError: An option sets what another field of the specification sets.
    """
    options = dict(spec.options) | dict(extra)
    for name in options:
        if name in _OWN:
            raise ConfigError(f"server option {name!r} is not an option", expected=f"set it by {_OWN[name]}")
    return options


def asked(spec: ServerSpec, version: str, extra: Pairs = ()) -> dict[str, Scalar]:
    """Return every server argument that is asked for, by the release's own names, without address and model path."""
    defaults: dict[str, Scalar] = {"device": spec.device, "skip_server_warmup": True}
    if spec.model.config_json is not None:
        defaults |= {"load_format": "dummy", "skip_tokenizer_init": True}
    wanted: dict[str, Scalar] = {"tp_size": spec.tensor_parallel}
    for name, value in (defaults | merged(spec, extra)).items():
        current = canonical(name, version)
        if current in wanted and wanted[current] != value:
            raise ConfigError(
                f"server option {current!r} is given twice, as {wanted[current]!r} and {value!r}",
                expected="one value (an argument may be given by its old or its new name, not both)",
            )
        wanted[current] = value
    return wanted | {canonical("incremental_streaming_output", version): True, "enable_metrics": True}


def render(spec: ServerSpec, version: str, *, model_path: Path, host: str, port: int, extra: Pairs = ()) -> list[str]:
    """Return the arguments of ``python -m sglang.launch_server`` for the release ``version``.

    Streaming output is always incremental (cumulative output costs O(n^2) bytes) and metrics are always on. SGLang's
    own warm-up request is left out: readiness is a token of ours, and a request of the server's own would stand in its
    counters beside the first cell's.

    Args:
        spec: The server.
        version: SGLang's version in the server's environment.
        model_path: Folder of the model.
        host: Address to listen on.
        port: Port to listen on.
        extra: Options on top of those of ``spec``.

    Raises:
        ConfigError: The version is too old, or an option is not one.
    """
    supported(version)
    argv = ["--model-path", str(model_path), "--host", host, "--port", str(port)]
    for name, value in asked(spec, version, extra).items():
        argv += _flag(name, value)
    return argv


def render_standin(spec: ServerSpec, *, host: str, port: int, extra: Pairs = ()) -> list[str]:
    """Return the arguments of ``python -m tpgate.server.standin``: every option as ``--dashed-name value``."""
    argv = ["--host", host, "--port", str(port), "--tp", str(spec.tensor_parallel)]
    for name, value in merged(spec, extra).items():
        argv += [f"--{name.replace('_', '-')}", str(int(value) if isinstance(value, bool) else value)]
    return argv


def _flag(name: str, value: Scalar) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else []
    if name.endswith(("_graph_bs", "_graph_bs_decode", "_graph_bs_prefill")):
        return [flag, *str(value).replace(",", " ").split()]
    return [flag, str(value)]
