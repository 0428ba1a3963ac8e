from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path

import pytest

from tpgate.host.arguments import argument_keys, left_out, resolved, variable_keys


def server_info():
    path = Path(__file__).parent / "data" / "h200_server_info.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def both(info, **changes):
    """Change an argument where the front end and where the scheduler keep it."""
    other = copy.deepcopy(info)
    for place in (other, other["internal_states"][0]):
        place.update(changes)
    return other


def test_two_launches_of_one_scenario_are_one_identity():
    first = server_info()
    second = both(
        first,
        port=41877,
        nccl_port=52111,
        random_seed=7,
        host="10.0.0.9",
        model_path="/scratch/tmp-81/model",
        tokenizer_path="/scratch/tmp-81/model",
        served_model_name="/scratch/tmp-81/model",
        dist_init_addr="10.0.0.7:5000",
        log_level="warning",
        log_level_http="warning",
        api_key="sk-this-is-a-secret-value",
        download_dir="/elsewhere",
        disaggregation_bootstrap_port=9444,
        engine_info_bootstrap_port=1234,
        max_total_num_tokens=560_900,
        watchdog_timeout=900,
        crash_dump_folder="/tmp/x",
        base_gpu_id=2,
    )
    second["internal_states"][0] |= {"last_gen_throughput": 1.0, "memory_usage": {"weight": 1}, "grpc_port": 1}
    second["status"] = "busy"
    assert argument_keys(first) == argument_keys(second)


@pytest.mark.parametrize(
    "change",
    [
        {"attention_backend": "fa3"},
        {"chunked_prefill_size": 4096},
        {"disable_cuda_graph": True},
        {"mem_fraction_static": 0.7},
        {"tp_size": 2},
        {"stream_interval": 8},
        {"disable_custom_all_reduce": True},
        {"schedule_policy": "lpm"},
        {"kv_cache_dtype": "fp8_e5m2"},
        {"speculative_draft_model_path": "/models/draft-b"},
        {"disable_radix_cache": True},
        {"cuda_graph_config": {"decode": {"max_bs": 32}}},
    ],
)
def test_an_argument_that_moves_numbers_is_a_key(change):
    info = server_info()
    assert argument_keys(info) != argument_keys(both(info, **change))


def test_what_auto_became_is_read_from_the_scheduler():
    info = server_info()
    info["attention_backend"] = None
    info["internal_states"][0]["attention_backend"] = "fa3"
    keys = argument_keys(info)
    assert keys["server.attention_backend"] == "fa3"
    assert keys["server.disable_chunked_prefix_cache"] is True  # the front end of the real server still says False
    assert resolved(info)["attention_backend"] == "fa3"


def test_unset_off_and_empty_are_one_and_the_same():
    info = server_info()
    assert argument_keys(info) == argument_keys(both(info, a_new_switch=False, another=None, third="", fourth=[]))


def test_values_are_plain_and_long_ones_are_digests():
    keys = argument_keys(server_info())
    assert all(isinstance(value, str | int | float | bool) for value in keys.values())
    assert keys["server.cuda_graph_config.decode.max_bs"] == 64
    assert keys["server.cuda_graph_config.decode.bs"] == "[1,2,4,8,12,16,24,32,40,48,56,64]"
    assert keys["server.cuda_graph_config.prefill.bs"].startswith("digest ")


def test_a_draft_model_is_known_by_its_name_and_not_by_its_place():
    info = server_info()
    here = both(info, speculative_draft_model_path="/a/draft")
    there = both(info, speculative_draft_model_path="/b/c/draft")
    assert argument_keys(here) == argument_keys(there)
    assert argument_keys(here)["server.speculative_draft_model_path"] == "draft"


@pytest.mark.parametrize(
    "name", ["api_key", "port", "random_seed", "model_path", "log_level", "host", "file_storage_path"]
)
def test_what_is_left_out_has_a_reason(name):
    assert left_out(name)


def test_variables_that_move_numbers_are_keys_and_places_and_secrets_are_not():
    keys = variable_keys(
        {
            "NCCL_ALGO": "Ring",
            "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1",
            "OMP_NUM_THREADS": "4",
            "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
            "CUDA_VISIBLE_DEVICES": "GPU-1",
            "CUDA_HOME": "/usr/local/cuda",
            "TRITON_CACHE_DIR": "/tmp/x",
            "SGLANG_API_KEY": "sk-this-is-a-secret-value",
            "NCCL_DEBUG": "INFO",
            "SGLANG_LOG_MS": "1",
            "SGLANG_TORCH_PROFILER_DIR": "relative",
            "NCCL_TOPO_DUMP": "/tmp/topo.xml",
            "PATH": "/bin",
            "HF_TOKEN": "hf_abcdefghijklmnop",
        }
    )
    assert keys == {
        "env.NCCL_ALGO": "Ring",
        "env.SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1",
        "env.OMP_NUM_THREADS": "4",
        "env.LD_PRELOAD": "libjemalloc.so.2",
    }


def test_what_newer_releases_say_of_a_launch_is_no_argument():
    # SGLang 0.5.20 answers with its command line and its start-up times beside the arguments; both differ every time.
    first = {"tp_size": 2, "launch_command": "--port 29437 --nccl-port 29263", "startup_time": {"load_weight": 0.138}}
    second = {"tp_size": 2, "launch_command": "--port 23241 --nccl-port 21781", "startup_time": {"load_weight": 0.125}}
    assert argument_keys(first) == argument_keys(second) == {"server.tp_size": 2}
