"""One process of kernel measurements: ``python -m tpgate.kernels --out FILE CASE…`` writes a session as JSON."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from tpgate.errors import TpgateError
from tpgate.kernels.collective_cases import CollectiveCase, CollectiveTiming, parse_collective
from tpgate.kernels.collectives import measure_collectives
from tpgate.kernels.roofline import Peaks
from tpgate.kernels.session import measure_session
from tpgate.kernels.shapes import parse_shape


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the named cases and write the session to a file, whole or not at all."""
    parser = argparse.ArgumentParser(prog="python -m tpgate.kernels", description="Measure kernels in this process.")
    parser.add_argument("cases", nargs="+", metavar="CASE", help="b64-k2048-h128-bf16, all-reduce-d7168-b16-n4-nccl …")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--samples", type=int, default=25)
    parser.add_argument("--no-naive", action="store_true", help="leave the naive kernel out")
    parser.add_argument("--no-others", action="store_true", help="leave other people's kernels out")
    parser.add_argument("--peaks", help="BYTES_PER_S,FLOPS_PER_S instead of measuring them")
    options = parser.parse_args(arguments)
    try:
        shapes = [parse_shape(name) for name in options.cases if not name.startswith("all-")]
        groups = [parse_collective(name) for name in options.cases if name.startswith("all-")]
        session = measure_session(
            shapes,
            device=options.device,
            naive=lambda _: not options.no_naive,
            others=not options.no_others,
            samples=options.samples,
            peaks=None if options.peaks is None else _peaks(options.peaks),
        )
        session = replace(session, collectives=_collectives(groups, options.samples))
    except TpgateError as error:
        parser.exit(2, f"{error}\n")
    temporary = options.out.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(session))
    temporary.replace(options.out)
    return 0


def _peaks(text: str) -> Peaks:
    copy, matmul = (float(part) for part in text.split(","))
    return Peaks(copy, matmul, "given on the command line")


def _collectives(cases: Sequence[CollectiveCase], samples: int) -> tuple[CollectiveTiming, ...]:
    """Measure cases of one number of ranks and one kind of device together: starting ranks takes seconds."""

    def kind(case: CollectiveCase) -> tuple[int, bool]:
        return case.ranks, case.backend == "gloo"

    found: list[CollectiveTiming] = []
    for _, group in itertools.groupby(sorted(cases, key=kind), key=kind):
        found += measure_collectives(tuple(group), samples=samples)
    order = {case: index for index, case in enumerate(cases)}
    return tuple(sorted(found, key=lambda timing: order[timing.case]))


if __name__ == "__main__":
    raise SystemExit(main())
