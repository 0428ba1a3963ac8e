"""Feeds broken input to the readers: answers of a server, traces, baselines and results, histories, scenario files.

    python benchmarks/fuzz.py --inputs 100000 [--only sse] [--seed 1]

A reader may refuse an input with an error of this package; anything else that is raised, more than some seconds for
one input, or more memory than the limit is a failure. Printed are, for each reader, the inputs fed, how many were
accepted, the time, the slowest input and the most memory held; a failure is printed with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing.targets import TARGETS, Target

INPUT_S = 10
"""Seconds of processor time that one input may take; the clock on the wall also runs for the neighbours."""
MEMORY_BYTES = 4 << 30
"""Address space that the process may have."""
SHOWN = 8


class HangError(Exception):
    """One input took too long."""


@dataclass
class Report:
    """What became of a reader's inputs."""

    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    seeds: dict[str, int] = field(default_factory=dict)


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise HangError


def feed(target: Target, inputs: int, seed: int, folder: Path) -> Report:
    """Feed a reader; input number n is made from ``seed + n`` alone."""
    report = Report()
    signal.signal(signal.SIGPROF, _hang)
    began = time.monotonic()
    for number in range(seed, seed + inputs):
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, INPUT_S)
        try:
            report.accepted += target(random.Random(number), folder)
        except Exception as error:  # noqa: BLE001 - what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[:200]
            report.failures[name] += 1
            report.seeds.setdefault(name, number)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        report.inputs += 1
        report.slowest_s = max(report.slowest_s, time.process_time() - started)
    report.seconds = time.monotonic() - began
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Feed the readers and return 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000, help="inputs for each reader (%(default)s)")
    parser.add_argument("--only", choices=sorted(TARGETS), action="append", help="feed only this reader")
    parser.add_argument("--seed", type=int, default=1, help="number of the first input (%(default)s)")
    parser.add_argument("--folder", type=Path, default=None, help="where files are written (a temporary folder)")
    arguments = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    warnings.simplefilter("error")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tpgate-fuzz-", dir=arguments.folder) as folder:
        for name in arguments.only or TARGETS:
            report = feed(TARGETS[name], arguments.inputs, arguments.seed, Path(folder))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name}: {report.inputs} inputs, {report.accepted} accepted, {report.failures.total()} failures, "
                f"{report.seconds:.0f} s, slowest {report.slowest_s * 1e3:.0f} ms, {peak:.0f} MiB at most",
                flush=True,
            )
            for text, count in report.failures.most_common(SHOWN):
                print(f"  {count} x {text} (--only {name} --seed {report.seeds[text]} --inputs 1)")
            failed += bool(report.failures)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
