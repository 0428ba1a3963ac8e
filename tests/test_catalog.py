import pytest

from tpgate import catalog
from tpgate.errors import ConfigError
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, pairs

TOML = """
[[scenario]]
name = "my-model-tp4"
gates = [{ metric = "output_tokens_per_second", tolerance = 0.05 }]
cells = [
  { concurrency = 1, requests = 10, warmup_requests = 1 },
  { concurrency = 64, requests = 256, warmup_requests = 64, label = "long" },
]
[scenario.server]
tensor_parallel = 4
options = { cuda_graph_max_bs = 64 }
model = { name = "my-model", path_variable = "MY_MODEL" }
"""


def test_toml_and_python_describe_the_same_scenario(tmp_path):
    file = tmp_path / "scenarios.toml"
    file.write_text(TOML)
    found = catalog.load(file)["my-model-tp4"]
    same = Scenario(
        name="my-model-tp4",
        server=ServerSpec(
            ModelSpec("my-model", path_variable="MY_MODEL"), tensor_parallel=4, options=pairs(cuda_graph_max_bs=64)
        ),
        cells=(
            LoadSpec(concurrency=1, requests=10, warmup_requests=1),
            LoadSpec(concurrency=64, requests=256, warmup_requests=64, label="long"),
        ),
        gates=(Gate("output_tokens_per_second", tolerance=0.05),),
    )
    assert found == same
    assert found.digest() == same.digest()
    assert [load.cell for load in found.cells] == ["c1", "c64-long"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tolerance = 0.05", "tolerance = 5", "a fraction between 0 and 1"),
        ("tolerance = 0.05", "tolerance_pct = 5", "unknown field tolerance_pct"),
        ("warmup_requests = 64", "warmup_requests = 8", "at least one full wave, 64"),
        ("requests = 10", 'requests = "ten"', "Expected `int`, got `str`"),
        ('label = "long"', 'label = ""', None),
        ("my-model-tp4", "My Model", "lower-case letters"),
        ("concurrency = 64", "concurrency = 0", "1 or more"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(tmp_path, old, new, words):
    file = tmp_path / "scenarios.toml"
    file.write_text(TOML.replace(old, new, 1))
    if words is None:
        assert catalog.load(file)
        return
    with pytest.raises(ConfigError) as caught:
        catalog.load(file)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "[[scenario", "a.toml"),
        ("a.toml", "", "no scenario"),
        ("a.toml", TOML + TOML, "stand twice"),
        ("a.py", "SCENARIOS = 3", "SCENARIOS is int"),
        ("a.py", "raise ValueError('mine')", "ValueError: mine"),
        ("a.py", "x = 1", "SCENARIOS is NoneType"),
        ("a.json", "{}", "ends in .py or .toml"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, name, text, words):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        catalog.load(file)
    assert words in str(caught.value)


def test_a_mistyped_path_or_name_is_an_error_that_lists_what_there_is(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        catalog.load(tmp_path / "scenarois.py")
    file = tmp_path / "scenarios.toml"
    file.write_text(TOML)
    with pytest.raises(ConfigError, match="one of my-model-tp4"):
        catalog.find(catalog.load(file), "my-model-tp8", file)


def test_digest_moves_with_what_moves_numbers_and_with_nothing_else():
    base = Scenario(
        name="a",
        server=ServerSpec(ModelSpec.dummy("m", {"vocab_size": 8}), options=pairs(x=1)),
        cells=(LoadSpec(concurrency=1, requests=10, warmup_requests=1),),
        gates=(Gate("ttft_p50", tolerance=0.1),),
    )
    from dataclasses import replace

    moved = [
        replace(base, server=replace(base.server, options=pairs(x=2))),
        replace(base, server=replace(base.server, tensor_parallel=2)),
        replace(base, cells=(LoadSpec(concurrency=1, requests=11, warmup_requests=1),)),
        replace(base, settings=pairs(y=1)),
    ]
    same = [
        replace(base, gates=(Gate("ttft_p50", tolerance=0.2),)),
        replace(base, server=replace(base.server, startup_timeout_s=5)),
    ]
    assert all(one.digest() != base.digest() for one in moved)
    assert all(one.digest() == base.digest() for one in same)
