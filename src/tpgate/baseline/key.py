"""From an identity to the folder of its baselines."""

from __future__ import annotations

import re

from tpgate.errors import BaselineError
from tpgate.measure.result import Identity

HARDWARE = "hardware"
"""Identity key that holds the folder name, such as ``nvidia-h200-x1`` or ``cpu-xeon-8480-x2``."""

_SLUG = re.compile(r"[a-z0-9][a-z0-9.-]*")


def slug(*parts: str | int) -> str:
    """Return a folder name made of ``parts``: lower case, everything but letters, digits and dots as one dash."""
    text = "-".join(str(part) for part in parts).lower()
    text = re.sub(r"\((r|tm)\)|®|™", " ", text)
    return re.sub(r"-+", "-", re.sub(r"[^a-z0-9.]+", "-", text)).strip("-.")


def hardware_of(identity: Identity) -> str:
    """Return the folder name that ``identity`` names.

    Raises:
        BaselineError: The identity has none, or one that is no safe folder name.
    """
    found = identity.keys.get(HARDWARE)
    if not isinstance(found, str) or not _SLUG.fullmatch(found) or ".." in found:
        raise BaselineError(
            f"identity key {HARDWARE!r} is {found!r}",
            expected="a folder name of lower-case letters, digits, dots and dashes",
            next_step="tpgate doctor shows what this machine is",
        )
    return found


def explain(differences: list[tuple[str, object, object]]) -> str:
    """Return differing fields in words: ``gpu_count: 8 in the baseline, 4 now``."""
    return "; ".join(f"{name}: {before} in the baseline, {now} now" for name, before, now in differences)
