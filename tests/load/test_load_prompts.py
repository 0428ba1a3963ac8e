"""Prompts: deterministic, distinct from their first token on, and inside the vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpgate.errors import LoadError
from tpgate.load.engines import ENGINES
from tpgate.load.prompts import prompt_ids, unique_share
from tpgate.specs import LoadSpec

CELL = LoadSpec(4, 8, 4, input_tokens=64, output_tokens=16)


def test_the_same_arguments_give_the_same_prompt_on_any_machine():
    ids = prompt_ids(CELL, 3, vocabulary=32000, salt="a")
    assert ids == prompt_ids(CELL, 3, vocabulary=32000, salt="a")
    assert ids[:4] == [8089, 9375, 26739, 12947]


@pytest.mark.parametrize(
    "other",
    [
        LoadSpec(4, 8, 4, input_tokens=64, output_tokens=16, seed=2),
        LoadSpec(4, 8, 4, input_tokens=64, output_tokens=16, label="again"),
        LoadSpec(8, 8, 8, input_tokens=64, output_tokens=16),
    ],
)
def test_seed_cell_and_salt_each_change_every_prompt(other):
    mine = [prompt_ids(CELL, index, vocabulary=32000, salt="a") for index in range(8)]
    theirs = [prompt_ids(other, index, vocabulary=32000, salt="a") for index in range(8)]
    salted = [prompt_ids(CELL, index, vocabulary=32000, salt="b") for index in range(8)]
    assert unique_share([*mine, *theirs, *salted]) > 0.99


@given(st.integers(2, 50), st.integers(2, 300))
def test_no_two_prompts_share_more_than_a_token(vocabulary, count):
    prompts = [prompt_ids(CELL, index, vocabulary=vocabulary, salt="") for index in range(count)]
    span = vocabulary - 2 * (vocabulary // 20)
    heads = [tuple(prompt[:2]) for prompt in prompts]
    assert len(set(heads)) == min(count, span * span)
    assert len({prompt[0] for prompt in prompts}) == min(count, span)
    assert all(vocabulary // 20 <= token < vocabulary - vocabulary // 20 for prompt in prompts for token in prompt)


def test_unique_share_counts_the_longest_shared_prefix():
    assert unique_share([[1, 2, 3, 4], [1, 2, 9, 9], [7, 7, 7, 7]]) == 1 - 4 / 12
    assert unique_share([[1, 2], [1, 2]]) == 0.0
    assert unique_share([[5, 6]]) == 1.0
    assert unique_share([]) == 0.0


def test_a_vocabulary_of_one_is_refused():
    with pytest.raises(LoadError, match="vocabulary of 1"):
        prompt_ids(CELL, 0, vocabulary=1, salt="")


def test_chat_prompts_are_distinct_words():
    import orjson

    load = LoadSpec(4, 8, 4, input_tokens=64, output_tokens=16, api="chat")
    texts = []
    for index in range(300):
        ids = prompt_ids(load, index, vocabulary=32000, salt="")
        body = orjson.loads(ENGINES["chat"].body(load, ids, "m"))
        texts.append(body["messages"][0]["content"].split())
    assert {len(words) for words in texts} == {64}
    assert len({tuple(words[:3]) for words in texts}) == 300
