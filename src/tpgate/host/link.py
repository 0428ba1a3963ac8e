"""What a PCIe link can carry: bytes per second and direction, from generation and width."""

from __future__ import annotations

_LANE = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
    7: 128e9 * 242 / 256 / 8,
}


def capacity(generation: int, width: int) -> float | None:
    """Return what a link carries each way in B/s, or None for a generation or width that does not exist.

    Formula: transfer rate x line coding / 8 x lanes: 8b/10b for generations 1 and 2, 128b/130b for 3 to 5, 242 payload
    bytes of a 256-byte FLIT from 6 on (PCI Express Base Specification). Packet headers are not taken off, so a copy of
    large blocks reaches about 85 to 90 % of it.

    Args:
        generation: Link generation, 1 to 7.
        width: Lanes, 1 to 32.
    """
    lane = _LANE.get(generation)
    return None if lane is None or not 1 <= width <= 32 else lane * width
