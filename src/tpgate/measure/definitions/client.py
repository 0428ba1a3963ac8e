"""Metrics that the load client measures. Quantiles are over requests; the sample for statistics stays the launch."""

from __future__ import annotations

from tpgate.measure.definitions.base import MetricDef
from tpgate.units import (
    COUNT,
    REQUESTS,
    REQUESTS_PER_SECOND,
    SECONDS,
    SECONDS_PER_REQUEST,
    SECONDS_PER_TOKEN,
    TOKENS_PER_SECOND,
    Better,
    Unit,
)

_TTFT = "first chunk with at least one output token - first byte of the request written"
_TPOT = "(t_last - t_first) / (n_last - n_first) of a request's token-bearing chunks"
_E2E = "last token-bearing chunk - first byte of the request written"
_GAP = "gap between consecutive token-bearing chunks of a request, raw"


def _quantiles(stem: str, unit: Unit, formula: str, noise: float) -> tuple[MetricDef, ...]:
    """Median, 90th and 99th percentile of one latency; a quantile needs enough samples to be one."""
    return tuple(
        MetricDef(
            f"{stem}_p{percent}",
            unit,
            Better.LOWER,
            f"p{percent} over requests of: {formula}",
            "client",
            noise_floor=noise,
            minimum_samples=minimum,
        )
        for percent, minimum in ((50, 1), (90, 10), (99, 100))
    )


METRICS: tuple[MetricDef, ...] = (
    MetricDef(
        "output_tokens_per_second",
        TOKENS_PER_SECOND,
        Better.HIGHER,
        "output tokens that arrived inside the steady window / window length",
        "client",
    ),
    MetricDef(
        "output_tokens_per_second_whole_run",
        TOKENS_PER_SECOND,
        Better.HIGHER,
        "output tokens of all requests, warm-up included / (last token - first byte written)",
        "client",
    ),
    MetricDef(
        "output_tokens_per_second_early",
        TOKENS_PER_SECOND,
        Better.HIGHER,
        "output tokens that arrived before the steady window / (window start - first byte written)",
        "client",
        noise_floor=0.02,
    ),
    MetricDef(
        "output_tokens_per_second_per_user",
        TOKENS_PER_SECOND,
        Better.HIGHER,
        "1 / tpot_p50",
        "client",
    ),
    *_quantiles("ttft", SECONDS, _TTFT, 0.015),
    *_quantiles("tpot", SECONDS_PER_TOKEN, _TPOT, 0.005),
    *_quantiles("e2e", SECONDS, _E2E, 0.005),
    *_quantiles("inter_chunk", SECONDS, _GAP, 0.01),
    MetricDef(
        "request_throughput",
        REQUESTS_PER_SECOND,
        Better.HIGHER,
        "requests completed inside the steady window / window length",
        "client",
    ),
    MetricDef(
        "achieved_concurrency",
        REQUESTS,
        Better.NEITHER,
        "time-weighted mean of requests in flight over the steady window",
        "client",
    ),
    MetricDef(
        "tokens_per_chunk",
        COUNT,
        Better.NEITHER,
        "output tokens / token-bearing chunks",
        "client",
    ),
    MetricDef(
        "seconds_per_added_request",
        SECONDS_PER_REQUEST,
        Better.LOWER,
        "Theil-Sen slope of tpot_p50 over concurrency, across a scenario's cells",
        "scenario",
        noise_floor=0.02,
        minimum_samples=3,
    ),
)
