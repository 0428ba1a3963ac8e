"""Stands in for torchvision.transforms.v2: its names can be imported, none can be called."""

from __future__ import annotations

from torchvision._absent import names_of
from torchvision.transforms.v2 import functional

__all__ = ["functional"]
__getattr__ = names_of(__name__)
