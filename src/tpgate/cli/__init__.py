"""The ``tpgate`` command."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line."""
    sys.stderr.write("not built yet\n")
    return 2
