"""Results that the report tests draw, from figures that were measured on one H200 with and without CUDA graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tpgate.measure.result import SCHEMA_VERSION, Identity, Launch, Result, Run, Value, Window
from tpgate.report.details import profiled
from tpgate.report.folder import Bands, Stored
from tpgate.stats.verdict import Comparison, Judgement, Verdict, worst

MEASURED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "h200-llama8b-tp1.json").read_text())
METRICS = ("output_tokens_per_second", "tpot_p50", "tpot_p90", "ttft_p50")
CELLS = ("c1", "c16", "c64")
RESULT_ID = "20261201T032127Z-7f3a"


def run_of(kind: str, cell: str, **fields: Any) -> Run:
    figures = MEASURED[kind][cell]
    start, end, load = figures["window"]
    values = {name: Value.of(name, figures[name], figures["requests"]) for name in METRICS}
    values["tpot_p99"] = Value.missing("tpot_p99", f"{figures['requests']} requests, at least 100 are needed")
    details = {"timeline": figures["timeline"], "telemetry": {"power_w": figures["power_w"]}}
    if "trace" in figures:
        details["trace"] = figures["trace"]
    base: dict[str, Any] = {
        "cell": cell,
        "load_digest": "0123456789abcdef",
        "started_at": "2026-12-01T03:21:27Z",
        "values": values,
        "window": Window(start_s=start, end_s=end, load_s=load),
        "counts": {"issued": figures["requests"], "ok": figures["requests"], "failed": 0},
        "details": details,
        "artifacts": {"requests": f"launch-1/{cell}.requests.json"},
    }
    return Run(**{**base, **fields})


def result_of(kind: str = "no_graphs", **fields: Any) -> Result:
    runs = {cell: run_of(kind, cell) for cell in CELLS if cell in MEASURED[kind]}
    launch = Launch(
        launch_id="20261201T032127Z-1",
        started_at="2026-12-01T03:21:27Z",
        identity=Identity(
            keys={"gpu": "NVIDIA H200", "gpu_count": 1, "sglang": "0.5.15", "dtype": "bfloat16"},
            notes={"driver": "580.159.04", "disable_cuda_graph": kind == "no_graphs"},
        ),
        runs=runs,
    )
    base: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "result_id": RESULT_ID,
        "scenario": "llama-8b-tp1",
        "scenario_digest": "89abcdef01234567",
        "cells": tuple(runs),
        "gates": (("output_tokens_per_second", 0.05, (), None), ("tpot_p50", 0.05, (), None)),
        "launches": (launch,),
    }
    return Result(**{**base, **fields})


def bands() -> Bands:
    """The run with CUDA graphs as a baseline of one launch."""
    found = {cell: {name: [figures[name]] for name in METRICS} for cell, figures in MEASURED["graphs"].items()}
    for cell in found:
        profile = profiled(run_of("graphs", cell))
        for category, seconds in (profile.parts if profile else {}).items():
            found[cell][f"{category}_time_per_token"] = [seconds]
    return found


def judgement_of(kind: str = "no_graphs", **fields: Any) -> Judgement:
    gated = ("output_tokens_per_second", "tpot_p50")
    comparisons = [_compare(kind, cell, name) for cell in MEASURED[kind] for name in gated]
    base: dict[str, Any] = {
        "result_id": RESULT_ID,
        "scenario": "llama-8b-tp1",
        "verdict": worst([comparison.verdict for comparison in comparisons]),
        "comparisons": tuple(comparisons),
        "observed": (_compare(kind, "c64", "ttft_p50"),),
        "baseline_path": "baselines/1x-h200/llama-8b-tp1.json",
        "baseline_launches": 1,
        "baseline_days": 1,
        "provisional": True,
        "differences": (("disable_cuda_graph", "False", "True"),) if kind == "no_graphs" else (),
        "warnings": ("the baseline is provisional: 1 launch of at least 10",),
        "launches": 1,
    }
    return Judgement(**{**base, **fields})


def _compare(kind: str, cell: str, name: str) -> Comparison:
    now, before = MEASURED[kind][cell][name], MEASURED["graphs"][cell][name]
    higher = name == "output_tokens_per_second"
    effect = 1 - now / before if higher else now / before - 1
    lost = effect > 0.05
    profile, before_profile = profiled(run_of(kind, cell)), profiled(run_of("graphs", cell))
    notes = (
        (f"GPU idle {1 - before_profile.busy_share:.1%} -> {1 - profile.busy_share:.1%} of the profiled span",)
        if lost and profile and before_profile
        else ()
    )
    return Comparison(
        cell=cell,
        metric=name,
        unit="token/s" if higher else ("s/token" if name.startswith("tpot") else "s"),
        better="higher" if higher else "lower",
        verdict=Verdict.REGRESSED if lost else Verdict.OK,
        reason=f"{effect * 100:.1f} % worse, the bar is 5.0 %" if lost else "within the bar of 5.0 %",
        baseline=before,
        now=now,
        effect=effect,
        tolerance=0.05,
        bar=0.05,
        baseline_launches=1,
        launches=1,
        attribution=notes,
    )


def stored(folder: Path, kind: str = "no_graphs", **fields: Any) -> Stored:
    return Stored(folder, result_of(kind), judgement_of(kind, **fields))


def write_folder(folder: Path, kind: str = "no_graphs", judged: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_bytes(msgspec.json.encode(result_of(kind)))
    if judged:
        (folder / "judgement.json").write_bytes(msgspec.json.encode(judgement_of(kind)))
    return folder
