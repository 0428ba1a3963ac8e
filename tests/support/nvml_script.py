"""Scripts for the NVML library of ``fake_nvml.py``: machines and GPUs as plain JSON."""

from __future__ import annotations

from typing import Any


def gpu(uuid: str = "GPU-aaaa", **more: Any) -> dict[str, Any]:
    """Return the script of one healthy H200; ``more`` changes it."""
    return {
        "uuid": uuid,
        "name": "NVIDIA H200",
        "memory_total": 150 << 30,
        "memory_used": 100 << 30,
        "link_generation": 5,
        "link_width": 16,
        "link_generation_max": 5,
        "link_width_max": 16,
        "link_generation_device": 5,
        "sm_mhz": 1980,
        "memory_mhz": 3201,
        "sm_mhz_max": 1980,
        "power_mw": 400_000,
        "power_limit_mw": 700_000,
        "power_default_mw": 700_000,
        "temperature": 50,
        "throttle": 0,
        "replays": 0,
        "ecc_errors": 0,
        "violation_ns": 0,
        "processes": [[4242, 100 << 30]],
        "mig": 0,
        "ecc": 1,
        "persistence": 1,
        "tx_rate": 16e6,
        "rx_rate": 38e6,
        "bits": 32,
        "value_type": 1,
        "offset": 0,
        "unsupported": [],
    } | more


def script(*gpus: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a script of a machine with these GPUs."""
    return {"driver": "580.159.04", "cuda": 13000, "init": 0, "gpus": list(gpus) or [gpu()], "p2p": "pcie"} | more
