"""What must never be stored, as :mod:`tpgate.redaction` knows it."""

from __future__ import annotations

from tpgate.redaction import HIDDEN, is_secret, redact

__all__ = ["HIDDEN", "is_secret", "redact"]
