"""Changes of documents and of bytes, drawn from a seeded generator: the same seed makes the same inputs."""

from __future__ import annotations

import copy
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, 5e-324, float("nan"),
    float("inf"), "", "0", "-1", "nan", "\x00", "\ud800", "é" * 40, "../../etc/passwd", "<script>", "a" * 5000, "1e999",
    [], {}, [None], [[]], {"": None}, {"a": {"b": {}}}, [1, "a", None], "2026-03-01T00:00:00Z", "9999-99-99",
)  # fmt: skip
"""Values that stand where another was expected."""
TOKENS = (
    b"\x00", b"\xff\xfe", b"\r\n", b"\n\n", b"data: ", b"data:", b"[DONE]", b"{", b"}", b"[", b"]", b'"', b"\\", b",",
    b":", b"null", b"NaN", b"Infinity", b"-1", b"1e400", b"9" * 400, b"[" * 2000, b'{"a":' * 1500, b"HTTP/1.1 200 OK",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: -1\r\n", b"ffffffffffffffff\r\n", b"-5\r\n", b"0\r\n\r\n",
    b'"ph"', b'"cat": "kernel"', b'"traceEvents"', b'"dur": -1', b"\x1f\x8b", b"[[scenario]]\n", b"= ", b"'''", b"#",
)  # fmt: skip
"""Pieces of the formats, and of what is never one."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _places(item, (*path, index))
    return found


def changed_document(document: Any, chance: random.Random) -> Any:
    """Return a copy with one to three values replaced, removed, renamed or doubled."""
    made = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = _places(made)
        if not places:
            return made
        *way, last = chance.choice(places)
        parent = made
        for step in way:
            parent = parent[step]
        kind = chance.random()
        if kind < 0.7:
            parent[last] = copy.deepcopy(chance.choice(ODD))
        elif kind < 0.85:
            del parent[last]
        elif isinstance(parent, dict):
            parent[str(chance.choice(ODD))[:50]] = parent.pop(last)
        else:
            parent.append(copy.deepcopy(parent[last]))
    return made


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return a copy with some bytes flipped, cut out, doubled or put in, or with its end cut off."""
    made = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del made[at : at + chance.choice((1, 2, 16, 200))]
        elif kind == 2:
            made[at:at] = made[at : at + chance.choice((1, 8, 64, 500))]
        elif kind == 3:
            made[at:at] = chance.choice(TOKENS)
        elif kind == 4:
            made[at:at] = chance.randbytes(chance.choice((1, 4, 32)))
        else:
            del made[at:]
    return bytes(made)


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """Return the bytes as they might come from a socket: one read, a few, or one byte each."""
    if chance.random() < 0.1:
        return [data[i : i + 1] for i in range(len(data))]
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 3, 12))))
    return [part for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if (part := data[a:b])]
