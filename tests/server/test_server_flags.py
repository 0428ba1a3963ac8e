"""Flags per SGLang version, written out; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpgate.errors import ConfigError
from tpgate.server import flags, ready
from tpgate.specs import ModelSpec, ServerSpec, pairs

DUMMY = ModelSpec.dummy("tiny", {"vocab_size": 8})


def render(version, *, model=DUMMY, tensor_parallel=4, extra=(), **options):
    spec = ServerSpec(model, tensor_parallel, options=pairs(**options))
    argv = flags.render(spec, version, model_path=Path("/m"), host="127.0.0.1", port=30000, extra=extra)
    return " ".join(argv)


def test_a_command_line_in_full():
    assert render("0.5.23", cuda_graph_max_bs=64, disable_radix_cache=True, enable_p2p_check=False) == (
        "--model-path /m --host 127.0.0.1 --port 30000 --tp-size 4 --device cuda --skip-server-warmup "
        "--load-format dummy --skip-tokenizer-init --cuda-graph-max-bs-decode 64 --disable-radix-cache "
        "--incremental-streaming-output --enable-metrics"
    )


@pytest.mark.parametrize(
    ("version", "max_bs", "stream"),
    [
        ("0.5.9", "--cuda-graph-max-bs 64", "--stream-output"),
        ("0.5.10.post1", "--cuda-graph-max-bs 64", "--incremental-streaming-output"),
        ("0.5.13", "--cuda-graph-max-bs 64", "--incremental-streaming-output"),
        ("0.5.14", "--cuda-graph-max-bs-decode 64", "--incremental-streaming-output"),
        ("0.5.20", "--cuda-graph-max-bs-decode 64", "--incremental-streaming-output"),
        ("0.5.24", "--cuda-graph-max-bs-decode 64", "--incremental-streaming-output"),
    ],
)
@pytest.mark.parametrize("name", ["cuda_graph_max_bs", "cuda_graph_max_bs_decode"])
def test_renamed_arguments_follow_the_version_whichever_name_is_given(version, max_bs, stream, name):
    argv = render(version, **{name: 64}) + " "
    assert f" {max_bs} " in argv
    assert f" {stream} " in argv


def test_a_list_of_batch_sizes_becomes_several_words():
    assert " --cuda-graph-bs-decode 1 2 4 --" in render("0.5.20", cuda_graph_bs="1,2,4")


def test_real_weights_come_with_their_tokenizer():
    argv = render("0.5.23", model=ModelSpec("real", path_variable="TPGATE_TEST_MODEL"))
    assert "dummy" not in argv
    assert "--skip-tokenizer-init" not in argv


def test_extra_options_go_on_top():
    assert " --stream-interval 4 " in render("0.5.23", stream_interval=1, extra=pairs(stream_interval=4))


def test_a_newer_version_is_a_warning_and_an_older_one_an_error():
    assert flags.supported("0.5.9") is None
    assert flags.supported("0.5.23.post1") is None
    assert "newer than 0.5.23" in flags.supported("0.6.0")
    with pytest.raises(ConfigError, match=r"(?s)0\.5\.8 is older.*0\.5\.9 to 0\.5\.23"):
        render("0.5.8")
    with pytest.raises(ConfigError, match="version is 'unknown'"):
        flags.supported("unknown")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tp_size": 2}, "ServerSpec.tensor_parallel"),
        ({"port": 1}, "process.start"),
        ({"model_path": "/x"}, "ServerSpec.model"),
        ({"cuda_graph_max_bs": 64, "cuda_graph_max_bs_decode": 32}, "given twice"),
    ],
)
def test_options_that_contradict_the_specification_are_refused(options, text):
    with pytest.raises(ConfigError, match=text):
        render("0.5.23", **options)


def test_an_argument_that_a_release_lacks_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"(?s)disable_decode_cuda_graph.*0\.5\.14 or newer"):
        render("0.5.10", disable_decode_cuda_graph=True)


def test_the_stand_in_takes_every_option_with_a_value():
    spec = ServerSpec(DUMMY, 2, engine="standin", options=pairs(step_ms=2.5, disable_cuda_graph=True))
    argv = flags.render_standin(spec, host="127.0.0.1", port=1, extra=pairs(fault_stall_every=8))
    assert " ".join(argv) == (
        "--host 127.0.0.1 --port 1 --tp 2 --disable-cuda-graph 1 --step-ms 2.5 --fault-stall-every 8"
    )


def test_what_the_server_made_of_its_arguments_is_compared():
    spec = ServerSpec(DUMMY, 2, options=pairs(cuda_graph_bs="1,2", mem_fraction_static=0.6, attention_backend="fa3"))
    info = {"version": "0.5.20", "tp_size": 2, "device": "cuda", "cuda_graph_bs_decode": [1, 2]}
    info |= {"mem_fraction_static": 0.6, "attention_backend": "triton", "load_format": "dummy"}
    found = ready.differences(spec, info)
    assert found == {"attention_backend": ("fa3", "triton")}
    assert ready.shown(found) == 'attention_backend is "triton", asked for "fa3"'
    wrong = ready.essential(spec, info | {"tp_size": 1}, version="0.5.23", model_path=None, port=None)
    assert wrong == {"tp_size": (2, 1), "version": ("0.5.23", "0.5.20")}
