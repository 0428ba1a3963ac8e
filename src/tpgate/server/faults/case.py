"""What one injected fault is, and what must become of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tpgate.specs import Pairs

Expected = Literal["OK", "IMPROVED", "REGRESSED", "VOID", "NO BASELINE", "ERROR"]
"""A verdict, or ERROR where the server must be refused before anything is measured."""


@dataclass(frozen=True, slots=True)
class Case:
    """One fault of one size.

    Attributes:
        fault: Name of the fault.
        size: Its size, in words.
        expected: Verdict that the gate must reach.
        caught_by: Metrics and validity checks of which one at least must have caught it; empty for OK and ERROR.
        category: Where attribution must place the lost time, as a category of traces, or None.
        standin: Options of the scripted server that inject it; empty where it cannot.
        plugin: Faults of the SGLang plugin that inject it, name and size; empty where it cannot.
        plugin_size: Its size there, in words, where that is another.
        sglang: Server arguments of SGLang that inject it.
        ranks: Least tensor-parallel ranks for it to exist.
        traced: Whether it shows in profiler traces only.
        gpu: Whether on SGLang it exists on a GPU only.
        cpu: Faults of the SGLang plugin in place of ``plugin`` on SGLang's CPU engine, where a step is long and the
            client has no core of its own: a fault must be large to be told from a neighbour.
        cpu_size: Its size there, in words.
    """

    fault: str
    size: str
    expected: Expected
    caught_by: tuple[str, ...] = ()
    category: str | None = None
    standin: Pairs = ()
    plugin: tuple[tuple[str, float], ...] = ()
    plugin_size: str = ""
    sglang: Pairs = ()
    ranks: int = 1
    traced: bool = False
    gpu: bool = False
    cpu: tuple[tuple[str, float], ...] = ()
    cpu_size: str = ""

    @property
    def name(self) -> str:
        """Fault and size, as they are chosen on the command line: ``attention-slower:50%``."""
        return f"{self.fault}:{self.size.replace(' ', '')}"
