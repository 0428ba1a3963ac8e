"""The self-test's own scenario: the scripted server, whose truth is known, in a few seconds a launch."""

from __future__ import annotations

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


def _cell(concurrency: int, requests: int) -> LoadSpec:
    return LoadSpec(
        concurrency=concurrency,
        requests=requests,
        warmup_requests=concurrency,
        input_tokens=16,
        output_tokens=24,
    )


STANDIN = Scenario(
    name="selftest",
    server=ServerSpec(
        ModelSpec.dummy("standin", _CONFIG),
        tensor_parallel=RANKS,
        device="cpu",
        options=pairs(step_ms=4.0, per_request_ms=0.25, prefill_ms=3.0, layers=LAYERS, vocabulary=2048),
        startup_timeout_s=10.0,
        engine="standin",
    ),
    cells=(_cell(1, 10), _cell(4, 16), _cell(8, 24)),
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
"""A TP4 server with 4 ms decode steps: every gate of it is turned red by a fault of the table."""
