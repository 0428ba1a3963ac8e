"""The kernels compiled for Hopper, which needs no GPU: what the compiler made of them is checked, not hoped for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).with_name("build_for_hopper.py")
SHARED_MEMORY = 227 * 1024
"""Bytes of shared memory that one program may have on Hopper."""


@pytest.fixture(scope="module")
def built() -> dict[str, dict[str, int]]:
    environment = dict(os.environ) | {"TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, str(BUILD)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_hopper_kernel_uses_the_warp_group_units_and_lets_them_run(built):
    facts = built["hopper"]
    assert facts["HGMMA"] == 36 + 4
    assert facts["WARPGROUP.DEPBAR"] <= 3, "the compiler put a wait behind every product: they run one by one"
    assert facts["LDGSTS"] >= 36


@pytest.mark.parametrize("kernel", ["hopper", "hopper-split"])
def test_the_hopper_kernel_fits_and_keeps_its_registers(built, kernel):
    assert built[kernel]["shared"] <= SHARED_MEMORY
    assert built[kernel]["LDL"] == 0, "registers spill to local memory"


@pytest.mark.parametrize("kernel", ["shared-64", "shared-16", "shared-64-fp8", "naive"])
def test_the_portable_kernels_build_for_hopper_and_fit(built, kernel):
    assert built[kernel]["shared"] <= SHARED_MEMORY


def test_the_head_shared_kernel_uses_matrix_units_and_the_naive_one_does_not(built):
    assert built["shared-64"]["HGMMA"] > 0
    assert built["shared-16"]["HMMA"] > 0
    assert built["naive"]["HGMMA"] == built["naive"]["HMMA"] == 0
