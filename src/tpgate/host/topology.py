"""Which GPUs there are, which are taken for a run, and how they reach each other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import combinations

from tpgate.errors import HostError
from tpgate.host import lease
from tpgate.host.nvml import Gpu, Library, Missing, devices, open_library

BUSY_BYTES = 1 << 30
"""Used memory above which a GPU is not idle, whatever its utilisation says."""
_MEETING = {0: "one board", 10: "one PCIe switch", 20: "PCIe switches", 30: "a host bridge", 40: "a NUMA node"}


def count_gpus() -> tuple[int, str | None]:
    """Return how many GPUs a run may use, and why there are none (or fewer than installed)."""
    found = devices()
    if isinstance(found, Missing):
        return 0, found.reason
    try:
        usable = visible(found, os.environ)
    except HostError as error:
        return 0, error.what
    if len(usable) < len(found):
        return len(usable), f"CUDA_VISIBLE_DEVICES shows {len(usable)} of {len(found)}"
    return len(usable), None if usable else "NVML shows no GPU"


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; all of them where it is not set.

    Raises:
        HostError: It names what is not there, or names positions where GPUs differ and CUDA's order is not NVML's.
    """
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return list(gpus)
    kept: list[Gpu] = []
    for word in (part.strip() for part in text.split(",") if part.strip()):
        if word == "-1":
            break  # CUDA ignores everything after an invalid index
        kept.append(_named(word, gpus, environment))
    return kept


def _named(word: str, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Gpu:
    what = f"CUDA_VISIBLE_DEVICES names {word!r}"
    if word.isdigit():
        mixed = len({gpu.name for gpu in gpus}) > 1
        if mixed and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            raise HostError(
                f"{what}, a position, and the GPUs of this machine differ: CUDA's order need not be NVML's",
                expected="UUIDs, or CUDA_DEVICE_ORDER=PCI_BUS_ID",
                next_step="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
            )
        found = [gpu for gpu in gpus if gpu.index == int(word)]
    elif word.startswith("MIG-"):
        raise HostError(
            f"{what}, a part of a GPU: its neighbours share memory bandwidth and PCIe",
            expected="a whole GPU",
            next_step="turn MIG off (nvidia-smi -mig 0) or name another GPU",
        )
    else:
        found = [gpu for gpu in gpus if gpu.uuid.startswith(word)]
    if len(found) != 1:
        known = ", ".join(f"{gpu.index} = {gpu.uuid}" for gpu in gpus)
        raise HostError(f"{what}, which is {len(found)} GPUs here", expected=known, next_step="mend the variable")
    return found[0]


def choose(count: int, visible_devices: str | None = None, *, in_use: bool = False) -> tuple[str, ...]:
    """Return the UUIDs of ``count`` GPUs for a run: idle ones that nobody leases first, else in order.

    Args:
        count: GPUs that are needed.
        visible_devices: Text as in CUDA_VISIBLE_DEVICES; None reads the variable.
        in_use: A server already runs on them, so busy ones come before idle ones.

    Raises:
        HostError: NVML cannot be read, or there are fewer GPUs.
    """
    library = open_library()
    if isinstance(library, Missing):
        raise HostError(f"no GPU can be used: {library.reason}", next_step="tpgate doctor")
    environment = dict(os.environ)
    if visible_devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible_devices
    with library:
        gpus = library.gpus()
        if isinstance(gpus, Missing):
            raise HostError(f"no GPU can be used: {gpus.reason}", next_step="tpgate doctor")
        usable = visible(gpus, environment)
        if len(usable) < count:
            raise HostError(
                f"{count} GPU(s) are needed, {len(usable)} of {len(gpus)} can be used here",
                expected=f"at least {count} in CUDA_VISIBLE_DEVICES",
                next_step="choose a scenario with fewer tensor-parallel ranks, or tpgate doctor",
            )
        leased = {holder.resource for holder in lease.holders()}
        order = sorted(usable, key=lambda gpu: (lease.of_gpu(gpu.uuid) in leased, is_busy(library, gpu) != in_use))
    return tuple(gpu.uuid for gpu in order[:count])


def is_busy(library: Library, gpu: Gpu) -> bool:
    """Return whether a GPU holds a process or more memory than an idle driver does."""
    processes, used = library.processes(gpu), library.memory_used(gpu)
    return bool(not isinstance(processes, Missing) and processes) or (
        not isinstance(used, Missing) and used > BUSY_BYTES
    )


def describe(library: Library, gpus: Sequence[Gpu]) -> str:
    """Return how GPUs reach each other, in words that are equal for equal machines.

    ``single``, ``nvlink``, ``pcie p2p``, ``through host``, or a mix with the number of pairs of each.
    """
    if len(gpus) < 2:
        return "single" if gpus else "none"
    kinds: dict[str, int] = {}
    for first, second in combinations(gpus, 2):
        kind = path(library, first, second)
        kinds[kind] = kinds.get(kind, 0) + 1
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(f"{kind} x {count} pairs" for kind, count in sorted(kinds.items()))


def path(library: Library, first: Gpu, second: Gpu) -> str:
    """Return how two GPUs reach each other: ``nvlink``, ``pcie p2p``, ``through host`` or ``unknown``."""
    if library.p2p(first, second, nvlink=True) is True:
        return "nvlink"
    direct = library.p2p(first, second)
    if isinstance(direct, Missing):
        return "unknown"
    return "pcie p2p" if direct else "through host"


def matrix(library: Library, gpus: Sequence[Gpu]) -> list[str]:
    """Return one line a pair of GPUs: how they reach each other and where they meet."""
    rows = []
    for first, second in combinations(gpus, 2):
        level = library.ancestor(first, second)
        meeting = (
            _MEETING.get(level, "the whole system") if isinstance(level, int) else f"not measured ({level.reason})"
        )
        rows.append(f"GPU {first.index} - GPU {second.index}: {path(library, first, second)}, meet at {meeting}")
    return rows
