"""Latency and bus bandwidth of collectives: NCCL, SGLang's own all-reduce, or gloo on the CPU; any number of ranks.

:func:`measure_collectives` starts the ranks itself; :func:`measure_in_group` measures in a group that exists, as under
torchrun. Each rank runs the same fixed numbers of calls, so that no rank waits for one that stopped.
"""

from __future__ import annotations

import datetime
import importlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from tpgate.errors import ConfigError, HostError
from tpgate.kernels.collective_cases import CollectiveCase, CollectiveTiming
from tpgate.kernels.timing import Timing, time_calls

GROUP_TIMEOUT = datetime.timedelta(seconds=120)
SAMPLES = 21
CALLS = 20
_CUSTOM = "sglang.srt.distributed.device_communicators.custom_all_reduce"


def measure_collectives(cases: Sequence[CollectiveCase], *, samples: int = SAMPLES) -> tuple[CollectiveTiming, ...]:
    """Start as many processes as the cases have ranks, measure every case in them, and return what was measured.

    Raises:
        ConfigError: There are no cases, or they differ in their number of ranks or mix CPU and GPU.
        HostError: There are fewer GPUs than ranks, or the backend is not there.
    """
    ranks = {case.ranks for case in cases}
    devices = {_device_type(case) for case in cases}
    if len(ranks) != 1 or len(devices) != 1:
        raise ConfigError(
            f"collectives: {len(cases)} cases with ranks {sorted(ranks)} on {sorted(devices)}",
            expected="at least one case, and one number of ranks and one kind of device for all",
        )
    (count,), (device,) = ranks, devices
    if device == "cuda" and torch.cuda.device_count() < count:
        raise HostError(
            f"collectives over {count} ranks: this machine shows {torch.cuda.device_count()} GPU(s)",
            expected=f"{count} GPUs",
            next_step="choose cases with fewer ranks, or gloo cases, which need no GPU",
        )
    with tempfile.TemporaryDirectory(prefix="tpgate-collectives-") as folder:
        arguments = (count, device, tuple(cases), samples, folder)
        multiprocessing.spawn(_rank_main, args=arguments, nprocs=count, join=True)
        found: tuple[CollectiveTiming, ...] = torch.load(Path(folder) / "timings.pt", weights_only=False)
    return found


def measure_in_group(cases: Sequence[CollectiveCase], *, samples: int = SAMPLES) -> tuple[CollectiveTiming, ...]:
    """Measure every case in the default process group; every rank gets the same answer.

    Raises:
        ConfigError: A case has another number of ranks than the group.
        HostError: The backend of a case is not there, or gave a wrong sum.
    """
    return tuple(_measure(case, samples) for case in cases)


def _device_type(case: CollectiveCase) -> str:
    return "cpu" if case.backend == "gloo" else "cuda"


def _rank_main(rank: int, ranks: int, device: str, cases: Sequence[CollectiveCase], samples: int, folder: str) -> None:
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=ranks,
        timeout=GROUP_TIMEOUT,
    )
    try:
        timings = measure_in_group(cases, samples=samples)
        if rank == 0:
            torch.save(timings, Path(folder) / "timings.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _measure(case: CollectiveCase, samples: int) -> CollectiveTiming:
    if dist.get_world_size() != case.ranks:
        raise ConfigError(f"{case.name} in a group of {dist.get_world_size()} ranks", expected=f"{case.ranks} ranks")
    device = "cpu" if case.backend == "gloo" else f"cuda:{torch.cuda.current_device()}"
    call, out = _call_of(case, device)
    _check(case, call, out)
    dist.barrier()
    timing = time_calls([call], device=device, samples=samples, repeat=CALLS, warmups=3)
    return CollectiveTiming(case, _slowest(timing), timing.calls, timing.method)


def _call_of(case: CollectiveCase, device: str) -> tuple[Callable[[], object], torch.Tensor]:
    """Return the call, and the tensor in which its result stands afterwards."""
    elements = case.hidden * case.batch
    one = float(dist.get_rank() + 1)
    if case.operation == "all-gather":
        mine = torch.full((elements // case.ranks,), one, dtype=torch.bfloat16, device=device)
        out = torch.full((elements,), float("nan"), dtype=torch.bfloat16, device=device)
        gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # renamed in torch 2.13
        return lambda: gather(out, mine), out
    source = torch.full((elements,), one, dtype=torch.bfloat16, device=device)
    if case.backend == "sglang-custom":
        out = torch.full_like(source, float("nan"))
        reduce = _custom_all_reduce(case, source)
        return lambda: out.copy_(reduce(source)), out
    return lambda: dist.all_reduce(source), source


def _custom_all_reduce(case: CollectiveCase, source: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    try:
        module: Any = importlib.import_module(_CUSTOM)
    except ImportError as error:
        raise HostError(f"{case.name}: SGLang's all-reduce cannot be imported: {error}") from error
    group = dist.new_group(backend="gloo", timeout=GROUP_TIMEOUT)
    communicator = module.CustomAllreduce(group=group, device=source.device)
    if communicator.disabled or not communicator.should_custom_ar(source):
        raise HostError(
            f"{case.name}: SGLang refuses its own all-reduce here",
            expected="2, 4, 6 or 8 GPUs with NVLink between all of them (2 without), and a message it takes",
        )
    reduce: Callable[[torch.Tensor], torch.Tensor] = communicator.custom_all_reduce
    return reduce


def _check(case: CollectiveCase, call: Callable[[], object], out: torch.Tensor) -> None:
    """Run the call once and compare its result with what the ranks' numbers add up to, or stand in line as."""
    call()
    wanted = torch.arange(1, case.ranks + 1, dtype=torch.bfloat16, device=out.device)
    got = out.view(case.ranks, -1)
    right = (got == wanted[:, None]).all() if case.operation == "all-gather" else (got == wanted.sum()).all()
    if not bool(right):
        raise HostError(f"{case.name}: the result is wrong", expected="the sum, or the parts, of all ranks")
    out.zero_()


def _slowest(timing: Timing) -> tuple[float, ...]:
    """Return, of each sample, the slowest rank's seconds a call."""
    samples = torch.tensor(timing.samples_s, dtype=torch.float64)
    dist.all_reduce(samples, op=dist.ReduceOp.MAX)
    return tuple(samples.tolist())
