"""Units of the measured quantities and how they are printed.

Values are always stored in base units (s, B, token, W, J; a share is a fraction from 0 to 1); scaling happens only
here, when a value is shown to a person. The direction of a metric (which way is better) belongs to the metric and
stands in :mod:`tpgate.measure.definitions`, the only such table.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Literal

from tpgate.errors import ConfigError


class Better(enum.StrEnum):
    """Which way a metric improves; ``NEITHER`` is watched in both directions and never called a gain."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Unit:
    """A base unit: its stored symbol and the way it is scaled for people."""

    symbol: str
    scale: Literal["si", "binary", "percent", "plain"] = "si"
    base: str = ""
    suffix: str = ""


SECONDS = Unit("s", "si", "s")
SECONDS_PER_TOKEN = Unit("s/token", "si", "s", "/token")
SECONDS_PER_REQUEST = Unit("s/request", "si", "s", "/request")
TOKENS_PER_SECOND = Unit("token/s", "plain", "", " tok/s")
REQUESTS_PER_SECOND = Unit("request/s", "plain", "", " req/s")
REQUESTS = Unit("request", "plain", "", " req")
COUNT = Unit("count", "plain")
FRACTION = Unit("1", "percent")
RATIO = Unit("ratio", "plain", "", "x")
BYTES = Unit("B", "binary", "B")
BYTES_PER_SECOND = Unit("B/s", "si", "B", "/s")
BYTES_PER_TOKEN = Unit("B/token", "si", "B", "/token")
FLOPS_PER_SECOND = Unit("FLOP/s", "si", "FLOP", "/s")
WATTS = Unit("W", "si", "W")
JOULES_PER_TOKEN = Unit("J/token", "si", "J", "/token")
HERTZ = Unit("Hz", "si", "Hz")

_ALL = (
    SECONDS,
    SECONDS_PER_TOKEN,
    SECONDS_PER_REQUEST,
    TOKENS_PER_SECOND,
    REQUESTS_PER_SECOND,
    REQUESTS,
    COUNT,
    FRACTION,
    RATIO,
    BYTES,
    BYTES_PER_SECOND,
    BYTES_PER_TOKEN,
    FLOPS_PER_SECOND,
    WATTS,
    JOULES_PER_TOKEN,
    HERTZ,
)
_BY_SYMBOL = {unit.symbol: unit for unit in _ALL}
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_BINARY = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))


def unit_of(symbol: str) -> Unit:
    """Return the unit whose stored symbol is ``symbol``.

    Raises:
        ConfigError: The symbol is not one of this package's base units.
    """
    try:
        return _BY_SYMBOL[symbol]
    except KeyError:
        known = ", ".join(sorted(_BY_SYMBOL))
        raise ConfigError(f"unknown unit {symbol!r}", expected=f"one of {known}") from None


def _digits(value: float) -> str:
    """Three significant digits, without an exponent, and whole numbers from 100 on."""
    size = abs(value)
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def format_value(value: float | None, unit: Unit) -> str:
    """Return ``value`` (in base units) for people, such as ``7.9 ms/token`` or ``57.0 %``; a missing one is ``—``."""
    if value is None:
        return "—"
    if not math.isfinite(value):
        return str(value)
    if unit.scale == "percent":
        return f"{_digits(value * 100)} %"
    if unit.scale == "plain":
        return f"{_digits(value)}{unit.suffix}"
    steps = _BINARY if unit.scale == "binary" else _SI
    size = abs(value)
    factor, prefix = next((step for step in steps if size >= step[0]), steps[-1] if size else (1.0, ""))
    return f"{_digits(value / factor)} {prefix}{unit.base}{unit.suffix}"


def format_change(change: float | None) -> str:
    """Return a relative change (a fraction) as a signed percentage; a missing one is ``—``."""
    return "—" if change is None or not math.isfinite(change) else f"{change * 100:+.1f} %"
