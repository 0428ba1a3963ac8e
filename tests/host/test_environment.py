from __future__ import annotations

import json
import sys

import pytest
from fake_nvml import gpu, script
from test_arguments import both, server_info

from tpgate.host import environment, packages
from tpgate.host.environment import FIELDS, cpu_hardware, gpu_hardware, identity, kind_of
from tpgate.host.nvml import devices
from tpgate.host.packages import Packages
from tpgate.specs import ModelSpec, ServerSpec

MODEL = ModelSpec.dummy("llama", {"hidden_size": 4096, "num_hidden_layers": 32})
INSTALLED = Packages({"sglang": "0.5.15", "torch": "2.11.0", "numpy": "2.0"}, "3.12.1")


@pytest.fixture
def take(nvml, monkeypatch):
    def gather(*gpus, info=None, spec=None, environ=None, installed=INSTALLED, uuids=None, **machine):
        nvml(script(*(gpus or (gpu(),)), **machine))
        monkeypatch.setattr(packages, "read", lambda python, variables=None: installed)
        return identity(
            spec=spec or ServerSpec(MODEL),
            scenario_digest="d",
            server_info=info or server_info(),
            python=sys.executable,
            gpus=uuids if uuids is not None else tuple(card["uuid"] for card in gpus) or ("GPU-aaaa",),
            process_environment={} if environ is None else environ,
        )

    return gather


def test_an_h200_is_described_by_what_moves_numbers(take):
    found = take()
    expected = {
        "hardware": "nvidia-h200-x1", "gpu": "NVIDIA H200", "gpus": 1, "topology": "single", "pcie_link": "Gen5 x16",
        "power_limit_w": "700", "mig": "False", "ecc": "True", "driver_major": "580", "sglang": "0.5.15",
        "package.torch": "2.11.0", "weights": "random", "scenario": "d", "engine": "sglang",
        "server.attention_backend": "triton",
    }  # fmt: skip
    assert expected.items() <= found.keys.items()
    assert found.notes["driver"] == "580.159.04"
    assert found.notes["gpu_uuids"] == "GPU-aaaa"
    assert found.notes["kv_cache_tokens"] == 560_916
    assert "not_read" not in found.notes


def test_a_driver_patch_is_a_note_and_a_branch_is_a_key(take):
    old, patch, branch = take(), take(driver="580.200.01"), take(driver="590.10")
    assert old.keys == patch.keys
    assert old.notes != patch.notes
    assert branch.keys["driver_major"] == "590"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"power_limit_mw": 500_000}, "power_limit_w"),
        ({"link_generation_max": 4}, "pcie_link"),
        ({"mig": 1}, "mig"),
        ({"ecc": 0}, "ecc"),
        ({"name": "NVIDIA H100"}, "hardware"),
    ],
)
def test_another_machine_is_another_key(take, change, field):
    assert take(gpu(**change)).keys[field] != take().keys[field]


def test_another_card_of_the_same_kind_is_only_a_note(take):
    assert take(gpu("GPU-other")).keys == take().keys


def test_topology_and_count_are_keys(take):
    pair = (gpu(), gpu("GPU-bbbb"))
    assert take(*pair, p2p="nvlink").keys["topology"] == "nvlink"
    assert take(*pair, p2p="none").keys["topology"] == "through host"
    assert take(*pair).keys["hardware"] == "nvidia-h200-x2"


def test_planted_secrets_are_in_no_field(take):
    secret = "hf_planted0123456789"
    info = both(server_info(), api_key=secret, admin_api_key=secret, tool_server=f"http://u:{secret}@h/")
    spec = ServerSpec(MODEL, environment=(("SGLANG_TOOL_TOKEN", secret), ("NCCL_X", f"token={secret}")))
    found = take(info=info, spec=spec, environ={"HF_TOKEN": secret, "SGLANG_API_KEY": secret, "NCCL_Y": secret})
    assert secret not in json.dumps([found.keys, found.notes])


def test_every_field_stands_in_the_table_with_a_reason(take):
    found = take(environ={"NCCL_ALGO": "Ring"}, installed=Packages({"sglang": "0.5.14"}, "3.12"))
    assert found.notes["sglang_installed"] == "0.5.14"
    for name in found.keys:
        assert kind_of(name) == "key"
    for name in found.notes:
        assert kind_of(name) == "note"
    assert all(len(reason) > 10 for _, reason in FIELDS.values())
    with pytest.raises(KeyError):
        kind_of("never_heard_of")


def test_a_gpu_that_cannot_be_read_is_said_so(take, nvml):
    found = take(uuids=("GPU-zzzz",))
    assert found.keys["hardware"] == "unknown-gpu-x1"
    assert "NVML shows none of them" in found.notes["not_read"]
    nvml(None)
    found = identity(spec=ServerSpec(MODEL), scenario_digest="d", server_info={}, gpus=("GPU-aaaa",))
    assert "NVML Shared Library Not Found" in found.notes["not_read"]


def test_gpus_may_be_given_as_values(take, nvml):
    nvml(script())
    cards = devices()
    assert take(uuids=tuple(cards)).keys["hardware"] == "nvidia-h200-x1"


def test_a_server_on_the_cpu_is_known_by_its_processor(take):
    found = take(spec=ServerSpec(MODEL, device="cpu"), uuids=())
    assert found.keys["hardware"] == cpu_hardware()
    assert found.keys["hardware"].startswith("cpu-")
    assert found.keys["hardware"].endswith("cores")
    assert "gpu" not in found.keys


def test_names_of_hardware():
    assert gpu_hardware(["NVIDIA H100 80GB HBM3"] * 4) == "nvidia-h100-80gb-hbm3-x4"
    assert gpu_hardware(["B", "A", "B"]) == "a-x1-b-x2"


def test_a_model_folder_is_known_by_its_config(take, tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    spec = ServerSpec(ModelSpec("real", path_variable="REAL_MODEL"))
    found = take(spec=spec, environ={"REAL_MODEL": str(tmp_path)})
    assert found.keys["weights"] == "real"
    assert found.keys["model_config"] == environment.digest_of({"hidden_size": 8})
    assert str(tmp_path) not in json.dumps([found.keys, found.notes])
    absent = take(spec=spec, environ={})
    assert absent.keys["model_config"] is None
    assert "config.json of real" in absent.notes["not_read"]
