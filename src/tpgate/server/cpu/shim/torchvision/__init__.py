"""Stands in for torchvision in a CPU server: the names that SGLang and transformers import, for text models alone.

The registry's torchvision belongs to one exact build of torch and does not load beside another.
"""

from __future__ import annotations

from torchvision import io, transforms

__version__ = "0.0.0+tpgate.cpu"
__all__ = ["io", "transforms"]
