"""The pages that only show something: health, model, server arguments, counters, the truth."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tpgate.server.standin.settings import Faults
from tpgate.server.standin.steps import decode_seconds, prefill_seconds
from tpgate.server.standin.trace import ranks

if TYPE_CHECKING:
    from tpgate.server.standin.app import Standin
    from tpgate.server.standin.http import Connection

_SHOWN_TRUTH = (1, 4, 8, 16, 64)


def say(text: str) -> None:
    """Write to the server's log."""
    sys.stdout.write(text)
    sys.stdout.flush()


def version(server: Standin) -> str:
    """Return the version that the server says it is, which ``--fault-version-after-requests`` changes on the way."""
    after = server.settings.faults.version_after_requests
    changed = bool(after) and server.answered >= after
    return server.settings.version + (".post1" if changed else "")


def server_info(server: Standin) -> dict[str, Any]:
    """Return what /server_info answers: resolved arguments, internal state, version, and the truth of this server.

    Faults stand in the private block ``_standin`` alone: a server that is worse does not say so in its arguments.
    """
    settings = server.settings
    own = asdict(settings)
    faults = own.pop("faults")
    tp = ranks(settings)
    truth = {str(running): decode_seconds(settings, running) for running in _SHOWN_TRUTH}
    standin = {
        **server.lateness.summary(),
        "decode_steps": server.scheduler.decode_steps,
        "decode_step_s": truth,
        "prefill_s": prefill_seconds(settings),
        "faults": {name: value for name, value in faults.items() if value != getattr(Faults(), name)},
    }
    return {
        **server.shown,
        "model_path": settings.model_path,
        "served_model_name": settings.served_model_name,
        "tp_size": tp,
        "max_running_requests": settings.max_running_requests,
        "stream_interval": settings.stream_interval,
        "incremental_streaming_output": bool(settings.incremental_streaming_output),
        "disable_cuda_graph": bool(settings.disable_cuda_graph),
        "disable_radix_cache": bool(settings.disable_radix_cache),
        "decode_log_interval": settings.decode_log_interval,
        "host": settings.host,
        "port": settings.port,
        "step_ms": settings.step_ms,
        "per_request_ms": settings.per_request_ms,
        "prefill_ms": settings.prefill_ms,
        "layers": settings.layers,
        "status": "ready",
        "internal_states": [{"last_gen_throughput": server.counters.throughput}],
        "version": version(server),
        "_standin": standin,
    }


def answer(server: Standin, path: str, connection: Connection) -> None:
    """Answer a request for a page."""
    if path in ("/server_info", "/get_server_info"):
        connection.answer_json(server_info(server))
    elif path in ("/model_info", "/get_model_info"):
        settings = server.settings
        connection.answer_json(
            {"model_path": settings.model_path, "tokenizer_path": settings.model_path, "is_generation": True}
        )
    elif path in ("/health", "/health_generate", "/ready"):
        connection.answer(503 if server.settings.faults.never_ready else 200, b"", "text/plain")
    elif path == "/metrics":
        text = server.counters.render(server.settings)
        connection.answer(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
    elif path == "/v1/models":
        name = server.settings.served_model_name
        connection.answer_json({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "sglang"}]})
    elif path == "/standin/truth":
        connection.answer_json({**server.lateness.summary(), "requests": list(server.lateness.requests)})
    elif path == "/standin/reset":
        server.lateness.clear()
        connection.answer_json({})
    else:
        connection.answer_json({"detail": "Not Found"}, 404)
