"""A fixture that puts the scripted NVML of ``fake_nvml.py`` in place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_nvml
import pynvml
import pytest

HERE = Path(__file__).parent


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that puts a scripted NVML in place, in this process and in those it starts."""

    def place(machine: dict[str, Any] | None) -> dict[str, Any] | None:
        monkeypatch.setattr(pynvml, "CDLL", fake_nvml.load(machine))
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        pynvml._nvmlGetFunctionPointer_cache.clear()
        monkeypatch.setenv("TPGATE_TEST_NVML", json.dumps(machine))
        paths = [str(HERE / "fake_site"), str(HERE), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return machine

    placed: Callable[..., Any] = place
    yield placed
    pynvml._nvmlGetFunctionPointer_cache.clear()
