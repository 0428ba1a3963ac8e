"""Turns columns of raw bytes into integers, a chunk at a time: the numbers of many events at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tpgate.trace.events import Ints

INVALID = -(1 << 62)
"""Stands for a time that is no finite number, or one that no clock shows."""

_CORRELATION = re.compile(rb'"correlation"\s*:\s*"?(\d{1,18})(?!\d)')
_ZERO, _POINT = 48, 46
_EXACT_US = 4e12


def nanoseconds(text: bytes) -> int:
    """Return a time in microseconds, as the file writes it, in ns; its fraction is kept.

    Raises:
        ValueError: It is no finite number.
        OverflowError: It is infinite.
    """
    whole, _, fraction = text.partition(b".")
    if whole.isdigit() and (fraction.isdigit() or not fraction):
        return int(whole) * 1000 + round(int(fraction[:9].ljust(9, b"0")) / 1e6)
    return round(float(text.strip(b'"')) * 1e3)


def times(texts: Sequence[bytes]) -> Ints:
    """Return many times in ns, :data:`INVALID` where one is no finite number.

    Where all have as many digits and three decimals, as start times have, they are added up digit by digit, exactly.
    Shorter ones, such as durations, go through a float, which is exact to a ns up to 4e12 microseconds.
    """
    column = np.array(texts)
    width = column.dtype.itemsize
    digits = column.view(np.uint8).reshape(len(texts), width).astype(np.int64) - _ZERO
    point = width - 4
    if 4 < width <= 20 and (digits[:, point] == _POINT - _ZERO).all():
        digits = np.delete(digits, point, axis=1)
        if ((digits >= 0) & (digits <= 9)).all() and (width < 20 or (digits[:, 0] < 4).all()):
            return np.asarray(digits @ (10 ** np.arange(width - 2, -1, -1, dtype=np.int64)))
    try:
        values = column.astype(np.float64)
    except ValueError:
        return np.array([_one(text) for text in texts], dtype=np.int64)
    finite = np.isfinite(values)
    if not (np.abs(values[finite]) < _EXACT_US).all():
        return np.array([_one(text) for text in texts], dtype=np.int64)
    found = np.full(len(texts), INVALID, dtype=np.int64)
    found[finite] = np.rint(values[finite] * 1e3).astype(np.int64)
    return found


def _one(text: bytes) -> int:
    try:
        found = nanoseconds(text)
    except (ValueError, OverflowError):
        return INVALID
    return found if abs(found) < -INVALID else INVALID


def integers(texts: Sequence[bytes], *, digits: int = 18) -> list[int]:
    """Return process and stream numbers, -1 where one is no number of so many digits at most."""
    known: dict[bytes, int] = {}
    for text in set(texts):
        bare = text.strip(b'"')
        known[text] = int(bare) if bare.isdigit() and len(bare) <= digits else -1
    return [known[text] for text in texts]


def correlations(args: Sequence[bytes]) -> Ints:
    """Return the correlation id in each event's arguments, -1 where there is none."""
    found = _CORRELATION.findall(b"\0".join(args))
    if len(found) != len(args):
        matches = [_CORRELATION.search(text) for text in args]
        found = [match[1] if match else b"-1" for match in matches]
    return np.array(found).astype(np.int64) if found else np.zeros(0, dtype=np.int64)
