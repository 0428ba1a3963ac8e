"""The one table of faults: what is injected, with which size, what must catch it and what must be said about it."""

from __future__ import annotations

from dataclasses import replace

from tpgate.errors import ConfigError
from tpgate.server.faults.case import Case, Expected
from tpgate.specs import Scalar, pairs

_THROUGHPUT = "output_tokens_per_second"
_DECODE = (_THROUGHPUT, "output_tokens_per_second_per_user", "tpot_p50", "tpot_p90", "e2e_p50", "inter_chunk_p50")
_PARTS = {
    "attention": ("attention_time_per_token", "kernel_time_per_token"),
    "moe": ("moe_time_per_token", "kernel_time_per_token"),
    "gemm": ("gemm_time_per_token", "kernel_time_per_token"),
    "communication": ("communication_time_per_token", "communication_intrinsic_time_per_token"),
    "wait": ("communication_wait_time_per_token",),
    "idle": ("idle_time_per_token", "gpu_busy_share"),
}
"""Metrics of traces that may catch a fault of a category on their own."""
_PREFILL = ("ttft_p50", "ttft_p90")
_QUEUE = (*_DECODE, *_PREFILL, "e2e_p90", "achieved_concurrency")
_FAILED = ("failed_requests",)


def _slower(fault: str, size: float, category: str | None, option: str, **more: object) -> Case:
    caught = _PREFILL if option == "fault_prefill_slower" else (*_DECODE, *_PARTS.get(category or "", ()))
    options = pairs(**{option: size})
    return Case(fault, f"{size * 100:.0f} %", "REGRESSED", caught, category, options, **more)  # type: ignore[arg-type]


def _void(fault: str, size: str, checks: tuple[str, ...], **options: Scalar) -> Case:
    return Case(fault, size, "VOID", checks, standin=pairs(**options))


def _with(case: Case, **changes: object) -> Case:
    return replace(case, **changes)  # type: ignore[arg-type]


_SPEED: tuple[Case, ...] = (
    Case("nothing", "none", "OK"),
    _slower("decode-slower", 0.15, None, "fault_decode_slower"),
    _slower("decode-slower", 0.40, None, "fault_decode_slower"),
    Case("decode-faster", "30 %", "IMPROVED", _DECODE, standin=pairs(fault_decode_slower=-0.3)),
    _slower("prefill-slower", 2.0, None, "fault_prefill_slower"),
    _with(
        _slower("attention-slower", 0.8, "attention", "fault_attention_slower"),
        plugin=(("attention_slower", 0.8),),
        gpu=True,
    ),
    _with(
        _slower("attention-slower", 2.0, "attention", "fault_attention_slower"),
        plugin=(("attention_slower", 2.0),),
        cpu=(("attention_slower", 10.0),),
        cpu_size="1000 %",
    ),
    _slower("moe-slower", 0.6, "moe", "fault_moe_slower"),
    _slower("gemm-slower", 0.8, "gemm", "fault_gemm_slower"),
    _slower("all-reduce-slower", 1.5, "communication", "fault_all_reduce_slower", ranks=2),
    Case(
        "extra-all-reduce",
        "3 a layer",
        "REGRESSED",
        (*_DECODE, *_PARTS["communication"]),
        "communication",
        pairs(fault_extra_all_reduce=3),
        (("extra_all_reduce", 3),),
        ranks=2,
        cpu=(("extra_all_reduce", 20),),
        cpu_size="20 a layer",
    ),
    Case(
        "straggler", "late", "REGRESSED", (*_DECODE, *_PARTS["wait"]), "wait", pairs(fault_straggler_us=60.0), ranks=2
    ),
    Case(
        "scheduler-sleeps",
        "2 ms",
        "REGRESSED",
        (*_DECODE, *_PARTS["idle"]),
        "idle",
        pairs(fault_scheduler_sleep_ms=2.0),
        (("scheduler_sleep_ms", 10.0),),
        plugin_size="10 ms",
        cpu=(("scheduler_sleep_ms", 40.0),),
        cpu_size="40 ms",
    ),
    Case(
        "cuda-graphs-off",
        "all",
        "REGRESSED",
        (*_DECODE, *_PARTS["idle"]),
        "idle",
        pairs(fault_graphs_off=1),
        sglang=pairs(disable_cuda_graph=True),
        gpu=True,
    ),
    Case(
        "batch-cap",
        "half",
        "REGRESSED",
        _QUEUE,
        standin=pairs(fault_max_running=4),
        plugin=(("max_running", 2),),
        plugin_size="2 at once",
    ),
    Case(
        "per-request-cost",
        "100 %",
        "REGRESSED",
        ("seconds_per_added_request", *_DECODE),
        standin=pairs(fault_per_request_slower=1.0),
    ),
    Case(
        "stall",
        "every 8 steps",
        "REGRESSED",
        (*_DECODE, "inter_chunk_p90", "inter_chunk_p99"),
        standin=pairs(fault_stall_every=8, fault_stall_ms=30.0),
        plugin=(("stall_every", 8), ("stall_ms", 200.0)),
        plugin_size="200 ms every 8",
        cpu=(("stall_every", 8), ("stall_ms", 400.0)),
        cpu_size="400 ms every 8",
    ),
)

_COUNTS: tuple[Case, ...] = (
    _with(_void("miscount", "1 in 8", ("token_count", *_FAILED), fault_miscount=8), plugin=(("miscount", 8),)),
    _void("duplicate-chunk", "1 in 3", ("token_count", *_FAILED), fault_duplicate_every=3),
    _void("counter-off", "10 %", ("server_counter",), fault_counter_off=0.1),
    _void("no-counts", "all", ("token_count", "server_counter", *_FAILED), fault_no_counts=1),
    _with(
        _void("prefix-cache", "50 %", ("prefix_cache",), fault_prefix_cache=0.5),
        plugin=(("shared_prefix", 0.5),),
    ),
    _void("early-stop", "1 in 3", ("output_length", *_FAILED), fault_early_stop_every=3),
    _void("early-eos", "1 in 3", ("output_length", *_FAILED), fault_early_eos_every=3),
    Case("cold-steps", "40 a batch size", "OK", standin=pairs(fault_cold_steps=40)),
    Case("cold-steps", "300 a batch size", "REGRESSED", _DECODE, standin=pairs(fault_cold_steps=300)),
)

_BROKEN: tuple[Case, ...] = (
    _with(_void("dropped", "1 in 5", _FAILED, fault_drop_every=5), plugin=(("drop_every", 5),)),
    _with(_void("error-event", "1 in 5", _FAILED, fault_error_event_every=5), plugin=(("error_event_every", 5),)),
    _void("refused", "1 in 3", _FAILED, fault_refuse_every=3),
    _void("garbage", "1 in 5", _FAILED, fault_garbage_every=5),
    _void("silent-stream", "1 in 5", ("stalled", *_FAILED), fault_silent_every=5),
    _with(
        _void("dies", "mid-cell", ("server_died", "launch_failed", "server", *_FAILED), fault_die_after_requests=30),
        plugin=(("die_after_steps", 40),),
        cpu=(("die_after_steps", 250),),
        cpu_size="mid-cell",
    ),
    _with(
        _void("hangs", "mid-cell", ("stalled", "server", "launch_failed", *_FAILED), fault_hang_after_requests=30),
        plugin=(("hang_after_steps", 40),),
        cpu=(("hang_after_steps", 250),),
        cpu_size="mid-cell",
    ),
    Case("trickle", "1 in 2", "OK", standin=pairs(fault_trickle_every=2)),
    Case("full-log", "200 KiB", "OK", standin=pairs(fault_fill_log_kib=200)),
)

_START: tuple[Case, ...] = (
    Case("never-ready", "all", "ERROR", standin=pairs(fault_never_ready=1)),
    Case("exits-at-start", "all", "ERROR", standin=pairs(fault_exit_at_start=1)),
    Case("fewer-ranks", "1", "ERROR", standin=pairs(fault_fewer_ranks=1), ranks=2),
    Case("other-version", "one", "NO BASELINE", ("identity",), standin=pairs(version="0.5.20")),
    _void("version-changes", "mid-launch", ("server_changed",), fault_version_after_requests=20),
)

_TRACES: tuple[Case, ...] = tuple(
    _with(case, traced=True)
    for case in (
        _with(_void("missing-rank-trace", "rank 1", ("profile_capture",), fault_missing_rank_trace=1), ranks=2),
        _void("cut-trace", "rank 0", ("profile_capture",), fault_cut_trace=0),
        _void("empty-trace", "CPU only", ("profile_capture", "missing_metric"), fault_empty_trace=1),
        _void("profile-fails", "500", ("profile_capture",), fault_profile_fails=1),
    )
)

CASES: tuple[Case, ...] = (*_SPEED, *_COUNTS, *_BROKEN, *_START, *_TRACES)
"""Every fault with its sizes, in the order in which a self-test injects them."""


def choose(names: tuple[str, ...]) -> tuple[Case, ...]:
    """Return the cases with these names; a fault without a size stands for all its sizes, no name for every case.

    Raises:
        ConfigError: A name is unknown.
    """
    known = {case.fault for case in CASES} | {case.name for case in CASES}
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown fault {name!r}", expected=f"one of {', '.join(sorted(known))}")
    return tuple(case for case in CASES if not names or case.name in names or case.fault in names)


__all__ = ["CASES", "Case", "Expected", "choose"]
