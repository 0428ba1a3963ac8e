"""Shapes of sparse-MLA decode attention, with the work and the traffic that they cannot do without."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tpgate.errors import ConfigError

CacheType = Literal["bf16", "fp8"]
CACHE_BYTES = {"bf16": 2, "fp8": 1}
"""Bytes of one cached element."""

LATENT = 512
"""Width of the compressed key-value latent, which is both the key's first part and the value (DeepSeek V2 to V3.2)."""
ROPE = 64
"""Width of the key's rotary part."""

_NAME = re.compile(r"b(?P<batch>\d+)-k(?P<topk>\d+)-h(?P<heads>\d+)-(?P<cache>bf16|fp8)")


@dataclass(frozen=True, slots=True, order=True)
class MlaShape:
    """One decode step of sparse MLA attention: every query row attends to ``topk`` cached tokens of its own.

    Attributes:
        batch: Query rows (one token each).
        topk: Cached tokens each row attends to, gathered by index from a paged cache.
        heads: Query heads on this rank; all share one key-value head.
        cache: Element type of the cache; queries and output are bfloat16 always.
        latent: Width of the latent, the value's width.
        rope: Width of the rotary part; keys are ``latent + rope`` wide.
    """

    batch: int
    topk: int
    heads: int
    cache: CacheType = "bf16"
    latent: int = LATENT
    rope: int = ROPE

    def __post_init__(self) -> None:
        for name in ("batch", "topk", "heads", "latent", "rope"):
            if getattr(self, name) < 1:
                raise ConfigError(f"MLA shape: {name} is {getattr(self, name)}", expected="1 or more")
        if self.cache not in CACHE_BYTES:
            raise ConfigError(f"MLA shape: cache is {self.cache!r}", expected="bf16 or fp8")

    @property
    def name(self) -> str:
        """Name of the cell, such as ``b64-k2048-h128-bf16``."""
        return f"b{self.batch}-k{self.topk}-h{self.heads}-{self.cache}"

    @property
    def width(self) -> int:
        """Elements of one cached token."""
        return self.latent + self.rope

    @property
    def flops(self) -> int:
        """Floating-point operations of the two products: ``2 x heads x topk x (width + latent)`` a row.

        The softmax is left out: it is not done by the matrix units, and adds about 1/200 of this.
        """
        return 2 * self.batch * self.heads * self.topk * (self.width + self.latent)

    @property
    def gathered_bytes(self) -> int:
        """Bytes of the gathered cache entries, each counted once a row."""
        return self.batch * self.topk * self.width * CACHE_BYTES[self.cache]

    @property
    def least_bytes(self) -> int:
        """Fewest bytes through device memory: gathered entries, indices, queries and output, once each."""
        queries = self.batch * self.heads * (self.width + self.latent) * 2
        return self.gathered_bytes + queries + self.batch * self.topk * 4

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.least_bytes


def parse_shape(name: str) -> MlaShape:
    """Return the DeepSeek shape called ``name``, such as ``b64-k2048-h128-bf16``.

    Raises:
        ConfigError: The name is not of that form.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ConfigError(f"kernel case {name!r}", expected="a name such as b64-k2048-h128-bf16 or b1-k512-h16-fp8")
    cache: CacheType = "fp8" if found["cache"] == "fp8" else "bf16"
    return MlaShape(int(found["batch"]), int(found["topk"]), int(found["heads"]), cache)
