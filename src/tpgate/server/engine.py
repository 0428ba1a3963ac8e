"""What is executed for a specification: interpreter, version, command line and environment of each engine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpgate.errors import ConfigError, ServerError
from tpgate.redaction import redact, secret_values
from tpgate.server import census, cpu, flags, ports
from tpgate.specs import Pairs, ServerSpec, pairs

CPU_PRIORITY = ("nice", "-n", "10")
"""In front of a CPU engine, which takes every core: the client on the same cores must wake up when a token arrives."""

_ASK_VERSION = "import importlib.metadata as m; print(m.version('sglang'))"


_QUIET = {census.MARKER, census.OWNER, "SPT_NOENV", "PYTHONUNBUFFERED", "NO_PROXY", "no_proxy"}


@dataclass(frozen=True, slots=True)
class Command:
    """A server's command line and the variables that are set for it on top of the caller's.

    Attributes:
        argv: Program and arguments.
        variables: Variables set for it.
        port: Port that it is told to listen on.
        version: Version of SGLang that it must say it is; None for the stand-in.
    """

    argv: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    port: int
    version: str | None

    def shell(self) -> str:
        """Return the command as one types it, without secrets and the variables that every launch sets."""
        shown = redact({name: value for name, value in self.variables if name not in _QUIET})
        words = [*(f"{name}={shlex.quote(value)}" for name, value in shown.items()), shlex.join(redact(self.argv))]
        return " ".join(words)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must stand in no log: of its own arguments and variables, and of the caller's variables."""
        return secret_values(self.argv, os.environ | dict(self.variables))


def installed_version(python: str) -> str:
    """Return the version of SGLang that the interpreter ``python`` has.

    Raises:
        ConfigError: The interpreter does not run, or has no SGLang.
    """
    advice = f"{shlex.quote(python)} -m pip install sglang, or name an interpreter that has it (--server-python)"
    try:
        answer = subprocess.run([python, "-c", _ASK_VERSION], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"interpreter {python}: {error}", expected="a Python with SGLang", next_step=advice
        ) from error
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or [f"status {answer.returncode}"])[-1]
        raise ConfigError(f"interpreter {python}: {last}", expected="a Python with SGLang", next_step=advice)
    return answer.stdout.strip()


def command(
    spec: ServerSpec,
    *,
    python: str,
    version: str | None,
    model_path: Path,
    port: int,
    nccl_port: int,
    extra: Pairs,
    gpus: Sequence[str],
    launch_id: str,
) -> Command:
    """Return what starts ``spec``.

    Args:
        spec: The server.
        python: Interpreter that has SGLang; the stand-in runs under this process's own.
        version: SGLang's version there; None for the stand-in.
        model_path: Folder of the model.
        port: Port to listen on.
        nccl_port: Port on which the ranks meet.
        extra: Options on top of the specification's.
        gpus: UUIDs or indices of the GPUs that it may see; empty leaves the caller's choice.
        launch_id: Value of the marker variable.

    Raises:
        ConfigError: An option is not one of this version.
        ServerError: A GPU's UUID is not one of this machine.
    """
    variables = dict(spec.environment)
    if spec.engine == "standin" or version is None:
        argv = [sys.executable, "-m", "tpgate.server.standin"]
        argv += flags.render_standin(spec, host=ports.HOST, port=port, extra=extra)
    else:
        if spec.device == "cpu":
            given = dict(extra)
            extra = (*extra, *((n, v) for n, v in cpu.options(spec) if n not in given))
            variables = _cpu_variables(spec)
        given_nccl = spec.option("nccl_port") is not None or "nccl_port" in dict(extra)
        if not given_nccl:
            extra = (*extra, *pairs(nccl_port=nccl_port))
        argv = [*(CPU_PRIORITY if spec.device == "cpu" else ()), python, "-m", "sglang.launch_server"]
        argv += flags.render(spec, version, model_path=model_path, host=ports.HOST, port=port, extra=extra)
    if gpus:
        variables |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(visible(gpus))}
    variables |= _common(launch_id)
    return Command(tuple(argv), tuple(variables.items()), port, version)


def _cpu_variables(spec: ServerSpec) -> dict[str, str]:
    own = dict(spec.environment)
    path = [str(cpu.SHIM), own.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))]
    plugins = [*own.get("SGLANG_PLUGINS", "").split(","), cpu.PLUGIN]
    return {
        **cpu.environment(spec.tensor_parallel),
        **own,
        "PYTHONPATH": os.pathsep.join(entry for entry in path if entry),
        "SGLANG_PLUGINS": ",".join(dict.fromkeys(name for name in plugins if name)),
    }


def _common(launch_id: str) -> dict[str, str]:
    """Marks of the launch; a title must not overwrite the marks; no proxy between a server and itself."""
    mine = census.read(os.getpid())
    started = 0 if mine is None else mine.started_ticks
    without_proxy = [os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")), ports.HOST, "localhost"]
    hosts = ",".join(host for host in without_proxy if host)
    return {
        census.MARKER: launch_id,
        census.OWNER: f"{os.getpid()}:{started}",
        "SPT_NOENV": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": hosts,
        "no_proxy": hosts,
    }


def visible(gpus: Sequence[str]) -> list[str]:
    """Return GPUs as indices in PCI order, since SGLang reads CUDA_VISIBLE_DEVICES as whole numbers.

    Raises:
        ServerError: nvidia-smi does not run, or does not know a UUID.
    """
    if not any(gpu.startswith("GPU-") for gpu in gpus):
        return list(gpus)
    ask = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    advice = f"run: {shlex.join(ask)}"
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"cannot map GPU UUIDs to indices: {error}", next_step=advice) from error
    index = {uuid: number for number, uuid in re.findall(r"^\s*(\d+)\s*,\s*(\S+)\s*$", answer, re.MULTILINE)}
    unknown = [gpu for gpu in gpus if gpu.startswith("GPU-") and gpu not in index]
    if unknown:
        known = ", ".join(index) or "none"
        raise ServerError(f"GPU {', '.join(unknown)} is not on this machine", expected=known, next_step=advice)
    return [index.get(gpu, gpu) for gpu in gpus]
