from __future__ import annotations

import pytest

from tpgate.server.standin.script import script_of
from tpgate.server.standin.settings import Faults, Settings, parse


def test_defaults_are_harmless():
    settings, shown = parse([])
    assert settings == Settings()
    assert settings.faults == Faults()
    assert shown == {}


def test_every_field_has_an_option():
    settings, _ = parse(
        ["--step-ms", "2", "--fault-attention-slower", "0.2", "--tp-size", "4", "--disable-radix-cache"]
    )
    assert (settings.step_ms, settings.tp, settings.disable_radix_cache) == (2.0, 4, 1)
    assert settings.faults.attention_slower == 0.2


def test_sglang_arguments_are_taken_and_shown():
    _, shown = parse(["--device", "cpu", "--skip-tokenizer-init", "--mem-fraction-static", "0.3"])
    assert shown == {"device": "cpu", "skip_tokenizer_init": "true", "mem_fraction_static": "0.3"}


@pytest.mark.parametrize(
    "argv",
    [
        ["--fault-atention-slower", "0.2"],
        ["--fault-attention", "0.2"],
        ["--step-ms", "-1"],
        ["--tp", "0"],
        ["--tp", "2", "--fault-fewer-ranks", "2"],
    ],
)
def test_wrong_options_stop_it(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(argv)
    assert stop.value.code == 2
    assert argv[0].lstrip("-")[:8] in capsys.readouterr().err


def test_cuda_graphs_off_is_sglangs_own_flag():
    settings, _ = parse(["--disable-cuda-graph"])
    assert settings.faults.graphs_off == 1


def test_every_nth_request_is_struck():
    faults = Faults(drop_every=3)
    assert [script_of(faults, n, 10).drop_at for n in range(1, 7)] == [0, 0, 5, 0, 0, 5]


def test_early_ends_say_so():
    assert script_of(Faults(early_stop_every=1), 1, 10).finish == {"type": "length", "length": 5}
    assert script_of(Faults(early_eos_every=1), 1, 10).finish["type"] == "stop"
    assert script_of(Faults(early_eos_every=1), 1, 10).limit == 5
    assert script_of(Faults(), 1, 10).finish == {"type": "length", "length": 10}


def test_death_comes_at_the_nth_request_and_later():
    faults = Faults(die_after_requests=2)
    assert [script_of(faults, n, 8).die_at for n in (1, 2, 3)] == [0, 4, 4]
