"""Which commit is being measured."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

VARIABLES = ("TPGATE_COMMIT", "GITHUB_SHA")
"""Variables that name the commit, in order; a runner sets the second."""


def revision(folder: Path, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the commit of the code under test, or None where nothing says it.

    Args:
        folder: A folder of the checkout.
        environment: Variables; the process's own by default.
    """
    variables = os.environ if environment is None else environment
    for name in VARIABLES:
        if variables.get(name):
            return variables[name]
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
