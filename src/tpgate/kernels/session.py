"""One process's measurements: every kernel is checked against the reference on fresh inputs, then timed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import triton

from tpgate.errors import HostError
from tpgate.kernels import peers
from tpgate.kernels.ceilings import measure_peaks
from tpgate.kernels.choice import MAKERS, NAIVE, choose, device_facts
from tpgate.kernels.inputs import MlaInputs, make_inputs, spoil_slot
from tpgate.kernels.mla import Call, Tile, bytes_requested
from tpgate.kernels.reference import check_error, mla_reference, relative_error, worst_row_error
from tpgate.kernels.results import KernelSession, KernelTiming, ShapeResult
from tpgate.kernels.roofline import Peaks
from tpgate.kernels.shapes import MlaShape
from tpgate.kernels.timing import Timing, rotations, time_calls

CHECK_ROWS = 4
"""Rows of the batch in a check; the reference is float64 and slow, and a row is like another."""


def check_kernel(kernel: str, shape: MlaShape, tile: Tile, device: str) -> tuple[float, float]:
    """Compare a kernel with the reference on fresh inputs: whole rows, then ragged ones with holes and a NaN entry.

    Returns:
        The larger of the two errors over all elements, and of the errors of any row and head.

    Raises:
        TpgateError: The kernel is wrong.
    """
    part = MlaShape(min(shape.batch, CHECK_ROWS), shape.topk, shape.heads, shape.cache, shape.latent, shape.rope)
    errors = []
    for hard in (False, True):
        seed = secrets.randbits(24)
        inputs = make_inputs(part, device=device, seed=seed, ragged=hard and part.batch > 1, holes=0.1 * hard)
        if hard:
            spoil_slot(inputs, inputs.slots - 1)
        inputs.poison()
        MAKERS[kernel](inputs, tile)()
        want = mla_reference(inputs)
        errors.append((relative_error(inputs.out, want), worst_row_error(inputs.out, want)))
        for error in errors[-1]:
            check_error(error, f"{kernel} {tile.name} on {shape.name} (seed {seed})")
    return max(error for error, _ in errors), max(error for _, error in errors)


def time_kernel(kernel: str, sets: Sequence[MlaInputs], tile: Tile, device: str, *, samples: int) -> KernelTiming:
    """Check a kernel, then time it over rotated input sets."""
    shape = sets[0].shape
    error, row_error = check_kernel(kernel, shape, tile, device)
    calls = [MAKERS[kernel](inputs, tile) for inputs in sets]
    timing = time_calls(calls, device=device, samples=samples)
    return _timing(kernel, shape, tile.name, timing, (error, row_error), bytes_requested(shape, tile))


def measure_shape(shape: MlaShape, device: str, *, naive: bool, others: bool, samples: int = 25) -> ShapeResult:
    """Measure the chosen head-shared kernel of ``shape``, and the naive one and other people's where asked."""
    sets = [make_inputs(shape, device=device, seed=seed) for seed in range(rotations(shape.gathered_bytes, device))]
    kernel, tile = choose(shape, capability=device_facts(device)[0], processors=device_facts(device)[1])
    fast = time_kernel(kernel, sets, tile, device, samples=samples)
    slow = time_kernel("naive", sets, NAIVE, device, samples=max(1, samples // 2)) if naive else None
    found, absent = _others(sets, device, samples) if others else ((), ())
    return ShapeResult(shape, fast, slow, found, absent)


@dataclass(frozen=True)
class Prepared:
    """A checked kernel on rotated inputs, ready to be called by somebody else's timer.

    Attributes:
        calls: One call a set of inputs.
        facts: Kernel, tile, errors, bytes and operations: what a reader needs beside a time.
    """

    calls: tuple[Call, ...]
    facts: dict[str, str | float]

    @staticmethod
    def finish(call: Call) -> None:
        """Make one call and wait for its end."""
        call()
        torch.cuda.synchronize()


def prepare(shape: MlaShape, device: str) -> Prepared:
    """Return the chosen head-shared kernel of ``shape``, checked, with its rotated inputs.

    Raises:
        TpgateError: The kernel is wrong on this device.
    """
    kernel, tile = choose(shape, capability=device_facts(device)[0], processors=device_facts(device)[1])
    error, row_error = check_kernel(kernel, shape, tile, device)
    count = rotations(shape.gathered_bytes, device)
    sets = [make_inputs(shape, device=device, seed=seed) for seed in range(count)]
    facts: dict[str, str | float] = {
        "kernel": kernel,
        "tile": tile.name,
        "relative_error": error,
        "row_error": row_error,
        "flops": shape.flops,
        "least_bytes": shape.least_bytes,
        "reread_factor": bytes_requested(shape, tile) / shape.least_bytes,
    }
    return Prepared(tuple(MAKERS[kernel](inputs, tile) for inputs in sets), facts)


def measure_session(
    shapes: Sequence[MlaShape],
    *,
    device: str,
    naive: Callable[[MlaShape], bool] = lambda shape: True,
    others: bool = True,
    samples: int = 25,
    peaks: Peaks | None = None,
) -> KernelSession:
    """Measure the device's ceilings and every shape, in this process.

    Args:
        shapes: What to measure.
        device: Torch device.
        naive: Whether the naive kernel is measured on a shape.
        others: Whether other people's kernels are tried.
        samples: Samples of each timing.
        peaks: Ceilings, where they are known already; measured otherwise.

    Raises:
        HostError: The device is not there.
        TpgateError: A kernel is wrong on this device.
    """
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise HostError(f"kernels on {device}: torch sees no GPU", expected="a GPU", next_step="tpgate doctor")
    ceilings = peaks or measure_peaks(device)
    found = tuple(measure_shape(one, device, naive=naive(one), others=others, samples=samples) for one in shapes)
    properties = torch.cuda.get_device_properties(device) if on_gpu else None
    return KernelSession(
        device_name=properties.name if properties else "cpu",
        device_uuid=f"GPU-{properties.uuid}" if properties else None,
        capability=f"{properties.major}.{properties.minor}" if properties else None,
        peaks=ceilings,
        shapes=found,
        collectives=(),
        versions=(
            ("torch", str(torch.__version__)),
            ("triton", str(triton.__version__)),
            ("cuda", torch.version.cuda or "none"),
        ),
    )


def _timing(
    kernel: str, shape: MlaShape, tile: str | None, timing: Timing, errors: tuple[float, float], moved: int | None
) -> KernelTiming:
    return KernelTiming(
        kernel=kernel,
        shape=shape,
        tile=tile,
        samples_s=timing.samples_s,
        sets=timing.calls,
        method=timing.method,
        error=errors[0],
        row_error=errors[1],
        requested_bytes=moved,
        clock_hz=timing.clock_hz,
    )


def _others(
    sets: Sequence[MlaInputs], device: str, samples: int
) -> tuple[tuple[KernelTiming, ...], tuple[tuple[str, str], ...]]:
    """Time FlashMLA on the same inputs, or say why not."""
    shape, name = sets[0].shape, "flash-mla"
    if shape.cache != "bf16" or shape.heads not in peers.HEADS:
        reason = f"made for a bf16 cache here and {peers.HEADS} heads"
        return (), ((name, reason),)
    try:
        peers.load_flash_mla()
    except HostError as error:
        return (), ((name, error.what),)
    calls = [peers.flash_mla_bf16(inputs) for inputs in sets]
    got, want = calls[0](), mla_reference(sets[0])
    errors = relative_error(got, want), worst_row_error(got, want)
    check_error(errors[0], f"FlashMLA on {shape.name}")
    timing = time_calls(calls, device=device, samples=samples)
    return (_timing(name, shape, None, timing, errors, None),), ()
