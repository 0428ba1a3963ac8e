"""Takes secrets out of a log that a server wrote: many print their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tpgate.redaction import conceal

_FORM: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
_LINES = 1 << 20
"""Bytes of lines that are looked at together."""


def conceal_file(path: Path, values: Sequence[str]) -> None:
    """Rewrite a log without these values, user info in URLs and well-known tokens, where it holds any.

    The writer must be gone. A log that cannot be rewritten, on a full disk, is removed rather than kept with a secret.
    """
    if not any(conceal(text, values) != text for text in _texts(path)):
        return
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("w", **_FORM) as made:
            for text in _texts(path):
                made.write(conceal(text, values))
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _texts(path: Path) -> Iterator[str]:
    """Yield a log in pieces of whole lines; nothing where it cannot be read."""
    try:
        with path.open(**_FORM) as file:
            while lines := file.readlines(_LINES):
                yield "".join(lines)
    except OSError:
        return
