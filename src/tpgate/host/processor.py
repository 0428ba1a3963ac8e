"""The CPU of this machine: its model, and how much of it this process may use."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def slug(text: str) -> str:
    """Return a name as it stands in file names: lower case, letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unknown"


def model(cpuinfo: Path = CPUINFO) -> str:
    """Return the CPU's model, without trade marks and clock; the architecture where the kernel does not say."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    fields = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.*)$", text, re.MULTILINE))
    name = fields.get("model name") or fields.get("Model") or ""
    if not name and "CPU part" in fields:
        name = f"arm {fields.get('CPU implementer', '')} {fields['CPU part']}"
    name = re.sub(r"\((?:R|TM|C)\)|\bCPU\b|@.*$", " ", name, flags=re.IGNORECASE)
    return " ".join(name.split()) or platform.machine() or "unknown"


def cores() -> int:
    """Return the logical cores that this process may use."""
    return len(os.sched_getaffinity(0))
