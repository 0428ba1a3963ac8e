"""Stands in for the measurement of a night: writes results as the suite does and ends as it is told.

night_results.py KIND RESULTS, KIND one of ok, regressed, void, crash, no-judgement, incomplete, hang, stubborn
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tpgate.measure.result import SCHEMA_VERSION, Identity, Launch, Result, Run, Value
from tpgate.stats.verdict import Comparison, Judgement, Verdict, worst

METRIC = "output_tokens_per_second"


def comparison(cell: str, verdict: Verdict) -> Comparison:
    now = 5424.0 if verdict is Verdict.REGRESSED else 7861.2
    return Comparison(
        cell=cell,
        metric=METRIC,
        unit="token/s",
        better="higher",
        verdict=verdict,
        reason="31.0 % fewer tokens a second" if verdict is Verdict.REGRESSED else "as the baseline",
        baseline=7861.2,
        now=now,
        effect=1 - now / 7861.2,
        tolerance=0.05,
        launches=1,
        baseline_launches=10,
    )


def write(results: Path, scenario: str, verdicts: list[Verdict], *, judged: bool = True, complete: bool = True) -> Path:
    folder = results / f"20261201T020000Z-{scenario}"
    folder.mkdir(parents=True)
    cells = tuple(f"c{index}" for index in range(len(verdicts)))
    runs = {
        cell: Run(
            cell=cell, load_digest="d", started_at="2026-12-01T02:00:00Z", values={METRIC: Value.of(METRIC, 7861.2)}
        )
        for cell in cells
    }
    launch = Launch(
        launch_id="20261201T020000Z-1",
        started_at="2026-12-01T02:00:00Z",
        identity=Identity(keys={"gpu": "x"}),
        runs=runs,
    )
    result = Result(
        schema_version=SCHEMA_VERSION,
        result_id=folder.name,
        scenario=scenario,
        scenario_digest="d",
        cells=cells,
        gates=((METRIC, 0.05, (), None),),
        launches=(launch,),
        complete=complete,
    )
    judgement = Judgement(
        result_id=folder.name,
        scenario=scenario,
        verdict=worst(verdicts),
        comparisons=tuple(comparison(cell, verdict) for cell, verdict in zip(cells, verdicts, strict=True)),
        launches=1,
        baseline_launches=10,
    )
    (folder / "result.json").write_bytes(msgspec.json.encode(result))
    if judged:
        (folder / "judgement.json").write_bytes(msgspec.json.encode(judgement))
    return folder


def main(kind: str, results: Path) -> int:
    twenty = [Verdict.OK] * 19
    if kind == "ok":
        write(results, "llama-8b-tp1", [*twenty, Verdict.OK])
    elif kind == "regressed":
        write(results, "llama-8b-tp1", [*twenty, Verdict.REGRESSED])
        return 1
    elif kind == "void":
        write(results, "llama-8b-tp1", [*twenty, Verdict.VOID])
        return 1
    elif kind == "no-judgement":
        write(results, "llama-8b-tp1", twenty, judged=False)
    elif kind == "incomplete":
        write(results, "llama-8b-tp1", twenty, complete=False)
    elif kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind in ("hang", "stubborn"):
        if kind == "stubborn":
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        results.mkdir(parents=True, exist_ok=True)
        part = results / "pids.part"
        part.write_text(f"{os.getpid()} {child.pid}")
        part.replace(results / "pids")
        time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
