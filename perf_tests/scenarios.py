"""WHAT is measured and how much change matters. Add a scenario here; nothing in the library names one."""

from __future__ import annotations

from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, pairs

TINY_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 2048,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA_8B = TINY_LLAMA | {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}


def closed_loop(concurrency: int, waves: int, *, tokens: int = 256, label: str = "", requests: int = 0) -> LoadSpec:
    """A closed loop of some measured waves behind one warm-up wave; ten requests at least, for a p90."""
    return LoadSpec(
        concurrency=concurrency,
        requests=requests or max(10, waves * concurrency),
        warmup_requests=concurrency,
        input_tokens=tokens,
        output_tokens=tokens,
        label=label,
    )


# On the CPU the neighbours' load moves the numbers far more than most regressions do. These tolerances say so; they
# show that the whole path works on a real SGLang server, and catch a collapse.
CPU_GATES = (
    Gate("output_tokens_per_second", tolerance=0.75),
    Gate("achieved_concurrency", tolerance=0.2),
)
CPU_SERVER = pairs(attention_backend="torch_native", mem_fraction_static=0.3, max_total_tokens=20000)

GPU_SERVER = pairs(
    attention_backend="triton", sampling_backend="pytorch", mem_fraction_static=0.6, cuda_graph_max_bs=64
)


def gpu_gates(cells: tuple[str, ...], tensor_parallel: int) -> tuple[Gate, ...]:
    """Promises of a server on GPUs; ``cells`` have a steady window, and the profiled cell is the scenario's own.

    Shares say what the mix is, times per token whether a part became slower; a server whose ranks talk to each other
    also promises its communication and what it sends over PCIe.
    """
    batched = tuple(cell for cell in cells if cell != "c1")
    gates = (
        Gate("output_tokens_per_second", tolerance=0.05, cells=cells),
        Gate("tpot_p90", tolerance=0.08, cells=batched),
        # Three launches on one H200 differed by 30 to 60 % in TTFT at C = 1 and 4, and by 4 % from C = 16 on.
        Gate("ttft_p50", tolerance=0.25, cells=tuple(cell for cell in batched if cell not in ("c4", "c8"))),
        Gate("attention_share", tolerance=0.10),
        Gate("attention_time_per_token", tolerance=0.08),
        Gate("gpu_busy_share", tolerance=0.08),
        Gate("unclassified_share", tolerance=0.5, ceiling=0.05),
        Gate("pcie_tx_utilisation_p95", tolerance=0.5, cells=batched, ceiling=0.8),
        Gate("pcie_rx_utilisation_p95", tolerance=0.5, cells=batched, ceiling=0.8),
        Gate("pcie_tx_bytes_per_token", tolerance=0.25, cells=batched),
        Gate("pcie_rx_bytes_per_token", tolerance=0.25, cells=batched),
    )
    if tensor_parallel == 1:
        return gates
    return (
        *gates,
        Gate("communication_share", tolerance=0.15),
        Gate("nccl_share", tolerance=0.15),
        Gate("exposed_communication_time_per_token", tolerance=0.15),
        Gate("seconds_per_added_request", tolerance=0.15),
    )


def llama_on_gpus(name: str, config: dict[str, object], tensor_parallel: int) -> Scenario:
    """A dense Llama shape with random weights at C = 1, 4, 16 and 64, decoding under CUDA graphs."""
    return Scenario(
        name=name,
        server=ServerSpec(ModelSpec.dummy(name.rsplit("-", 1)[0], config), tensor_parallel, options=GPU_SERVER),
        cells=(closed_loop(1, 10), closed_loop(4, 5), closed_loop(16, 4), closed_loop(64, 4)),
        gates=gpu_gates(("c1", "c4", "c16", "c64"), tensor_parallel),
        profile_cells=("c64",),
    )


def tiny_llama_on_cpu(
    name: str,
    tensor_parallel: int,
    concurrencies: tuple[int, ...],
    *,
    waves: int,
    tokens: int,
    gates: tuple[Gate, ...],
    **settings: float,
) -> Scenario:
    """A Llama of 4 layers on SGLang's CPU engine: the main job on a machine without a GPU."""
    return Scenario(
        name=name,
        server=ServerSpec(
            ModelSpec.dummy("tiny-llama", TINY_LLAMA),
            tensor_parallel,
            device="cpu",
            options=CPU_SERVER,
            startup_timeout_s=600,
        ),
        cells=tuple(closed_loop(c, waves, tokens=tokens) for c in concurrencies),
        gates=gates,
        profile_cells=(f"c{concurrencies[-1]}",),
        profile_steps=5,
        # The client has no core of its own here, and a cell takes seconds: one hiccup of the host of a tenth of a
        # second is one in a hundred of its probes. These gates bear that; a freeze of a quarter second voids a run.
        settings=pairs(client_lag_limit=100.0, **settings),
    )


# The scripted stand-in server says what is true about itself, so this scenario shows the gate and tests it; it says
# nothing about SGLang.
STANDIN = Scenario(
    name="standin-tp4",
    server=ServerSpec(
        ModelSpec.dummy("standin", {"vocab_size": 2048, "hidden_size": 4096, "num_hidden_layers": 8}),
        tensor_parallel=4,
        device="cpu",
        options=pairs(step_ms=10.0, per_request_ms=0.12, prefill_ms=0.5),
        startup_timeout_s=60,
        engine="standin",
    ),
    cells=tuple(closed_loop(c, 3, tokens=16) for c in (1, 4, 16)),
    gates=(
        Gate("output_tokens_per_second", tolerance=0.15),
        Gate("e2e_p50", tolerance=0.20),
        Gate("attention_share", tolerance=0.10),
        Gate("attention_time_per_token", tolerance=0.10),
        Gate("communication_share", tolerance=0.15),
        Gate("nccl_share", tolerance=0.15),
        Gate("unclassified_share", tolerance=0.5, ceiling=0.05),
        Gate("seconds_per_added_request", tolerance=0.25),
    ),
    profile_cells=("c16",),
)

DEEPSEEK_V4_FLASH = Scenario(
    name="deepseek-v4-flash-tp4",
    server=ServerSpec(
        ModelSpec("deepseek-v4-flash-nvfp4", path_variable="TPGATE_DEEPSEEK_V4_FLASH"),
        tensor_parallel=4,
        options=pairs(quantization="modelopt_fp4", cuda_graph_max_bs=64, trust_remote_code=True),
        startup_timeout_s=3600,
    ),
    cells=(
        closed_loop(1, 10),
        closed_loop(8, 4),
        closed_loop(32, 3),
        closed_loop(64, 3),
        # 64 in flight at once and 32 behind them: 96 prompts in all, whose prefill starves the early decode. It has no
        # steady window by its nature, so the whole run is what is gated.
        closed_loop(64, 1, label="96prompts", requests=32),
    ),
    gates=(
        *gpu_gates(("c1", "c8", "c32", "c64"), 4),
        Gate("output_tokens_per_second_whole_run", tolerance=0.05, cells=("c64-96prompts",)),
    ),
    profile_cells=("c64",),
)

SCENARIOS = (
    STANDIN,
    tiny_llama_on_cpu(
        "tiny-llama-cpu", 1, (1, 4, 8), waves=8, tokens=64, gates=CPU_GATES, drift_limit=4.0, record_launches=4
    ),
    # Two ranks that wait for each other on two cores: every neighbour's time slice stops both, and throughput was seen
    # to differ by a factor of two from launch to launch. So its speed is not gated: it shows that tensor parallelism
    # works, that every token is counted, and that the load is held.
    tiny_llama_on_cpu(
        "tiny-llama-cpu-tp2",
        2,
        (1, 4),
        waves=2,
        tokens=8,
        gates=(Gate("achieved_concurrency", tolerance=0.2),),
        drift_limit=10.0,
        record_launches=2,
    ),
    llama_on_gpus("llama-8b-tp1", LLAMA_8B, 1),
    llama_on_gpus("llama-8b-tp2", LLAMA_8B, 2),
    llama_on_gpus("llama-8b-tp4", LLAMA_8B, 4),
    llama_on_gpus("llama-70b-tp4", LLAMA_70B, 4),
    DEEPSEEK_V4_FLASH,
)
