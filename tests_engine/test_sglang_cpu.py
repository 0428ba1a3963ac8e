"""A real SGLang server on the CPU: it starts, answers, counts, profiles every rank, and leaves nothing behind.

Run by ``tox run -e engine``, in an environment that holds requirements/sglang-cpu.txt and SGLang.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time

import pytest

from tpgate.server import census, cpu, ports, process
from tpgate.server.api import Api
from tpgate.specs import ModelSpec, ServerSpec, pairs

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 2048,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def spec_of(tensor_parallel):
    options = pairs(mem_fraction_static=0.3, max_total_tokens=20000)
    model = ModelSpec.dummy("tiny-llama", TINY)
    return ServerSpec(model, tensor_parallel, device="cpu", options=options, startup_timeout_s=400)


def whole_traces(folder, ranks, seconds=60.0):
    """Wait for one complete trace a rank, and return their events."""
    deadline = time.monotonic() + seconds
    while True:
        found = sorted(folder.glob("*-TP-*.trace.json.gz"))
        try:
            events = [json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] for path in found]
        except (EOFError, ValueError, OSError):
            events = []
        if len(events) == ranks or time.monotonic() > deadline:
            return [path.name.split("-TP-")[1][0] for path in found], events
        time.sleep(0.2)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_real_server_from_start_to_release(tmp_path, ranks):
    with process.start(spec_of(ranks), folder=tmp_path) as server:
        pids = server.pids()
        titles = [census.read(pid).title for pid in pids]
        assert sum(title.startswith("sglang::scheduler") for title in titles) == ranks
        assert server.alive() is None
        assert server.info["tp_size"] == ranks
        assert server.notes == ()
        api = Api(server.url)
        api.flush_cache()
        before = api.metrics()
        assert api.generate_once(list(range(10, 42)), 16) == 16
        counted = {
            name: value - before.get(name, 0.0)
            for name, value in api.metrics().items()
            if name.startswith("sglang:generation_tokens_total")
        }
        assert list(counted.values()) == [16.0]
        traces = tmp_path / "traces"
        api.start_profile(output_dir=str(traces), num_steps=4, activities=["CPU"])
        api.generate_once(list(range(50, 82)), 12)
        seen, events = whole_traces(traces, ranks)
        assert seen == [str(rank) for rank in range(ranks)]
        assert all(any(event.get("cat") == "cpu_op" for event in one) for one in events)
        assert process.attach(server.url, spec_of(ranks)).alive() is None
    assert not set(census.table()) & pids
    assert ports.is_free(server.command.port)


def test_a_lost_scheduler_is_seen(tmp_path):
    with process.start(spec_of(1), folder=tmp_path) as server:
        scheduler = next(p for p in server.pids() if census.read(p).title.startswith("sglang::scheduler"))
        os.kill(scheduler, 9)
        deadline = time.monotonic() + 30
        while server.alive() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert server.alive() is not None


def test_the_kernel_that_stands_in_writes_what_sglangs_writes():
    program = (
        "import torch\n"
        "from sgl_kernel import assign_req_to_token_pool_cpu as assign\n"
        "table = torch.full((4, 8), -1, dtype=torch.int32)\n"
        "assign(torch.tensor([2, 0]), table, torch.tensor([1, 0]), torch.tensor([3, 4]), torch.arange(10, 16), 8)\n"
        "assert table[2].tolist() == [-1, 10, 11, -1, -1, -1, -1, -1], table\n"
        "assert table[0].tolist() == [12, 13, 14, 15, -1, -1, -1, -1], table\n"
        "assert (table[[1, 3]] == -1).all()\n"
        "import sgl_kernel\n"
        "try: sgl_kernel.decode_attention_cpu()\n"
        "except NotImplementedError: pass\n"
        "else: raise SystemExit('it was computed in silence')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": str(cpu.SHIM)})
