"""A server that already runs and was started by somebody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpgate.errors import ConfigError, ServerError
from tpgate.redaction import conceal
from tpgate.server import ready
from tpgate.server.api import Api
from tpgate.specs import ServerSpec


@dataclass(frozen=True, slots=True)
class AttachedServer:
    """A server that this process did not start and does not stop; what cannot be known of it is None or empty.

    Attributes:
        url: Its address.
        info: Its /server_info.
        version: Version that it says it is.
        startup_s: None: it was there before.
        log_path: None: its log is elsewhere.
        argv: Its command line where it tells it, else empty.
        notes: What a reader of the results should know.
    """

    url: str
    info: dict[str, Any]
    version: str
    startup_s: float | None = None
    log_path: Path | None = None
    argv: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=("the server was not started by this run",))

    def pids(self) -> set[int]:
        """Return no process: they may be on another machine."""
        return set()

    def alive(self) -> str | None:
        """Return None where the server answers and is still the same version, else what is wrong."""
        try:
            info = Api(self.url, timeout=10.0).info()
        except ServerError as error:
            return error.what
        now = str(info.get("version", ""))
        return None if now == self.version else f"it was version {self.version} and is {now} now"

    def log_tail(self, lines: int = 25) -> str:
        """Return a sentence: there is no log to read."""
        del lines
        return f"(the log of {self.url} is not at hand)"


def attach(url: str, spec: ServerSpec | None = None) -> AttachedServer:
    """Return the server at ``url`` after comparing it with what the scenario asks for.

    Args:
        url: Address of the server.
        spec: What it must be; None takes any server.

    Raises:
        ConfigError: The server is another one than ``spec`` asks for; every differing field is named.
        ServerError: Nobody answers, or it completes no token.
    """
    if conceal(url, ()) != url:
        raise ConfigError(
            f"server URL {conceal(url, ())} holds a user name or password",
            expected="http://HOST:PORT (the client sends no credentials)",
            next_step="give the server's own address, without them",
        )
    api = Api(url)
    info = api.info()
    if spec is not None:
        wrong = ready.essential(spec, info, version=None, model_path=None, port=None)
        wrong |= ready.differences(spec, info, attached=True)
        if wrong:
            raise ConfigError(
                f"the server at {url} is not the scenario's: {ready.shown(wrong)}",
                expected="a server started with the scenario's arguments",
                next_step="start it with these arguments, or choose the scenario that it serves",
            )
    api.generate_once(ready.PROMPT, 2, timeout=120.0)
    argv = info.get("launch_command")
    return AttachedServer(api.url, info, str(info.get("version", "")), argv=(argv,) if isinstance(argv, str) else ())
