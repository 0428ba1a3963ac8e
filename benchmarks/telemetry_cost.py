"""What the telemetry sampler costs: its rate, its CPU time, and its effect on a server's throughput.

    python benchmarks/telemetry_cost.py                          rate and CPU time at 10, 50 and 100 Hz
    python benchmarks/telemetry_cost.py --url http://127.0.0.1:30000 --vocabulary 128256

With a URL it drives the server in ABBA order, with the sampler and without, and prints the difference of medians beside
the spread of the runs without it. The goal: 50 Hz under 2 % of a core, and a difference within that spread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from statistics import median
from typing import Any

from tpgate.host.telemetry import Sampler
from tpgate.load.generator import drive
from tpgate.measure.client import client_values
from tpgate.measure.window import steady_window
from tpgate.specs import LoadSpec


def cost(rate_hz: float, seconds: float) -> dict[str, Any]:
    sampler = Sampler(None, rate_hz)
    begin = time.perf_counter()
    sampler.start()
    ready = time.perf_counter()
    time.sleep(seconds)
    stop = time.perf_counter()
    seen = sampler.stop()
    if seen.reason is not None:
        return {"rate_hz": rate_hz, "not_measured_because": seen.reason}
    return {
        "rate_hz": rate_hz,
        "gpus": len(seen.gpus),
        "achieved_hz": round(seen.achieved_hz, 2),
        "cpu_share_of_a_core": round(seen.cpu_share, 5),
        "start_s": round(ready - begin, 3),
        "stop_s": round(time.perf_counter() - stop, 3),
    }


def throughput(url: str, load: LoadSpec, vocabulary: int, *, sampled: bool, salt: str) -> float:
    sampler = Sampler(None if sampled else ())
    sampler.start()
    try:
        result = drive(url, load, vocabulary=vocabulary, salt=salt)
    finally:
        sampler.stop()
    value = client_values(result, load, steady_window(result, load))["output_tokens_per_second"]
    if value.value is None:
        raise SystemExit(f"no throughput: {value.reason}")
    return value.value


def effect(url: str, load: LoadSpec, vocabulary: int, blocks: int) -> dict[str, Any]:
    runs: dict[bool, list[float]] = {True: [], False: []}
    throughput(url, load, vocabulary, sampled=False, salt="warm")
    for block in range(blocks):
        for at, sampled in enumerate((False, True, True, False)):
            runs[sampled].append(throughput(url, load, vocabulary, sampled=sampled, salt=f"{block}-{at}"))
    without, with_it = median(runs[False]), median(runs[True])
    return {
        "cell": load.cell,
        "without": runs[False],
        "with": runs[True],
        "difference": with_it / without - 1,
        "spread_without": (max(runs[False]) - min(runs[False])) / without,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--url")
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=3, help="ABBA blocks")
    arguments = parser.parse_args()
    document: dict[str, Any] = {"cost": [cost(rate, arguments.seconds) for rate in (10.0, 50.0, 100.0)]}
    if arguments.url:
        wave = arguments.concurrency
        load = LoadSpec(concurrency=wave, requests=arguments.requests, warmup_requests=wave)
        document["effect"] = effect(arguments.url, load, arguments.vocabulary, arguments.blocks)
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
