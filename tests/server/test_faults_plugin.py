"""The SGLang plugin, against stand-ins for the few things of SGLang that it touches."""

from __future__ import annotations

import asyncio
import enum
import importlib.metadata
import json
import sys
import types

import pytest

from tpgate.server.faults.inject import PLUGIN, VARIABLE, site_folder
from tpgate.server.faults.table import CASES


class HookType(enum.Enum):
    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"


class Registry:
    def __init__(self):
        self.hooks = {}

    def register(self, target, hook, kind):
        self.hooks[target.rsplit(".", 1)[1]] = (hook, kind)


@pytest.fixture
def plugin(monkeypatch):
    """Register faults as SGLang would, and return the hooks by the last name of their target."""
    monkeypatch.syspath_prepend(str(site_folder()))
    registry = Registry()
    module = types.ModuleType("sglang.srt.plugins.hook_registry")
    module.HookRegistry, module.HookType = registry, HookType
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def register(**faults):
        monkeypatch.setenv(VARIABLE, json.dumps(faults))
        importlib.import_module("tpgate_faults").register()
        return registry.hooks

    yield register
    for name in [name for name in sys.modules if name.startswith("tpgate_faults")]:
        del sys.modules[name]


def mode(decode=True):
    return types.SimpleNamespace(forward_mode=types.SimpleNamespace(is_decode=lambda: decode))


def test_sglang_finds_it_by_its_entry_point(monkeypatch):
    monkeypatch.syspath_prepend(str(site_folder()))
    (entry,) = [e for e in importlib.metadata.entry_points(group="sglang.srt.plugins") if e.name == PLUGIN]
    assert entry.value == "tpgate_faults:register"


def test_all_faults_of_the_table_are_known(plugin):
    for case in CASES:
        for faults in filter(None, (case.plugin, case.cpu)):
            assert plugin(**dict(faults)), case.name


def test_no_fault_is_no_hook(plugin):
    assert plugin() == {}
    assert plugin(attention_slower=0) == {}


def test_unknown_faults_are_refused(plugin):
    with pytest.raises(ValueError, match="unknown faults \\['slow'\\]"):
        plugin(slow=1)


def test_what_is_hooked_is_said_in_the_log(plugin, capsys):
    plugin(max_running=2)
    assert "tpgate-faults: max_running=2 on sglang." in capsys.readouterr().err


@pytest.mark.parametrize(("slower", "calls"), [(0.5, 6), (1.0, 8), (2.0, 12), (0.25, 5)])
def test_attention_runs_again_in_its_share_of_the_layers(plugin, slower, calls):
    hook, kind = plugin(attention_slower=slower)["forward"]
    seen = []

    def original(layer, *_):
        seen.append(layer.layer_id)
        return layer.layer_id

    for number in range(4):
        layer = types.SimpleNamespace(layer_id=number)
        assert hook(original, layer, "q", "k", "v", mode()) == number
        hook(lambda layer, *_: None, layer, "q", "k", "v", mode(decode=False))
    assert kind is HookType.AROUND
    assert len(seen) == calls


@pytest.mark.parametrize(("ranks", "decode", "reduced"), [(2, True, 3), (1, True, 0), (2, False, 0)])
def test_each_layer_reduces_more(plugin, monkeypatch, ranks, decode, reduced):
    shapes = []
    group = types.SimpleNamespace(world_size=ranks, all_reduce=shapes.append)
    module = types.ModuleType("sglang.srt.distributed")
    module.get_tp_group = lambda: group
    monkeypatch.setitem(sys.modules, module.__name__, module)
    hook, kind = plugin(extra_all_reduce=3)["forward"]
    result = types.SimpleNamespace(shape=(5, 128), new_zeros=lambda shape: shape)
    assert hook(result, "layer", "q", "k", "v", forward_batch=mode(decode)) is None
    assert kind is HookType.AFTER
    assert shapes == [(5, 256)] * reduced


def test_scheduler_sleeps_before_decode_steps_only(plugin, monkeypatch):
    hook, _ = plugin(scheduler_sleep_ms=3)["run_batch"]
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    for decode in (True, False, True):
        hook("scheduler", mode(decode))
    assert slept == [0.003, 0.003]


def test_stall_comes_every_nth_step(plugin, monkeypatch):
    hook, _ = plugin(stall_every=3, stall_ms=50)["run_batch"]
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    for _ in range(7):
        hook("scheduler", mode())
    assert slept == [0.05, 0.05]


def test_death_and_hang_come_after_n_steps(plugin, monkeypatch):
    happened = []
    monkeypatch.setattr("os._exit", happened.append)
    hook, _ = plugin(die_after_steps=2)["run_batch"]
    for _ in range(3):
        hook("scheduler", mode())
    assert happened == [17]
    monkeypatch.setattr("time.sleep", happened.append)
    hook, _ = plugin(hang_after_steps=1)["run_batch"]
    for _ in range(2):
        hook("scheduler", mode())
    assert happened == [17, 3600.0]


@pytest.mark.parametrize(("running", "allowed"), [(0, 4), (3, 1), (4, 0), (9, 0)])
def test_batch_cap(plugin, running, allowed):
    hook, kind = plugin(max_running=4)["get_num_allocatable_reqs"]
    assert kind is HookType.AFTER
    assert hook(100, "scheduler", running) == allowed


def test_miscount_is_one_too_many_after_every_n(plugin):
    hook, _ = plugin(miscount=8)["_handle_batch_output"]
    batch = types.SimpleNamespace(completion_tokens=[1, 8, 32])
    hook("manager", batch)
    assert batch.completion_tokens == [1, 9, 36]
    hook("manager", types.SimpleNamespace())


def request(tokens=4, stream=True, ids=None):
    return types.SimpleNamespace(stream=stream, sampling_params={"max_new_tokens": tokens}, input_ids=ids)


async def four(*_):
    for number in range(4):
        yield number


@pytest.mark.parametrize(("fault", "error"), [("drop_every", RuntimeError), ("error_event_every", ValueError)])
def test_every_nth_stream_breaks_in_the_middle(plugin, fault, error):
    hook, _ = plugin(**{fault: 2})["generate_request"]

    async def collect(asked):
        got = []
        try:
            async for event in hook(four, "manager", asked):
                got.append(event)  # noqa: PERF401 - what came before the error is kept
        except (RuntimeError, ValueError) as problem:
            return got, type(problem)
        return got, None

    async def main():
        probe = await collect(request(tokens=1))
        return probe, [await collect(request()) for _ in range(3)]

    probe, streams = asyncio.run(main())
    assert probe == ([0, 1, 2, 3], None)
    assert streams == [([0, 1, 2, 3], None), ([0, 1], error), ([0, 1, 2, 3], None)]


def test_prompts_get_the_same_first_part(plugin):
    hook, _ = plugin(shared_prefix=0.5)["generate_request"]
    first, second, probe = request(ids=[1, 2, 3, 4]), request(ids=[5, 6, 7, 8]), request(tokens=1, ids=[0, 9])
    for one in (first, second, probe):
        hook("manager", one)
    assert (first.input_ids, second.input_ids, probe.input_ids) == ([7, 7, 3, 4], [7, 7, 7, 8], [0, 9])
