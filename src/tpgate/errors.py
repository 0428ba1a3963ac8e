"""The exceptions of this package: each says what was being read, what was expected, and what to type next."""

from __future__ import annotations


class TpgateError(Exception):
    """Root of every error that this package raises on purpose.

    Args:
        what: What went wrong, naming the file, URL or field that was being read.
        expected: What would have been right.
        next_step: The command to type, or the thing to change, next.
    """

    def __init__(self, what: str, *, expected: str | None = None, next_step: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.next_step = next_step

    def __str__(self) -> str:
        lines = [self.what]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


class ConfigError(TpgateError):
    """An option, scenario or settings file is wrong; nothing was started."""


class HostError(TpgateError):
    """The machine is not fit to measure on, or a part of it cannot be read."""


class ServerError(TpgateError):
    """The server did not start, died, hung, or is not the one that was asked for."""


class LoadError(TpgateError):
    """The load client could not do its work."""


class TraceError(TpgateError):
    """A profiler trace is missing, cut off, or not what it says it is."""


class BaselineError(TpgateError):
    """A baseline or result file cannot be used."""
