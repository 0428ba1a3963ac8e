"""Command lines and environments; the CPU stand-ins; model folders."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

from tpgate.errors import ConfigError, ServerError
from tpgate.server import cpu, engine
from tpgate.server.model_folder import prepare
from tpgate.specs import ModelSpec, ServerSpec, pairs

DUMMY = ModelSpec.dummy("tiny", {"vocab_size": 8})


def command(spec, tmp_path, **more):
    asked = {"python": "py", "version": "0.5.20", "model_path": tmp_path, "port": 1, "nccl_port": 2, "extra": ()}
    return engine.command(spec, **{**asked, "gpus": (), "launch_id": "cafe", **more})


def test_a_cpu_server_gets_the_shim_first_and_keeps_other_plugins(tmp_path):
    own = (("PYTHONPATH", "/faults"), ("SGLANG_PLUGINS", "tpgate_faults"), ("TPGATE_FAULTS", "{}"))
    made = command(ServerSpec(DUMMY, 2, device="cpu", environment=own), tmp_path)
    variables = dict(made.variables)
    assert variables["PYTHONPATH"] == f"{cpu.SHIM}{os.pathsep}/faults"
    assert variables["SGLANG_PLUGINS"] == "tpgate_faults,tpgate_cpu"
    assert variables["TPGATE_FAULTS"] == "{}"
    assert variables["SGLANG_USE_CPU_ENGINE"] == "1"
    assert "|" in variables["SGLANG_CPU_OMP_THREADS_BIND"]
    assert "127.0.0.1" in variables["NO_PROXY"]
    shown = made.shell()
    assert "--attention-backend torch_native" in shown
    assert "--nccl-port 2 " in shown
    assert "cafe" not in shown


def test_a_gpu_server_gets_no_shim(tmp_path):
    made = command(ServerSpec(DUMMY, 1), tmp_path, gpus=("0", "3"))
    variables = dict(made.variables)
    assert (variables["CUDA_VISIBLE_DEVICES"], variables["CUDA_DEVICE_ORDER"]) == ("0,3", "PCI_BUS_ID")
    assert not {"PYTHONPATH", "SGLANG_PLUGINS", "SGLANG_USE_CPU_ENGINE"} & set(variables)


def test_uuids_become_indices_as_sglang_reads_whole_numbers(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-aa'\necho '1, GPU-bb'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert engine.visible(("GPU-bb", "GPU-aa")) == ["1", "0"]
    with pytest.raises(ServerError, match="GPU-cc is not on this machine"):
        engine.visible(("GPU-cc",))


@pytest.mark.parametrize(("cores", "ranks", "text"), [((0, 1), 2, "0|1"), (range(5), 2, "0,1|2,3"), ((7,), 2, "7|7")])
def test_each_rank_has_its_share_of_the_cores(cores, ranks, text):
    assert cpu.thread_binding(list(cores), ranks) == text


def test_the_version_is_that_of_the_interpreter(tmp_path):
    folder = tmp_path / "sglang-0.5.77.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.77\n")
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    assert engine.installed_version(str(wrapper)) == "0.5.77"
    empty = tmp_path / "bare"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    empty.chmod(0o755)
    with pytest.raises(ConfigError, match=r"(?s)PackageNotFoundError.*pip install"):
        engine.installed_version(str(empty))
    with pytest.raises(ConfigError, match=r"(?s)/no/such.*a Python with SGLang"):
        engine.installed_version("/no/such")


def test_sglang_finds_the_plugin_beside_the_shim():
    found = {
        entry.name: entry.value
        for one in importlib.metadata.distributions(path=[str(cpu.SHIM)])
        for entry in one.entry_points
        if entry.group == "sglang.srt.plugins"
    }
    assert found == {cpu.PLUGIN: "tpgate_sglang_cpu:register"}


def test_the_plugin_turns_nccl_off_however_it_was_asked_for():
    program = (
        "from tpgate_sglang_cpu import without_nccl\n"
        "class Group:\n"
        "    def __init__(self, ranks, use_pynccl, name=None): self.got = (ranks, use_pynccl, name)\n"
        "one, two = Group.__new__(Group), Group.__new__(Group)\n"
        "without_nccl(Group.__init__, one, [0, 1], True, name='tp')\n"
        "without_nccl(Group.__init__, two, ranks=[0, 1], use_pynccl=True)\n"
        "assert one.got == ([0, 1], False, 'tp') and two.got == ([0, 1], False, None), (one.got, two.got)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": str(cpu.SHIM)})


def test_the_stand_in_of_torchvision_is_imported_and_never_called():
    program = (
        "from torchvision.io import ImageReadMode, decode_image, decode_jpeg\n"
        "from torchvision.transforms import InterpolationMode, functional\n"
        "import torchvision, torchvision.transforms.v2.functional as F\n"
        "assert InterpolationMode.NEAREST_EXACT.value == 'nearest-exact'\n"
        "for name in (decode_jpeg, F.resize, functional.crop):\n"
        "    try: name(b'')\n"
        "    except NotImplementedError as error: assert 'torchvision' in str(error)\n"
        "    else: raise SystemExit(f'{name} was called')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": str(cpu.SHIM)})


def test_a_model_of_given_shape_is_a_folder_with_its_config(tmp_path):
    home = prepare(DUMMY, tmp_path)
    assert [entry.name for entry in home.iterdir()] == ["config.json"]
    assert json.loads((home / "config.json").read_text()) == {"vocab_size": 8}
    assert prepare(DUMMY, tmp_path) == home


def test_a_model_with_weights_is_found_by_its_variable(tmp_path, monkeypatch):
    model = ModelSpec("real", path_variable="TPGATE_TEST_MODEL")
    monkeypatch.delenv("TPGATE_TEST_MODEL", raising=False)
    with pytest.raises(ConfigError, match=r"(?s)TPGATE_TEST_MODEL is not set.*export TPGATE_TEST_MODEL="):
        prepare(model, tmp_path)
    monkeypatch.setenv("TPGATE_TEST_MODEL", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="is not a folder"):
        prepare(model, tmp_path)
    monkeypatch.setenv("TPGATE_TEST_MODEL", str(tmp_path))
    with pytest.raises(ConfigError, match=r"holds no config\.json"):
        prepare(model, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert prepare(model, tmp_path) == tmp_path.resolve()


def test_options_of_the_scenario_win_over_those_of_the_cpu(tmp_path):
    spec = ServerSpec(DUMMY, 1, device="cpu", options=pairs(attention_backend="intel_amx", nccl_port=9))
    shown = command(spec, tmp_path).shell()
    assert shown.count("--attention-backend") == 1
    assert "--attention-backend intel_amx" in shown
    assert shown.count("--nccl-port") == 1
    assert "--nccl-port 9" in shown
