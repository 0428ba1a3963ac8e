"""Copy bandwidth between host and device, and between devices, each way on its own."""

from __future__ import annotations

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


def _rate(path: str, target: torch.Tensor, source: torch.Tensor, samples: int, *, peer: bool | None = None) -> CopyRate:
    device = source.device if source.is_cuda else target.device
    with torch.cuda.device(device):
        timing = time_calls(
            [lambda: target.copy_(source, non_blocking=True)], device=str(device), samples=samples, graph=False
        )
    return CopyRate(path, source.numel(), source.numel() / timing.median_s, peer)
