"""This package's client as a subprocess of client_truth.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tpgate.load.generator import drive
from tpgate.specs import LoadSpec


def main(url: str, settings: dict[str, object], out: str) -> None:
    load = LoadSpec(
        settings["concurrency"],
        settings["requests"],
        settings["warmup"],
        input_tokens=settings["input_tokens"],
        output_tokens=settings["output_tokens"],
        api=settings["api"],
    )
    result = drive(url, load, vocabulary=32000, processes=settings["processes"])
    bad = [record.outcome for record in result.records if not record.ok]
    answer = {
        "requests": [[r.index, r.ttft_ns / 1e6, r.tpot_ns / 1e6] for r in result.records if r.ok],
        "failed": len(bad),
        "first_failure": bad[0] if bad else None,
        "tokens": sum(record.output_tokens for record in result.records),
        "seconds": (result.ended_ns - min(r.started_ns for r in result.records)) / 1e9,
        "own_us_per_token": result.health.cpu_seconds_per_token * 1e6,
        "cpu_share": result.health.cpu_share,
        "lag_p99_ms": result.health.loop_lag_p99_s * 1e3,
        "late_stamps": result.health.late_stamps,
    }
    Path(out).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
