from __future__ import annotations

import ctypes
import json

import pytest

from tpgate.host import copier
from tpgate.host.copier import CudaError, Driver, main, run


class Cuda:
    """Looks like libcuda: counts what is copied, and may fail in one function."""

    def __init__(self, failing=None):
        self.failing = failing
        self.copied = {"cuMemcpyHtoD_v2": 0, "cuMemcpyDtoH_v2": 0}
        self.calls = []
        self.buffer = ctypes.create_string_buffer(1 << 16)

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            if name == self.failing:
                return 2
            if name in self.copied:
                self.copied[name] += arguments[2].value
            if name == "cuMemHostAlloc":
                arguments[0]._obj.value = ctypes.addressof(self.buffer)
            return 0

        return call


@pytest.mark.parametrize(
    ("to_gpu", "used", "unused"),
    [(True, "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"), (False, "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2")],
)
def test_the_asked_bytes_go_the_asked_way(monkeypatch, to_gpu, used, unused):
    monkeypatch.setattr(copier.time, "sleep", lambda _: None)
    cuda = Cuda()
    driver = Driver(cuda, 1 << 16)
    done = run(driver, to_gpu=to_gpu, total=(5 << 16) + 7)
    driver.close()
    assert cuda.copied[used] == (6 << 16) + 7  # one block more, to warm up
    assert cuda.copied[unused] == 0
    assert done["bytes"] == (5 << 16) + 7
    assert done["end_ns"] > done["begin_ns"]
    assert cuda.calls[-1] == "cuDevicePrimaryCtxRelease_v2"


def test_a_failing_call_is_named():
    with pytest.raises(CudaError, match="cuMemAlloc_v2 answered 2"):
        Driver(Cuda("cuMemAlloc_v2"), 1 << 16)


def test_without_cuda_the_document_says_so(monkeypatch, capsys):
    def absent(name):
        raise OSError(f"{name}: not here")

    monkeypatch.setattr(copier.ctypes, "CDLL", absent)
    assert main([]) == 1
    assert json.loads(capsys.readouterr().out) == {"error": "libcuda.so.1: not here"}


def test_with_cuda_the_document_has_both_ways(monkeypatch, capsys):
    monkeypatch.setattr(copier.time, "sleep", lambda _: None)
    monkeypatch.setattr(copier, "BLOCK", 1 << 16)
    monkeypatch.setattr(copier.ctypes, "CDLL", lambda name: Cuda())
    assert main(["--bytes", "131072"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"to_gpu", "from_gpu"}
