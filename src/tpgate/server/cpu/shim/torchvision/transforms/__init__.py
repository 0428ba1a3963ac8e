"""Stands in for torchvision.transforms: one enumeration that is read on import, and names that cannot be called."""

from __future__ import annotations

import enum

from torchvision._absent import names_of
from torchvision.transforms import functional, v2


class InterpolationMode(enum.Enum):
    """Interpolation of images, by the names of torchvision."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


__all__ = ["InterpolationMode", "functional", "v2"]
__getattr__ = names_of(__name__)
