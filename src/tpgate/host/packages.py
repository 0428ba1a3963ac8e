"""Versions of the packages that a server runs, read with the server's own interpreter."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

WATCHED = (
    "sglang",
    "torch",
    "triton",
    "sgl-kernel",
    "sglang-kernel",
    "sglang-kernel-cpu",
    "flashinfer-python",
    "flashinfer-cubin",
    "flash-attn",
    "flash-attn-3",
    "flash-attn-4",
    "deep-gemm",
    "deep-ep",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-runtime",
    "nvidia-cublas-cu12",
    "nvidia-cublas",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cutlass-dsl",
    "apache-tvm-ffi",
    "transformers",
    "xgrammar",
    "tilelang",
    "quack-kernels",
    "torchao",
    "uvloop",
    "pyzmq",
)
"""Packages whose version is a key; all others together are one digest, which is a note."""

_CODE = """
import importlib.metadata as m, json, re, sys
found = {}
for d in m.distributions():
    name = d.metadata["Name"]
    if name:
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), d.version)
print(json.dumps({"python": ".".join(map(str, sys.version_info[:3])), "packages": found}))
"""
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Packages:
    """What an interpreter has installed.

    Attributes:
        versions: Normalised name to version, of everything that is installed.
        python: The interpreter's version, or None.
        reason: Why nothing could be read, or None.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    reason: str | None = None

    def digest(self) -> str | None:
        """Return a digest of everything that is installed, or None where it was not read."""
        if not self.versions:
            return None
        text = "\n".join(f"{name}=={version}" for name, version in sorted(self.versions.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(python: str | None, environment: Mapping[str, str] | None = None) -> Packages:
    """Return what the interpreter ``python`` has installed; PYTHONPATH counts, as it does for the server.

    Args:
        python: Path of the interpreter; None where the server was not started here.
        environment: The server's variables; None means this process's own.
    """
    if python is None:
        return Packages(reason="the server was not started here, so its interpreter is not known")
    try:
        done = subprocess.run(
            [python, "-c", _CODE],
            env=dict(os.environ if environment is None else environment),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Packages(reason=f"{python} could not be asked: {error}")
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        return Packages(versions=answer["packages"], python=answer["python"])
    except (IndexError, ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Packages(reason=f"{python} ended with {done.returncode}: {last}")
