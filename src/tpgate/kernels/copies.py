"""Copy bandwidth between host and device, and between devices, each way on its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tpgate.errors import HostError
from tpgate.kernels.timing import time_calls


@dataclass(frozen=True, slots=True)
class CopyRate:
    """Bandwidth of one path in one direction.

    Attributes:
        path: ``h2d``, ``d2h`` or ``d<source>-d<target>``.
        size: Bytes a copy.
        bytes_per_s: Bytes copied a second, each counted once.
        peer: Whether a device-to-device copy goes directly, or None for copies from and to the host.
    """

    path: str
    size: int
    bytes_per_s: float
    peer: bool | None = None


def measure_copies(size: int = 1 << 30, samples: int = 8) -> tuple[CopyRate, ...]:
    """Measure host to device, device to host (pinned memory), and every ordered pair of devices.

    Raises:
        HostError: There is no CUDA device.
    """
    if not torch.cuda.is_available():
        raise HostError("copy bandwidth: no CUDA device", expected="at least one", next_step="tpgate doctor")
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    count = torch.cuda.device_count()
    buffers = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{index}") for index in range(count)]
    found = [
        _rate("h2d", buffers[0], host, samples),
        _rate("d2h", host, buffers[0], samples),
    ]
    for source in range(count):
        for target in range(count):
            if source != target:
                peer = torch.cuda.can_device_access_peer(source, target)
                found.append(_rate(f"d{source}-d{target}", buffers[target], buffers[source], samples, peer=peer))
    return tuple(found)


def prepare_copy(path: str, size: int) -> tuple[Callable[[], None], int]:
    """Return a call that copies once and waits, and its bytes; ``path`` is ``h2d`` or ``d2h``.

    Raises:
        HostError: There is no CUDA device, or the path is another.
    """
    if not torch.cuda.is_available() or path not in ("h2d", "d2h"):
        raise HostError(f"copy {path}: no CUDA device, or no such path", expected="a device, and h2d or d2h")
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device="cuda:0")
    source, target = (host, device) if path == "h2d" else (device, host)

    def copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return copy, size


def _rate(path: str, target: torch.Tensor, source: torch.Tensor, samples: int, *, peer: bool | None = None) -> CopyRate:
    device = source.device if source.is_cuda else target.device
    with torch.cuda.device(device):
        timing = time_calls(
            [lambda: target.copy_(source, non_blocking=True)], device=str(device), samples=samples, graph=False
        )
    return CopyRate(path, source.numel(), source.numel() / timing.median_s, peer)


def main() -> int:
    """Print the bandwidth of every path of this machine."""
    for rate in measure_copies():
        peer = {None: "", True: " (peer to peer)", False: " (through the host)"}[rate.peer]
        sys.stdout.write(f"{rate.path:8s} {rate.bytes_per_s / 1e9:8.1f} GB/s{peer}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
