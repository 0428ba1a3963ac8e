"""A suite of kernel cases and what it promises: the counterpart of a scenario, without a server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpgate.errors import ConfigError
from tpgate.kernels.collective_cases import CollectiveCase, parse_collective
from tpgate.kernels.shapes import MlaShape, parse_shape
from tpgate.measure.definitions import metric
from tpgate.measure.promises import Promise
from tpgate.specs import Gate, digest_of

DEVICE_CELL = "device"
"""Name of the cell that holds the device's own ceilings."""
_SHAPE = re.compile(r"b\d+-k\d+-h\d+-")


@dataclass(frozen=True, slots=True)
class KernelSuite:
    """Kernel cases that are measured together in one process a launch.

    Attributes:
        name: Lower-case name, also that of the baseline's file.
        cases: Names of shapes and collectives.
        gates: The promises; one without cells holds in every case that has its metric.
        naive: Whether the naive kernel is measured beside the fast one.
        others: Whether other people's kernels are measured beside it, where they are installed.
    """

    name: str
    cases: tuple[str, ...]
    gates: tuple[Gate, ...]
    naive: bool = True
    others: bool = True

    def __post_init__(self) -> None:
        if not self.cases or len(set(self.cases)) != len(self.cases):
            raise ConfigError(f"kernel suite {self.name}: cases {self.cases}", expected="distinct names, one at least")
        for name in self.cases:
            case_of(name)
        for gate in self.gates:
            metric(gate.metric)
            for cell in gate.cells:
                if cell not in self.cells:
                    raise ConfigError(
                        f"kernel suite {self.name}: gate {gate.metric} names the cell {cell!r}",
                        expected=f"one of {', '.join(self.cells)}",
                    )

    @property
    def cells(self) -> tuple[str, ...]:
        """The cases, and the device."""
        return (*self.cases, DEVICE_CELL)

    @property
    def gpus(self) -> int:
        """GPUs that the suite needs."""
        wanted = [1]
        for name in self.cases:
            case = case_of(name)
            wanted.append(case.ranks if isinstance(case, CollectiveCase) and case.backend != "gloo" else 0)
        return max(wanted)

    def digest(self) -> str:
        """Return the digest of all that moves a number."""
        return digest_of({"cases": list(self.cases), "naive": self.naive, "others": self.others})

    def promises(self) -> tuple[Promise, ...]:
        """Return every gate with the cells in which it holds."""
        return tuple((gate.metric, gate.tolerance, self.gated_cells(gate), gate.ceiling) for gate in self.gates)

    def gated_cells(self, gate: Gate) -> tuple[str, ...]:
        """Return the cells in which a gate holds: those it names, else all whose kind has the metric."""
        if gate.cells:
            return gate.cells
        if gate.metric.startswith("device_"):
            return (DEVICE_CELL,)
        wanted = CollectiveCase if gate.metric.startswith("collective_") else MlaShape
        return tuple(name for name in self.cases if isinstance(case_of(name), wanted))


def case_of(name: str) -> MlaShape | CollectiveCase:
    """Return the case called ``name``.

    Raises:
        ConfigError: There is no such form of name.
    """
    return parse_shape(name) if _SHAPE.match(name) else parse_collective(name)
