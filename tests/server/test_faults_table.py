from __future__ import annotations

from dataclasses import replace

import pytest

from tpgate.errors import ConfigError
from tpgate.measure.definitions import METRICS
from tpgate.server.faults.inject import Injection, fitted, injection_of, site_folder
from tpgate.server.faults.table import CASES, choose
from tpgate.server.standin.settings import parse
from tpgate.specs import ModelSpec, ServerSpec, pairs

STANDIN = ServerSpec(ModelSpec.dummy("m", {"vocab_size": 10}), tensor_parallel=4, device="cpu", engine="standin")
CPU = replace(STANDIN, engine="sglang", tensor_parallel=2)
GPU = replace(CPU, device="cuda")


def by(name):
    return next(case for case in CASES if case.fault == name)


def argv_of(options):
    words = []
    for name, value in options:
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_stand_in_takes_the_options_of_every_case(case):
    parse(["--tp", "4", *argv_of(case.standin)])
    assert injection_of(case, STANDIN) is not None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_red_case_says_what_must_catch_it(case):
    assert bool(case.caught_by) == (case.expected not in ("OK", "ERROR"))
    if case.expected in ("REGRESSED", "IMPROVED"):
        assert set(case.caught_by) <= set(METRICS)
    else:
        assert not set(case.caught_by) & set(METRICS)


def test_names_are_distinct_and_no_option_of_a_fault_is_left_out():
    assert len({case.name for case in CASES}) == len(CASES)
    used = {name for case in CASES for name, _ in case.standin}
    settings, _ = parse([])
    untested = {f"fault_{name}" for name in settings.faults.__slots__} - used
    assert untested == {"fault_cold_slower"}, "its size"


def test_choosing_by_fault_by_size_and_by_nothing():
    assert choose(()) == CASES
    assert {case.size for case in choose(("attention-slower",))} == {"80 %", "200 %"}
    assert [case.name for case in choose(("attention-slower:80%",))] == ["attention-slower:80%"]
    with pytest.raises(ConfigError, match="unknown fault 'atention'"):
        choose(("atention",))


def test_what_does_not_exist_on_a_server_is_left_out():
    assert injection_of(by("extra-all-reduce"), replace(CPU, tensor_parallel=1)) is None
    assert injection_of(by("cuda-graphs-off"), CPU) is None
    assert injection_of(by("cuda-graphs-off"), GPU) == Injection(options=pairs(disable_cuda_graph=True))
    assert injection_of(by("moe-slower"), GPU) is None, "no plugin for it"
    assert injection_of(by("nothing"), GPU) == Injection()


def test_the_plugin_is_put_on_the_path_beside_what_was_there(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    spec = replace(CPU, environment=(("SGLANG_PLUGINS", "other"),))
    found = dict(injection_of(by("stall"), spec).environment)
    assert found["PYTHONPATH"] == f"{site_folder()}:/mine"
    assert found["SGLANG_PLUGINS"] == "other,tpgate_faults"
    assert found["TPGATE_FAULTS"] == '{"stall_every": 8, "stall_ms": 400.0}'


def test_a_fault_is_larger_where_a_step_is_long():
    case = by("scheduler-sleeps")
    assert dict(injection_of(case, CPU).environment)["TPGATE_FAULTS"] == '{"scheduler_sleep_ms": 40.0}'
    assert dict(injection_of(case, GPU).environment)["TPGATE_FAULTS"] == '{"scheduler_sleep_ms": 10.0}'
    assert (fitted(case, CPU).size, fitted(case, GPU).size, fitted(case, STANDIN).size) == ("40 ms", "10 ms", "2 ms")
    assert all(bool(case.cpu) == bool(case.cpu_size) for case in CASES)
