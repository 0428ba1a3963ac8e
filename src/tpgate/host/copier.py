"""Copies of known size between host and GPU: ``python -m tpgate.host.copier``, a process of its own.

It uses the CUDA driver alone (libcuda, by ctypes), so it runs wherever a GPU does, with no framework installed. The
GPU is the first that CUDA_VISIBLE_DEVICES shows. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

BLOCK = 64 << 20
_FLAGS_PORTABLE = 1


class CudaError(Exception):
    """A call of the CUDA driver failed."""


class Driver:
    """The CUDA driver with a context on one GPU, a device buffer and a pinned host buffer of ``block`` bytes."""

    def __init__(self, library: Any, block: int) -> None:  # noqa: ANN401 - a ctypes library
        self._library = library
        self.block = block
        self._device, self._context = c_int(), c_void_p()
        self.remote, self.local = c_uint64(), c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", byref(self._device), 0)
        self._call("cuDevicePrimaryCtxRetain", byref(self._context), self._device)
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuMemAlloc_v2", byref(self.remote), c_size_t(block))
        self._call("cuMemHostAlloc", byref(self.local), c_size_t(block), _FLAGS_PORTABLE)
        ctypes.memset(self.local, 1, block)  # the pages are really there before anything is timed

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name} answered {code}")

    def copy(self, *, to_gpu: bool, size: int) -> None:
        """Copy ``size`` bytes, at most a block, and wait for it."""
        if to_gpu:
            self._call("cuMemcpyHtoD_v2", self.remote, self.local, c_size_t(size))
        else:
            self._call("cuMemcpyDtoH_v2", self.local, self.remote, c_size_t(size))
        self._call("cuCtxSynchronize")

    def close(self) -> None:
        """Give the buffers and the context back."""
        self._call("cuMemFreeHost", self.local)
        self._call("cuMemFree_v2", self.remote)
        self._call("cuDevicePrimaryCtxRelease_v2", self._device)


def run(driver: Driver, *, to_gpu: bool, total: int) -> dict[str, float]:
    """Copy ``total`` bytes in blocks; return bytes, and monotonic ns before the first and after the last."""
    driver.copy(to_gpu=to_gpu, size=driver.block)
    time.sleep(0.3)  # the counters settle, so that the warm-up is not in the figure
    begin = time.perf_counter_ns()
    left = total
    while left > 0:
        size = min(left, driver.block)
        driver.copy(to_gpu=to_gpu, size=size)
        left -= size
    end = time.perf_counter_ns()
    time.sleep(0.3)
    return {"bytes": total, "begin_ns": begin, "end_ns": end, "bytes_per_second": total / ((end - begin) / 1e9)}


def main(argv: Sequence[str] | None = None) -> int:
    """Copy each way and print what was done."""
    parser = argparse.ArgumentParser(prog="python -m tpgate.host.copier", description=__doc__)
    parser.add_argument("--bytes", type=int, default=8 << 30, help="bytes each way")
    arguments = parser.parse_args(argv)
    try:
        driver = Driver(ctypes.CDLL("libcuda.so.1"), BLOCK)
        done = {
            "to_gpu": run(driver, to_gpu=True, total=arguments.bytes),
            "from_gpu": run(driver, to_gpu=False, total=arguments.bytes),
        }
        driver.close()
    except (OSError, CudaError) as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return 1
    sys.stdout.write(json.dumps(done) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
