"""The self-test's own scenarios: the scripted server, whose truth is known, and a tiny model on SGLang's CPU engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpgate import catalog
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, pairs

RANKS = 4
LAYERS = 8
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": LAYERS,
    "vocab_size": 2048,
}
_TINY = {
    **_CONFIG,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _cell(concurrency: int, requests: int, *, tokens_in: int = 16, tokens_out: int = 16) -> LoadSpec:
    return LoadSpec(
        concurrency=concurrency,
        requests=requests,
        warmup_requests=concurrency,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
    )


STANDIN = Scenario(
    name="selftest",
    server=ServerSpec(
        ModelSpec.dummy("standin", _CONFIG),
        tensor_parallel=RANKS,
        device="cpu",
        options=pairs(step_ms=6.0, per_request_ms=0.4, prefill_ms=4.5, layers=LAYERS, vocabulary=2048),
        startup_timeout_s=10.0,
        engine="standin",
    ),
    cells=(_cell(1, 10), _cell(4, 12), _cell(8, 24)),
    gates=(
        Gate("output_tokens_per_second", tolerance=0.05),
        Gate("tpot_p90", tolerance=0.08),
        Gate("ttft_p50", tolerance=0.30),
        Gate("inter_chunk_p99", tolerance=0.90, cells=("c8",)),
        Gate("seconds_per_added_request", tolerance=0.40),
        Gate("kernel_time_per_token", tolerance=0.05),
        Gate("attention_time_per_token", tolerance=0.05),
        Gate("moe_time_per_token", tolerance=0.05),
        Gate("communication_time_per_token", tolerance=0.10),
        Gate("communication_wait_time_per_token", tolerance=0.50),
        Gate("idle_time_per_token", tolerance=0.20),
    ),
    profile_cells=("c8",),
    profile_steps=8,
    # The client has no core of its own on a small machine: its stamps may be late by two steps.
    # A server that hangs, and a trace that never comes, are given up soon.
    settings=pairs(client_lag_limit=2.0, stall_timeout_s=4.0, profile_deadline_s=10.0),
)
"""A TP4 server with 6 ms decode steps: every gate of it is turned red by a fault of the table."""


def _on_cpu(name: str, tensor_parallel: int, cells: tuple[LoadSpec, ...], *, tolerance: float) -> Scenario:
    last = cells[-1].cell
    return Scenario(
        name=name,
        server=ServerSpec(
            ModelSpec.dummy("tiny-llama", _TINY),
            tensor_parallel,
            device="cpu",
            options=pairs(attention_backend="torch_native", mem_fraction_static=0.3, max_total_tokens=20000),
            startup_timeout_s=600,
        ),
        cells=cells,
        gates=(
            Gate("output_tokens_per_second", tolerance=tolerance),
            Gate("tpot_p90", tolerance=0.9),
            Gate("ttft_p50", tolerance=0.9, cells=(last,)),
            Gate("inter_chunk_p99", tolerance=0.9, cells=(last,)),
        ),
        profile_cells=(last,),
        profile_steps=5,
        # Server and client share the cores, so the client may be late; two launches are enough to tell a collapse.
        settings=pairs(client_lag_limit=100.0, drift_limit=6.0, record_launches=2, stall_timeout_s=30.0),
    )


CPU = _on_cpu(
    "selftest-cpu",
    1,
    (_cell(1, 10, tokens_in=64, tokens_out=16), _cell(8, 24, tokens_in=64, tokens_out=24)),
    tolerance=0.45,
)
"""SGLang on the CPU: its faults are made through SGLang's own plugins, and large."""

CPU_TP2 = _on_cpu("selftest-cpu-tp2", 2, (_cell(1, 10, tokens_out=8), _cell(4, 12, tokens_out=8)), tolerance=0.6)
"""The same with two ranks: a further all-reduce exists there."""

BUILT_IN: Mapping[str, Scenario] = {one.name: one for one in (STANDIN, CPU, CPU_TP2)}
"""Name to scenario, as the command line takes them beside those of a scenario file."""


def find(name: str, path: Path) -> Scenario:
    """Return the built-in scenario of that name, or the one of the scenario file ``path``.

    Raises:
        ConfigError: There is neither.
    """
    return BUILT_IN[name] if name in BUILT_IN else catalog.find(catalog.load(path), name, path)
