"""Which resolved server arguments and variables identify a measurement, and which differ between equal launches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from tpgate.host.secrets import is_secret, redact
from tpgate.specs import digest_of

Plain = str | int | float | bool | None

LEFT_OUT: tuple[tuple[str, str], ...] = (
    (r"(^|_)ports?$", "drawn or chosen per launch, moves nothing"),
    (r"(^|_)(host|hostname|ip|addr|address|endpoint|endpoints|url|urls)$", "where it listens or whom it calls"),
    (r"(^|_)seed$", "random unless the scenario fixes it, and then the scenario's digest holds it"),
    (r"(^|_)(path|paths|dir|folder|file|keyfile|certfile|ca_certs|root_path|sock|socket)$", "a place on this machine"),
    (r"^(served_model_name|weight_version|model_checksum|custom_sigquit_handler|ipc_name|worker_id)$", "a label"),
    (r"^log_|_log_|^uvicorn_|^show_time_cost$|^decode_log_interval$", "what is logged"),
    (r"(watchdog|dist)_timeout$|^crash_dump|^gc_warning", "when it gives up or complains"),
    (r"^(node_rank|base_gpu_id|gpu_id_step)$", "which GPUs it got; the hardware is a key of its own"),
    (r"_ipc_name$|_worker_id$|_group_ports$", "drawn per launch"),
    (r"^(status|version|internal_states|kv_events)$", "the server's state, not an argument"),
    (r"^(launch_command|startup_time|startup_times|env|envs|env_vars|environment)(\.|$)", "how this launch went"),
    (r"^max_total_num_tokens$|^max_req_input_len$", "follows the memory that was free; kept as a note"),
    (r"^pp_max_micro_batch_size$", "follows it too; where the scenario fixes it, its digest holds it"),
    (r"^_", "private bookkeeping of the server"),
)
"""Server arguments that are no keys: pattern of the name, and why. Everything else is a key."""

KEPT_BY_NAME = re.compile(r"^(speculative_draft_model_path|quantization_param_path|kt_weight_path|lora_paths)$")
"""Paths of which the last part is a key: another file there is another measurement."""

VARIABLES = re.compile(
    r"^(SGLANG_|SGL_|NCCL_|FLASHINFER_|TRITON_|TORCH_|TORCHINDUCTOR_|PYTORCH_|CUDA_|OMP_|KMP_|MKL_|CUBLAS_|DG_|"
    r"DEEPEP_|NVSHMEM_|LD_PRELOAD$|MALLOC_|GLIBC_TUNABLES$)"
)
"""Environment variables that can move numbers."""
_VARIABLES_LEFT_OUT = re.compile(
    r"^CUDA_VISIBLE_DEVICES$|^CUDA_(HOME|PATH|ROOT|VERSION)|_VERSION$|_(DIR|PATH|HOME|ROOT|PORT|HOST|FILE|FOLDER|SEED)$|"
    r"(^|_)LOG(S|GING)?(_|$)|^NCCL_DEBUG|^CUDA_DEVICE_ORDER$"
)
_LONGEST = 120


def left_out(name: str) -> str | None:
    """Return why a server argument is no key, or None where it is one."""
    if KEPT_BY_NAME.search(name):
        return None
    if is_secret(name):
        return "a secret"
    return next((reason for pattern, reason in LEFT_OUT if re.search(pattern, name)), None)


def resolved(server_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return every argument as the running server resolved it.

    The scheduler's own copy (``internal_states``) wins over the copy of the front end: it holds what "auto" became.
    """
    arguments = dict(server_info.get("server_args") or server_info)
    states = server_info.get("internal_states")
    if isinstance(states, list) and states and isinstance(states[0], Mapping):
        arguments.update({name: value for name, value in states[0].items() if name in arguments})
    return arguments


def argument_keys(server_info: Mapping[str, Any]) -> dict[str, Plain]:
    """Return the arguments that identify a measurement, as plain values under ``server.NAME``.

    An argument that is unset, off or empty is left away, so that None, False and "" are one and the same, and a new
    SGLang's new switches that are off change no identity.
    """
    keys: dict[str, Plain] = {}
    for name, value in sorted(resolved(server_info).items()):
        if left_out(name) is None:
            kept = _last_parts(value) if KEPT_BY_NAME.search(name) else value
            keys.update(_leaves(f"server.{name}", redact(kept)))
    return keys


def variable_keys(environment: Mapping[str, str]) -> dict[str, Plain]:
    """Return the environment variables that identify a measurement, under ``env.NAME``; never a secret one."""
    wanted = [name for name in sorted(environment) if VARIABLES.search(name) and not _VARIABLES_LEFT_OUT.search(name)]
    kept = {name: environment[name] for name in wanted if not is_secret(name)}
    places = {name: value for name, value in kept.items() if value.startswith(("/", "~", "."))}
    return {
        f"env.{name}": PurePath(value).name if name in places else redact(value)
        for name, value in kept.items()
        if name == "LD_PRELOAD" or name not in places
    }


def _last_parts(value: Any) -> Any:  # noqa: ANN401 - an argument's value
    if isinstance(value, str):
        return PurePath(value).name
    if isinstance(value, list):
        return [_last_parts(item) for item in value]
    return value


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Plain]]:  # noqa: ANN401
    """Yield (path, plain value) of a value that is set: nested tables by dotted path, long lists by their digest."""
    if value is None or value is False or value == "" or value == [] or value == {}:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}", item)
    elif isinstance(value, str | int | float):
        yield path, value
    else:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
        yield path, text if len(text) <= _LONGEST else f"digest {digest_of(text)}"
