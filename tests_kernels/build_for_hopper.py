"""Compile the kernels for compute capability 9.0 without a GPU and print, as JSON, what came out."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path

import triton
import triton.backends.nvidia
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from tpgate.kernels.mla_hopper import mla_hopper_kernel
from tpgate.kernels.mla_naive import mla_naive_kernel
from tpgate.kernels.mla_shared import mla_shared_kernel

POINTERS = {
    "q_ptr": "*bf16", "cache_ptr": "*bf16", "index_ptr": "*i32", "length_ptr": "*i32", "out_ptr": "*bf16",
    "partial_ptr": "*fp32", "lse_ptr": "*fp32",
}  # fmt: skip
NUMBERS = {
    "scale_log2": "fp32", "value_scale": "fp32", "slots": "i32", "heads": "i32", "topk": "i32", "split_len": "i32",
}  # fmt: skip
WIDTHS = {"LATENT": 512, "ROPE": 64}
TOOLS = Path(triton.backends.nvidia.__file__).parent / "bin"


def build(source_type, kernel, constants, *, warps: int, stages: int = 2, cache: str = "*bf16") -> dict[str, int]:
    names = kernel.arg_names
    types = POINTERS | NUMBERS | {"cache_ptr": cache}
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    aligned = [name for name in names if name in POINTERS or name in ("slots", "heads", "topk", "split_len")]
    source = source_type(
        fn=kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        text = subprocess.run([TOOLS / "nvdisasm", file.name], capture_output=True, text=True, check=True).stdout
    words = ("HGMMA", "HMMA", "LDGSTS", "LDL", "WARPGROUP.DEPBAR")
    return {word: len(re.findall(rf"\b{re.escape(word)}", text)) for word in words} | {"shared": made.metadata.shared}


def shared(block_h: int, block_n: int, warps: int, stages: int, cache: str = "*bf16") -> dict[str, int]:
    constants = {"BLOCK_H": block_h, "BLOCK_N": block_n, "SPLITS": 1, "COMPUTE": tl.bfloat16, "STAGES": stages}
    return build(ASTSource, mla_shared_kernel, WIDTHS | constants, warps=warps, stages=stages, cache=cache)


def main() -> None:
    hopper = [build(GluonASTSource, mla_hopper_kernel, {"SPLITS": splits}, warps=8) for splits in (1, 4)]
    found = {
        "hopper": hopper[0],
        "hopper-split": hopper[1],
        "shared-64": shared(64, 64, 8, 2),
        "shared-16": shared(16, 64, 8, 2),
        "shared-64-fp8": shared(64, 64, 8, 2, "*fp8e4nv"),
        "naive": build(ASTSource, mla_naive_kernel, WIDTHS | {"BLOCK_N": 16}, warps=4),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
