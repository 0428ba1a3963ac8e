"""What must never be stored: keys, tokens and passwords in arguments, URLs and environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "***"
"""What stands in place of a secret."""
SHORTEST = 6
"""Characters of a value below which it is not looked for in other text: it would be found in half of the words."""

_NAME = re.compile(
    r"(?:^|[^a-z])(?:api[_-]?key|apikey|access[_-]?key|private[_-]?key|secret|password|passwd|credentials?|"
    r"authorization|bearer|cookie)(?:$|[^a-z])|(?:^|[^a-z])(?:token|auth|key_password|pat|pwd)$",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}|"
    r"nvapi-[\w-]{12,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_BEARER = re.compile(r"(\bbearer|authorization:\s*basic)\s+[^\s\"']+", re.IGNORECASE)
_VALUE = r"(\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)"
_ASSIGNED = re.compile(r"([\w.-]+)(\s*[=:]\s*)" + _VALUE)
_FLAG = re.compile(r"(?<!\S)(--?[\w.-]+)(\s+)(?!-)" + _VALUE)


def is_secret(name: str) -> bool:
    """Return whether a field, argument, query parameter or variable of this name holds a secret.

    ``hf_token`` and ``--api-key`` do; ``max_total_tokens`` and ``tokenizer_path`` do not.
    """
    return bool(_NAME.search(name))


def redact(value: Any) -> Any:  # noqa: ANN401 - any JSON-like value
    """Return ``value`` with every secret in it replaced, at any depth.

    Looks at names (mapping keys, ``--flag value``, ``NAME=value``, URL parameters), at user info in URLs, and at the
    shapes of well-known tokens. A list is read as an argument vector: what follows a secret flag is replaced too.

    Args:
        value: A string, a mapping, a sequence, or any other value, which is returned as it is.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if is_secret(str(key)) and item not in (None, "", False) else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return tuple(_vector(value)) if isinstance(value, tuple) else _vector(value)
    return value


def _vector(words: Sequence[Any]) -> list[Any]:
    kept: list[Any] = []
    hide = False
    for word in words:
        flag = isinstance(word, str) and word.startswith("-")
        kept.append(HIDDEN if hide and not flag else redact(word))
        hide = flag and "=" not in word and is_secret(word)
    return kept


def _text(text: str) -> str:
    text = _USERINFO.sub(f"{HIDDEN}@", text)
    text = _BEARER.sub(lambda match: f"{match.group(1)} {HIDDEN}", text)
    text = _SHAPES.sub(HIDDEN, text)
    return _FLAG.sub(_hidden, _ASSIGNED.sub(_hidden, text))


def _hidden(match: re.Match[str]) -> str:
    name, between, value = match.groups()
    return f"{name}{between}{HIDDEN if is_secret(name) else _ASSIGNED.sub(_hidden, value)}"


def secret_values(argv: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of secret arguments and variables, longest first: what must not stand in any text."""
    found = {value for name, value in variables.items() if is_secret(name)}
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("-") and is_secret(name):
            found.add(value if equals else following)
    return tuple(sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True))


def conceal(text: str, values: Sequence[str]) -> str:
    """Return a log's text without these values, user info in URLs and well-known tokens.

    Unlike :func:`redact` it does not look at names: ``#token: 128`` is no secret in a log.
    """
    for value in values:
        text = text.replace(value, HIDDEN)
    return _SHAPES.sub(HIDDEN, _USERINFO.sub(f"{HIDDEN}@", text))
