"""What a capture brought back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tpgate.specs import LoadSpec


@dataclass(frozen=True, slots=True)
class Profile:
    """One capture of one cell.

    Attributes:
        folder: Folder of the trace files.
        load: The cell that was profiled.
        steps: Engine steps that were asked for.
        ranks: Ranks that should each have a file.
        activities: What was recorded.
        files: Complete trace files, in order of rank.
        reasons: Why the capture is not to be judged; empty where it is whole.
        notes: What a reader should know about it.
        batch: Requests that were decoding when the capture began, as the server's counters say; None if not seen.
        seconds: From the request to the last complete file.
    """

    folder: Path
    load: LoadSpec
    steps: int
    ranks: int
    activities: tuple[str, ...]
    files: tuple[Path, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    batch: float | None = None
    seconds: float | None = None

    def failed(self, reason: str) -> Profile:
        """Return it with one more reason not to judge it."""
        return replace(self, reasons=(*self.reasons, reason))

    def noted(self, note: str) -> Profile:
        """Return it with one more note."""
        return replace(self, notes=(*self.notes, note))
