"""Triton's interpreter runs the kernels here, so that they are checked where there is no GPU.

This folder has a tox environment of its own, in which torch and Triton are installed: without them it fails.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton  # noqa: F401

torch.set_num_threads(1)


def pytest_configure(config):
    # Triton 3.6's interpreter reads loop bounds in a way that numpy 2.3 deprecates and numpy 2.4 refuses.
    config.addinivalue_line("filterwarnings", "ignore:Conversion of an array with ndim:DeprecationWarning")
