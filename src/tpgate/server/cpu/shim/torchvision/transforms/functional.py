"""Stands in for torchvision.transforms.functional: its names can be imported, none can be called."""

from __future__ import annotations

from torchvision._absent import names_of

__getattr__ = names_of(__name__)
