"""What lets SGLang serve on a machine without a GPU: environment variables and a folder put first on its PYTHONPATH.

The folder ``shim`` is seen by CPU servers alone. It holds a package named ``sgl_kernel`` with the one kernel that the
CPU engine calls, a package named ``torchvision`` with the names that are imported, and an SGLang plugin that keeps a
CUDA build of torch from building a NCCL communicator for CPU tensors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tpgate.specs import Pairs, ServerSpec, pairs

SHIM = Path(__file__).parent / "shim"
PLUGIN = "tpgate_cpu"
"""Name of the plugin in the entry-point group ``sglang.srt.plugins``."""


def options(spec: ServerSpec) -> Pairs:
    """Return the server arguments that a CPU server gets where the scenario does not say otherwise."""
    defaults = pairs(device="cpu", attention_backend="torch_native")
    return tuple((name, value) for name, value in defaults if spec.option(name) is None)


def environment(tensor_parallel: int, cores: Sequence[int] | None = None) -> dict[str, str]:
    """Return the variables that a CPU server needs, without PYTHONPATH and SGLANG_PLUGINS, which are lists.

    Args:
        tensor_parallel: Ranks; each is bound to a share of the cores. Where there are more cores than ranks, the last
            one is left to the server's front end and to the client, whose stamps would be late otherwise.
        cores: Cores that the server may use; the process's own by default.
    """
    variables = {"SGLANG_USE_CPU_ENGINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    mine = sorted(os.sched_getaffinity(0)) if cores is None else sorted(cores)
    shared = mine[:-1] if len(mine) > tensor_parallel else mine
    variables["SGLANG_CPU_OMP_THREADS_BIND"] = thread_binding(shared, tensor_parallel)
    return variables


def thread_binding(cores: Sequence[int], ranks: int) -> str:
    """Return the cores of each rank in SGLang's form: ``0,1|2,3`` for two ranks on four cores.

    With fewer cores than ranks, ranks share cores: slow, but it runs.
    """
    each = max(1, len(cores) // ranks)
    shares = [[cores[(rank * each + i) % len(cores)] for i in range(each)] for rank in range(ranks)]
    return "|".join(",".join(str(core) for core in share) for share in shares)
