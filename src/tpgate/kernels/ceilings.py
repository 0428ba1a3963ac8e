"""A device's ceilings as measured now: a large copy, and a large matrix product of random data."""

from __future__ import annotations

import torch

from tpgate.kernels.roofline import Peaks
from tpgate.kernels.timing import time_calls


def measure_copy(device: str, size: int = 4 << 30, samples: int = 10) -> float:
    """Return bytes a second of a device-to-device copy of ``size`` bytes, counting bytes read plus bytes written."""
    source = torch.empty(size // 8, dtype=torch.float64, device=device).uniform_()
    target = torch.empty_like(source)
    timing = time_calls([lambda: target.copy_(source)], device=device, samples=samples, graph=False)
    return 2 * 8 * (size // 8) / timing.median_s


def measure_matmul(device: str, side: int = 8192, samples: int = 20) -> float:
    """Return operations a second of a bfloat16 matrix product of random data, ``2 x side**3`` operations each."""
    left = torch.randn(side, side, device=device, dtype=torch.float32).to(torch.bfloat16)
    right = torch.randn(side, side, device=device, dtype=torch.float32).to(torch.bfloat16)
    out = torch.empty_like(left)
    timing = time_calls([lambda: torch.matmul(left, right, out=out)], device=device, samples=samples, graph=False)
    return 2 * side**3 / timing.median_s


def measure_peaks(device: str) -> Peaks:
    """Return the ceilings of ``device`` as measured now; on the CPU by a small copy and product, to see it run."""
    size, side = (4 << 30, 8192) if torch.device(device).type == "cuda" else (64 << 20, 512)
    copy, matmul = measure_copy(device, size), measure_matmul(device, side)
    return Peaks(copy, matmul, f"measured in this process: copy of {size >> 20} MiB, bfloat16 product of side {side}")
