"""WHAT kernels and collectives are measured, and how much change matters."""

from __future__ import annotations

from tpgate.measure.kernel_suite import KernelSuite
from tpgate.specs import Gate

KERNELS = KernelSuite(
    name="kernels",
    cases=(
        "b1-k2048-h128-bf16",
        "b8-k2048-h128-bf16",
        "b64-k2048-h128-bf16",
        "b64-k512-h128-bf16",
        "b64-k2048-h64-bf16",
        "b64-k2048-h128-fp8",
        "b1-k2048-h16-bf16",
        "b64-k2048-h16-bf16",
        "b64-k2048-h32-bf16",
    ),
    gates=(
        Gate("kernel_time", tolerance=0.05),
        Gate("kernel_reread_factor", tolerance=0.01),
        Gate("kernel_roofline_fraction", tolerance=0.05, cells=("b64-k2048-h128-bf16",)),
        Gate("kernel_speedup_over_naive", tolerance=0.10, cells=("b64-k2048-h128-bf16",)),
        Gate("device_copy_bytes_per_second", tolerance=0.05),
        Gate("device_matmul_flops_per_second", tolerance=0.05),
    ),
)


def collectives(ranks: int, backend: str) -> KernelSuite:
    """All-reduce and all-gather of one token's hidden state (7168, bf16) at decode batches, over so many ranks."""
    operations = ("all-reduce",) if backend == "sglang-custom" else ("all-reduce", "all-gather")
    return KernelSuite(
        name=f"collectives-{backend}-n{ranks}",
        cases=tuple(
            f"{operation}-d7168-b{batch}-n{ranks}-{backend}" for operation in operations for batch in (1, 16, 64, 256)
        ),
        gates=(Gate("collective_latency", tolerance=0.10),),
    )


COLLECTIVES = (collectives(2, "nccl"), collectives(4, "nccl"), collectives(4, "sglang-custom"), collectives(8, "nccl"))
