"""Blocking calls to a server's own endpoints, over plain http.client; none of this is on the measured path."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from tpgate.errors import ConfigError, ServerError

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Api:
    """The endpoints of one server.

    Args:
        url: Address of the server, such as ``http://127.0.0.1:30000``.
        timeout: Seconds that a call may take.

    Raises:
        ConfigError: ``url`` is not an http address.
    """

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(f"server address {url!r}", expected="an address such as http://127.0.0.1:30000")
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._host = parts.hostname
        self._port = parts.port or 80

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> tuple[int, bytes]:
        """Make one call on its own connection and return status and body.

        Raises:
            ServerError: There is no answer; the URL and the reason are named.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout or self.timeout)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ServerError(
                f"{method} {self.url}{path}: no answer ({reason})",
                expected="a server that runs and answers",
                next_step="read the server's log; check the address and the port",
            ) from error
        finally:
            connection.close()

    def _ok(self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout: float | None = None) -> bytes:
        status, text = self.call(method, path, body, timeout=timeout)
        if status != 200:
            shown = text[:300].decode("utf-8", "replace").strip()
            raise ServerError(
                f"{method} {self.url}{path}: status {status}: {shown}",
                expected="status 200",
                next_step="read the server's log",
            )
        return text

    def _json(self, path: str, text: bytes) -> Any:  # noqa: ANN401 - JSON
        try:
            return json.loads(text)
        except ValueError as error:
            raise ServerError(
                f"{self.url}{path}: the answer is no JSON: {text[:80]!r}",
                expected="an SGLang server",
                next_step="check the address",
            ) from error

    def info(self) -> dict[str, Any]:
        """Return what /server_info answers (/get_server_info where that does not exist).

        Raises:
            ServerError: There is no answer, or it is no JSON object.
        """
        path = "/server_info"
        status, text = self.call("GET", path)
        if status == 404:
            path = "/get_server_info"
            text = self._ok("GET", path)
        elif status != 200:
            text = self._ok("GET", path)
        found = self._json(path, text)
        if not isinstance(found, dict):
            raise ServerError(f"{self.url}{path}: {type(found).__name__}", expected="a JSON object")
        return found

    def metrics(self) -> dict[str, float]:
        """Return the samples of /metrics by ``name`` or ``name{a="1",b="2"}``, labels sorted.

        Raises:
            ServerError: There is no answer, or metrics are off.
        """
        status, text = self.call("GET", "/metrics")
        if status == 404:
            raise ServerError(
                f"{self.url}/metrics: status 404",
                expected="a server that publishes metrics",
                next_step="start the server with --enable-metrics",
            )
        if status != 200:
            text = self._ok("GET", "/metrics")
        return parse_metrics(text.decode("utf-8", "replace"))

    def flush_cache(self) -> None:
        """Empty the prefix cache; the server must be idle, and is cold afterwards.

        Raises:
            ServerError: The server refuses, since requests are running or waiting.
        """
        status, text = self.call("POST", "/flush_cache")
        if status != 200:
            shown = text[:200].decode("utf-8", "replace").strip()
            raise ServerError(
                f"POST {self.url}/flush_cache: status {status}: {shown}",
                expected="an idle server",
                next_step="wait until no request is running; is another client driving this server?",
            )

    def generate_once(self, input_ids: Sequence[int], max_new_tokens: int = 1, *, timeout: float | None = None) -> int:
        """Complete one request and return the number of tokens that the server says it made.

        Raises:
            ServerError: There is no answer, or not a single token came.
        """
        body = {
            "input_ids": list(input_ids),
            "sampling_params": {"max_new_tokens": max_new_tokens, "temperature": 0.0, "ignore_eos": True},
        }
        path = "/generate"
        answer = self._json(path, self._ok("POST", path, body, timeout=timeout))
        made = answer.get("meta_info", {}).get("completion_tokens") if isinstance(answer, dict) else None
        if not isinstance(made, int) or made < 1:
            raise ServerError(
                f"POST {self.url}{path}: completion_tokens is {made!r}",
                expected=f"{max_new_tokens}",
                next_step="read the server's log",
            )
        return made

    def start_profile(
        self,
        *,
        output_dir: str,
        num_steps: int,
        activities: Sequence[str] = ("CPU", "GPU"),
        profile_by_stage: bool = False,
        with_stack: bool = False,
        record_shapes: bool = False,
        profile_prefix: str | None = None,
    ) -> None:
        """Ask for a profile of the next ``num_steps`` steps; the answer comes at its start, the files later.

        Raises:
            ServerError: The profiler does not start.
        """
        body: dict[str, Any] = {
            "output_dir": output_dir,
            "num_steps": num_steps,
            "activities": list(activities),
            "profile_by_stage": profile_by_stage,
            "with_stack": with_stack,
            "record_shapes": record_shapes,
        }
        if profile_prefix is not None:
            body["profile_prefix"] = profile_prefix
        self._ok("POST", "/start_profile", body)

    def stop_profile(self) -> None:
        """End a profile that was started without a number of steps.

        Raises:
            ServerError: No profile runs, or there is no answer.
        """
        self._ok("POST", "/stop_profile")


def parse_metrics(text: str) -> dict[str, float]:
    """Return the samples of a Prometheus text page; lines that are no sample are left out."""
    samples: dict[str, float] = {}
    for line in text.split("\n"):
        found = None if line.startswith("#") else _SAMPLE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        labels = ",".join(f'{name}="{shown}"' for name, shown in sorted(_LABEL.findall(found[2] or "")))
        samples[f"{found[1]}{{{labels}}}" if labels else found[1]] = value
    return samples
