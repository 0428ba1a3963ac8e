"""Puts the scripted NVML into every Python process that a test starts (see ``fake_nvml.py``)."""

import json
import os

if "TPGATE_TEST_NVML" in os.environ:
    import fake_nvml

    fake_nvml.install(json.loads(os.environ["TPGATE_TEST_NVML"]))
