"""Many checks at once: agreement over a scenario's concurrencies, and Holm's correction over families.

With 345 checks a false-alarm rate of 0.5 % a check means an alarm on 82 % of nights. Throughput of several
concurrencies is one family: what slows a server down is seen at more than one of them, what shakes one cell is noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FAMILY_UNITS = frozenset({"token/s", "request/s"})
"""Units of the metrics that are judged as a family over a scenario's cells; any other metric is judged alone."""

AGREEING = 2
"""Cells of a family that must be worse."""


def agrees(cells: Mapping[str, bool], cell: str) -> bool:
    """Whether the family supports a worsening in ``cell``.

    Args:
        cells: Every judged cell of the family, and whether it is worse than its bar.
        cell: The cell in question.

    Returns:
        True where at least one other cell is worse too, or where there is no other cell to ask.
    """
    return len(cells) < AGREEING or sum(worse for name, worse in cells.items() if name != cell) >= AGREEING - 1


def holm(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Return which hypotheses are rejected at the family-wise error rate ``alpha``.

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure"; valid under any dependence.

    Args:
        p_values: One p-value a hypothesis, shape (k,).
        alpha: Family-wise error rate.

    Returns:
        Rejected or not, in the order given, shape (k,).
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    rejected = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > alpha / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected
