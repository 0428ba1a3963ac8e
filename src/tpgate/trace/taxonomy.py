"""Says what a kernel's name stands for, by an ordered table of rules that users can put their own in front of."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tpgate.errors import ConfigError
from tpgate.trace.names import Name, parse

CATEGORIES = (
    "attention",
    "communication",
    "moe",
    "gemm",
    "norm",
    "activation",
    "rope",
    "kv_cache",
    "quantisation",
    "linear_attention",
    "sampling",
    "memory",
    "elementwise",
    "other",
    "unclassified",
)
UNCLASSIFIED = "unclassified"
VARIABLE = "TPGATE_TAXONOMY"
"""Environment variable that names a file of rules to put in front of the built-in ones."""

_BUILT_IN = Path(__file__).with_name("taxonomy.toml")
_KEYS = frozenset({"category", "part", "in", "match", "fused", "why"})


@dataclass(frozen=True, slots=True)
class Category:
    """What a kernel's name says.

    Attributes:
        name: One of :data:`CATEGORIES`.
        part: A finer name inside it, such as ``nccl`` or ``indexer``; may be empty.
        fused: Categories whose work the kernel also does.
        family: Name of the kernel that survives a rebuild.
        why: Reason of the rule that decided.
    """

    name: str
    part: str
    fused: tuple[str, ...]
    family: str
    why: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; see the head of ``taxonomy.toml``."""

    category: str
    where: Literal["head", "body"]
    match: re.Pattern[str]
    part: str = ""
    fused: tuple[str, ...] = ()
    why: str = ""

    def applies(self, name: Name) -> bool:
        """Whether the rule matches the name."""
        return self.match.search(name.head if self.where == "head" else name.body) is not None


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """An ordered table of rules.

    Attributes:
        rules: The rules, first match wins.
        version: Version of the built-in table.
        digest: 16 hexadecimal digits over all files it was made of; shares of two digests are not compared.
    """

    rules: tuple[Rule, ...]
    version: int
    digest: str

    def classify(self, name: str) -> Category:
        """Return what the kernel called ``name`` does."""
        parsed = parse(name)
        for rule in self.rules:
            if rule.applies(parsed):
                return Category(rule.category, rule.part, rule.fused, parsed.family, rule.why)
        return Category(UNCLASSIFIED, "", (), parsed.family, "no rule matches")


def classify(name: str) -> Category:
    """Return what the kernel called ``name`` does, by the default taxonomy."""
    return default().classify(name)


def default() -> Taxonomy:
    """Return the built-in taxonomy, behind the rules of the file that ``TPGATE_TAXONOMY`` names, if any.

    Raises:
        ConfigError: That file cannot be read or has a wrong rule.
    """
    extra = os.environ.get(VARIABLE)
    return load(Path(extra) if extra else None)


@lru_cache(maxsize=8)
def load(extra: Path | None = None) -> Taxonomy:
    """Return the built-in taxonomy, with the rules of ``extra`` in front of it.

    Raises:
        ConfigError: The file cannot be read, or has a wrong rule.
    """
    files = [_BUILT_IN] if extra is None else [extra, _BUILT_IN]
    rules: list[Rule] = []
    texts: list[bytes] = []
    version = 0
    for path in files:
        try:
            text = path.read_bytes()
            table = tomllib.loads(text.decode())
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{path}: {error}",
                expected="a TOML file of [[rule]] tables",
                next_step=f"mend the file, or unset {VARIABLE}",
            ) from error
        texts.append(text)
        version = int(table.get("version", version))
        rules += [_rule(path, number, row) for number, row in enumerate(table.get("rule", []), 1)]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    return Taxonomy(tuple(rules), version, digest)


def _rule(path: Path, number: int, row: dict[str, Any]) -> Rule:
    where = f"{path}: rule {number}"
    unknown = sorted(row.keys() - _KEYS)
    category, scope = row.get("category"), row.get("in", "head")
    for wrong, what, expected in (
        (bool(unknown), f"unknown keys {', '.join(unknown)}", ", ".join(sorted(_KEYS))),
        (category not in CATEGORIES, f"category {category!r}", f"one of {', '.join(CATEGORIES)}"),
        (scope not in ("head", "body"), f"in is {scope!r}", "head or body"),
        (not row.get("why"), "why is missing", "the reason for the rule, in words"),
        (not isinstance(row.get("match"), str), f"match is {row.get('match')!r}", "a regular expression"),
    ):
        if wrong:
            raise ConfigError(f"{where}: {what}", expected=expected, next_step="mend the rule")
    try:
        pattern = re.compile(row["match"], re.IGNORECASE)
    except re.error as error:
        raise ConfigError(f"{where}: match: {error}", expected="a regular expression") from error
    fused = tuple(str(name) for name in row.get("fused", ()))
    return Rule(str(category), scope, pattern, str(row.get("part", "")), fused, str(row["why"]))
