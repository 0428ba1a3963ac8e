"""tpgate: a performance-regression gate for tensor-parallel LLM serving with SGLang."""

from __future__ import annotations

__version__ = "0.1.0"
