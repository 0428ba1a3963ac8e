"""Profiling sessions: collect decode steps, then write one trace file a rank, as SGLang names them."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpgate.server.standin.settings import Settings
from tpgate.server.standin.steps import Step
from tpgate.server.standin.trace import rank_trace, ranks


@dataclass(slots=True)
class Profile:
    """One running profile.

    Attributes:
        folder: Where the files go.
        stem: First part of their names.
        steps_wanted: Decode steps after which it ends by itself, or None.
        suffix: Last part of the names, ``-DECODE`` for a profile by stage.
        steps: Decode steps seen.
    """

    folder: Path
    stem: str
    steps_wanted: int | None
    suffix: str = ""
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def of(cls, body: dict[str, Any]) -> Profile:
        """Return the profile that a /start_profile body asks for."""
        name = str(body.get("profile_id") or time.time())
        prefix = body.get("profile_prefix")
        wanted = body.get("num_steps")
        return cls(
            folder=Path(str(body.get("output_dir") or "/tmp")),  # noqa: S108 - SGLang's own default
            stem=f"{prefix}-{name}" if prefix else name,
            steps_wanted=None if wanted is None else int(wanted),
            suffix="-DECODE" if body.get("profile_by_stage") else "",
        )

    def take(self, step: Step) -> bool:
        """Take a step; return whether the profile is complete with it."""
        if step.kind == "decode":
            self.steps.append(step)
        return self.steps_wanted is not None and len(self.steps) >= self.steps_wanted

    def write(self, settings: Settings) -> list[Path]:
        """Write the files of every rank and return their paths; without a step there is nothing to write."""
        if not self.steps:
            return []
        self.folder.mkdir(parents=True, exist_ok=True)
        faults = settings.faults
        written = []
        for rank in range(ranks(settings)):
            if rank == faults.missing_rank_trace:
                continue
            text = json.dumps(rank_trace(settings, self.steps, rank), separators=(", ", ": "))
            data = gzip.compress(text.encode(), compresslevel=1)
            path = self.folder / f"{self.stem}-TP-{rank}{self.suffix}.trace.json.gz"
            path.write_bytes(data[: len(data) * 2 // 3] if rank == faults.cut_trace else data)
            written.append(path)
        return written
