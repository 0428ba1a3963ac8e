from __future__ import annotations

from pathlib import Path

import pytest

from tpgate.measure.floor import all_reduce_floor, shape_of

LLAMA_8B = {"hidden_size": 4096, "num_hidden_layers": 32, "torch_dtype": "bfloat16", "vocab_size": 128256}
FLASH = {
    "hidden_size": 4096,
    "num_hidden_layers": 43,
    "torch_dtype": "bfloat16",
    "kv_lora_rank": 512,
    "n_routed_experts": 256,
}
QWEN = {"hidden_size": 2048, "num_hidden_layers": 48, "dtype": "bfloat16", "num_experts": 128}
V3 = {
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "torch_dtype": "bfloat16",
    "n_routed_experts": 256,
    "kv_lora_rank": 512,
}


@pytest.mark.parametrize(
    ("config", "collectives", "ring", "one_shot"),
    [
        # 4096 x 2 B = 8,192 B; 2 x 43 + 1 = 87; 2 x 3/4 = 1.5; 1.5 x 8,192 x 87 = 1,069,056; 3 x 8,192 x 87 = 2,138,112
        (FLASH, 87, 1_069_056, 2_138_112),
        # 7168 x 2 = 14,336; 123; 1.5 x 14,336 x 123 = 2,644,992
        (V3, 123, 2_644_992, 5_289_984),
        # 2048 x 2 = 4,096; 97; 1.5 x 4,096 x 97 = 595,968
        (QWEN, 97, 595_968, 1_191_936),
    ],
)
def test_hand_computed_floors_at_four_ranks(config, collectives, ring, one_shot):
    floor = all_reduce_floor(config, 4)
    assert floor.collectives == collectives
    assert floor.ring == ring
    assert floor.one_shot == one_shot
    assert floor.paths()["ring, LL"] == 2 * ring
    assert floor.paths()["ring, LL128"] == pytest.approx(ring * 16 / 15)
    assert floor.paths()["through host"] == ring
    assert floor.host_memory == 8 * ring


def test_the_worked_example_of_the_documentation():
    floor = all_reduce_floor(LLAMA_8B, 4, 64)
    text = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text()
    # 1.5 x 8,192 x 65 = 798,720; logits 3/4 x 128,256 x 2 = 192,384; together 991,104
    assert (floor.ring, floor.logits, floor.total) == (798_720, 192_384, 991_104)
    assert floor.message_bytes == 64 * 8_192 == 524_288
    for number in ("798,720", "192,384", "991,104", "524,288", "1,069,056", "2,138,112"):
        assert number in text


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_ranks_enter_as_the_bus_factor(ranks, factor):
    assert all_reduce_floor(LLAMA_8B, ranks).ring == factor * 8192 * 65


def test_the_bytes_per_token_depend_on_the_batch_by_its_padding_alone():
    assert all_reduce_floor(LLAMA_8B, 4, 1).total == all_reduce_floor(LLAMA_8B, 4, 64).total
    padded = all_reduce_floor(LLAMA_8B, 4, 40, captured=(1, 2, 4, 8, 16, 32, 64))
    assert padded.ring == pytest.approx(798_720 * 64 / 40)
    assert padded.message_bytes == 64 * 8192
    assert all_reduce_floor(LLAMA_8B, 4, 100, captured=(64,)).ring == 798_720


def test_the_nearest_path_is_named():
    floor = all_reduce_floor(LLAMA_8B, 8)
    assert floor.nearest(floor.total * 1.02) == "ring or through host"
    assert floor.nearest(floor.total * 2.1) == "ring, LL or through host, LL"
    assert floor.nearest(floor.one_shot + floor.logits) == "one-shot"


@pytest.mark.parametrize(
    ("config", "kind"), [(LLAMA_8B, "dense"), (QWEN, "MoE"), (V3, "MoE, MLA"), (V3 | {"n_routed_experts": None}, "MLA")]
)
def test_kinds_of_models(config, kind):
    assert shape_of(config).kind == kind


def test_nested_and_older_configs_are_read():
    assert shape_of({"text_config": LLAMA_8B, "vocab_size": 5}).hidden == 4096
    old = shape_of({"n_embd": 768, "n_layer": 12, "torch_dtype": "float32"})
    assert (old.hidden, old.layers, old.activation_bytes, old.vocabulary) == (768, 12, 4, None)


@pytest.mark.parametrize(
    ("config", "ranks", "reason"),
    [
        (LLAMA_8B, 1, "one rank has no all-reduce"),
        ({"num_hidden_layers": 2}, 4, "config.json gives no hidden_size"),
        ({"hidden_size": 2}, 4, "config.json gives no num_hidden_layers"),
        (LLAMA_8B | {"torch_dtype": "int3"}, 4, "torch_dtype 'int3'"),
        (LLAMA_8B | {"hidden_size": True}, 4, "no hidden_size"),
    ],
)
def test_what_cannot_be_told_is_a_reason_and_never_zero(config, ranks, reason):
    assert reason in all_reduce_floor(config, ranks)
