"""Prompts of random token ids: deterministic, and no two of them begin alike, so no prefix cache can serve them."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Sequence
from itertools import pairwise

from tpgate.errors import LoadError
from tpgate.specs import LoadSpec


def prompt_ids(load: LoadSpec, index: int, *, vocabulary: int, salt: str) -> list[int]:
    """Return the token ids of request ``index`` of a cell.

    The ids come from SHAKE-128 over (seed, salt, cell, lengths, index): the same arguments give the same prompt on
    any machine. The first two ids count upwards from an origin of the cell, so that no two prompts of a cell share
    more than their first token, and none at all while there are fewer requests than usable ids. Ids are taken from
    the middle nine tenths of the vocabulary: special tokens sit at its two ends.

    Args:
        load: The cell.
        index: Position of the request in the order of issue, from 0.
        vocabulary: Size of the model's vocabulary.
        salt: Anything that must change the prompts, such as the name of the launch.

    Returns:
        ``load.input_tokens`` ids, each at least 0 and below ``vocabulary``.

    Raises:
        LoadError: The vocabulary has fewer than two tokens, or the index is negative.
    """
    if vocabulary < 2 or index < 0:
        raise LoadError(
            f"prompt {index} of {load.cell}: vocabulary of {vocabulary} tokens",
            expected="a vocabulary of 2 or more and an index from 0 on",
            next_step="take the vocabulary's size from the model's config.json (vocab_size)",
        )
    low = vocabulary // 20
    span = vocabulary - 2 * low
    cell = f"{load.seed}/{salt}/{load.cell}/{load.input_tokens}/{load.output_tokens}/{load.api}"
    first, second = _words(cell, 2)
    ids = [low + word % span for word in _words(f"{cell}/{index}", load.input_tokens)]
    ids[0] = low + (first + index) % span
    if len(ids) > 1:
        ids[1] = low + (second + index // span) % span
    return ids


def _words(key: str, count: int) -> array[int]:
    """Return ``count`` 32-bit words that follow from ``key``."""
    words = array("I", hashlib.shake_128(key.encode()).digest(4 * count))
    if sys.byteorder == "big":
        words.byteswap()
    return words


def unique_share(prompts: Sequence[Sequence[int]]) -> float:
    """Return the share of all prompt tokens that lie outside the longest prefix shared with another prompt, 0 to 1.

    Formula: 1 - sum over prompts of (longest common prefix with any other prompt) / (sum of the lengths). In sorted
    order the longest common prefix of a prompt is shared with one of its two neighbours.
    """
    ordered = sorted(list(prompt) for prompt in prompts)
    total = sum(map(len, ordered))
    if not total:
        return 0.0
    joints = [0, *(_common(a, b) for a, b in pairwise(ordered)), 0]
    return 1.0 - sum(max(pair) for pair in pairwise(joints)) / total


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the longest common prefix."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
