"""Judgements that the report tests draw: llama-8b-tp1 on one H200, with and without CUDA graphs."""

from __future__ import annotations

import msgspec

from tpgate.stats.verdict import Comparison, Judgement, Verdict, worst

GRAPHS = {"c1": 205.7, "c16": 2830.7, "c64": 7861.2}
NO_GRAPHS = {"c1": 56.4, "c16": 827.1, "c64": 2794.7}
ADVICE = "stop the other process and measure again"


def throughput(place: str, measured: float, baseline: float | None = None, **fields: object) -> Comparison:
    base = GRAPHS[place] if baseline is None else baseline
    effect = 1 - measured / base
    values: dict[str, object] = {
        "cell": place,
        "metric": "output_tokens_per_second",
        "unit": "token/s",
        "better": "higher",
        "verdict": Verdict.REGRESSED if effect > 0.05 else Verdict.OK,
        "reason": f"{effect:.1%} fewer tokens a second, the bar is 5.0 %",
        "baseline": base,
        "now": measured,
        "effect": effect,
        "tolerance": 0.05,
        "bar": 0.05,
        "mde": 0.021,
        "baseline_launches": 10,
        "launches": 3,
    }
    return Comparison(**{**values, **fields})


def tpot(cell: str, now: float, baseline: float, **fields: object) -> Comparison:
    effect = now / baseline - 1
    values: dict[str, object] = {
        "metric": "tpot_p50",
        "unit": "s/token",
        "better": "lower",
        "reason": f"{effect:+.1%} a token, the bar is 5.0 %",
        "baseline": baseline,
        "now": now,
        "effect": effect,
        "verdict": Verdict.REGRESSED if effect > 0.05 else Verdict.OK,
    }
    template = msgspec.structs.asdict(throughput(cell, GRAPHS[cell]))
    return Comparison(**{**template, **values, **fields})


def judgement(*comparisons: Comparison, **fields: object) -> Judgement:
    values: dict[str, object] = {
        "result_id": "20261201T020000Z-7f3a",
        "scenario": "llama-8b-tp1",
        "verdict": worst([comparison.verdict for comparison in comparisons]),
        "comparisons": comparisons,
        "baseline_path": "baselines/1x-h200/llama-8b-tp1.json",
        "baseline_launches": 10,
        "baseline_days": 4,
        "launches": 3,
    }
    return Judgement(**{**values, **fields})


def regressed(**fields: object) -> Judgement:
    """CUDA graphs lost: every cell about three times slower."""
    attribution = ("idle between kernels rose from 3.1 % to 62.0 % of the step",)
    return judgement(
        *(throughput(cell, NO_GRAPHS[cell], attribution=attribution) for cell in GRAPHS),
        tpot("c1", 0.01770, 0.00485),
        tpot("c16", 0.01930, 0.00562),
        tpot("c64", 0.02240, 0.00790),
        observed=(throughput("c64", 2551.0, 2600.0, metric="output_tokens_per_second_early", tolerance=None),),
        differences=(("notes.driver", "580.95.05", "580.105.08"),),
        warnings=("the history holds fewer than 14 nights: slow drift is not watched yet",),
        **fields,
    )


def fine() -> Judgement:
    return judgement(*(throughput(cell, value * 0.997) for cell, value in GRAPHS.items()))
