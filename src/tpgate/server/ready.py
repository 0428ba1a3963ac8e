"""When a server is ready: a token came from the very process that was started, and it is what was asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tpgate.errors import ServerError
from tpgate.server import flags, ports
from tpgate.server.api import Api
from tpgate.specs import Pairs, Scalar, ServerSpec

PROMPT = (1, 2, 3, 4)
_TRY_S = 60.0
_PAUSE_S = 0.2
_TELL_S = 10.0

Differences = dict[str, tuple[object, object]]
"""Argument: what was asked, what the server says."""


def wait(
    api: Api,
    port: int,
    *,
    deadline: float,
    ended: Callable[[], str | None],
    pids: Callable[[], Iterable[int]],
    tell: Callable[[], None],
) -> str | None:
    """Wait until a token was completed by one of ``pids``; return None, or why that will not be.

    Args:
        api: The server's endpoints.
        port: Port that the server was told to listen on.
        deadline: Moment on the monotonic clock after which waiting ends.
        ended: Returns the reason once the process has ended, else None.
        pids: Returns the processes of the server.
        tell: Called every few seconds.
    """
    last = "nobody listens on its port"
    told = time.monotonic()
    while True:
        reason = ended()
        if reason is not None:
            return reason
        now = time.monotonic()
        if now > deadline:
            return f"no token within the time allowed; at the end: {last}"
        if now - told > _TELL_S:
            told = now
            tell()
        if ports.answers(port):
            if not ports.holders(port, pids()):
                # It may have ended this moment, on finding the port taken: let that be the reason then.
                time.sleep(_PAUSE_S)
                if ended() is None and not ports.holders(port, pids()) and ports.answers(port):
                    return f"port {port} is answered by a process that is not the server that was started"
                continue
            try:
                api.generate_once(PROMPT, 2, timeout=max(1.0, min(_TRY_S, deadline - now)))
            except ServerError as error:
                last = error.what
            else:
                return None
        time.sleep(_PAUSE_S)


def differences(spec: ServerSpec, info: dict[str, Any], *, extra: Pairs = (), attached: bool = False) -> Differences:
    """Return the arguments that were asked for and that the server says are otherwise.

    Args:
        spec: What was asked for.
        info: The server's /server_info.
        extra: Options on top of those of ``spec``.
        attached: The server was started by somebody else: what moves no number need not be the same.
    """
    if spec.engine == "standin":
        wanted: dict[str, Scalar] = {"tp_size": spec.tensor_parallel, **flags.merged(spec, extra)}
    else:
        wanted = flags.asked(spec, str(info.get("version", "")), extra)
    if attached:
        wanted.pop("skip_tokenizer_init", None)
        wanted.pop("nccl_port", None)
    found = {name: info[name] for name in wanted if name in info}
    return {name: (wanted[name], got) for name, got in found.items() if not _equal(wanted[name], got)}


def essential(
    spec: ServerSpec, info: dict[str, Any], *, version: str | None, model_path: Path | None, port: int | None
) -> Differences:
    """Return what must never differ: version, ranks, device, model folder, port."""
    wanted: dict[str, object] = {"tp_size": spec.tensor_parallel}
    if port is not None:
        wanted["port"] = port
    if spec.engine != "standin":
        wanted["device"] = spec.device
        if version is not None:
            wanted["version"] = version
        if model_path is not None:
            wanted["model_path"] = str(model_path)
    return {name: (value, info.get(name)) for name, value in wanted.items() if info.get(name) != value}


def shown(found: Differences) -> str:
    """Return differences as one line."""
    return "; ".join(f"{name} is {_text(got)}, asked for {_text(want)}" for name, (want, got) in found.items())


def _text(value: object) -> str:
    return json.dumps(value, default=str)


def _equal(wanted: Scalar, got: object) -> bool:
    if isinstance(got, list):
        return str(wanted).replace(",", " ").split() == [str(entry) for entry in got]
    if isinstance(wanted, str) or isinstance(got, str):
        return str(wanted) == str(got)
    return wanted == got
