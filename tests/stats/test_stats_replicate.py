"""Adaptive launches, families and Holm's correction."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpgate.stats.family import agrees, holm
from tpgate.stats.replicate import MOST, Step, next_step, quorum

LINES = {"bar": 0.05, "suspicion": 0.04}
GOOD, BAD = 0.0, 0.10


@pytest.mark.parametrize(
    ("effects", "step"),
    [
        ([], Step.MORE),
        ([GOOD], Step.PASS),
        ([0.045], Step.MORE),
        ([BAD], Step.MORE),
        ([BAD, BAD], Step.MORE),
        ([BAD, GOOD], Step.MORE),
        ([BAD, GOOD, GOOD], Step.PASS),
        ([BAD, BAD, BAD], Step.FAIL),
        ([BAD, BAD, GOOD], Step.MORE),
        ([BAD, BAD, GOOD, BAD], Step.FAIL),
        ([BAD, GOOD, BAD, GOOD], Step.PASS),
    ],
)
def test_launches_stop_as_soon_as_it_is_decided(effects, step):
    assert next_step(effects, **LINES).step is step


def test_at_a_cap_that_leaves_it_open_it_is_undecided():
    assert next_step([BAD, GOOD], **LINES, budget_left=False).step is Step.UNDECIDED
    assert next_step([BAD], **LINES, budget_left=False).step is Step.UNDECIDED
    assert next_step([GOOD], **LINES, budget_left=False).step is Step.PASS


def test_a_cap_of_one_or_two_launches_needs_them_all():
    assert next_step([BAD], **LINES, most=1).step is Step.FAIL
    assert next_step([BAD], **LINES, most=2).step is Step.MORE
    assert next_step([BAD, BAD], **LINES, most=2).step is Step.FAIL
    assert next_step([BAD, GOOD], **LINES, most=2).step is Step.PASS


@pytest.mark.parametrize("outcomes", list(itertools.product([GOOD, BAD], repeat=MOST)))
def test_whatever_comes_it_is_decided_by_the_fourth_launch(outcomes):
    effects: list[float] = []
    for effect in outcomes:
        effects.append(effect)
        decision = next_step(effects, **LINES)
        if decision.decided:
            break
    assert decision.decided
    if decision.step is Step.FAIL:
        assert effects.count(BAD) == 3
    assert decision.reason


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(-0.2, 0.3), min_size=1, max_size=8))
def test_a_decision_is_never_taken_back_by_further_launches_it_did_not_need(effects):
    first = next(
        (
            next_step(effects[:n], **LINES)
            for n in range(1, len(effects) + 1)
            if next_step(effects[:n], **LINES).decided
        ),
        None,
    )
    if first is not None and first.step is Step.FAIL:
        assert sum(effect > LINES["bar"] for effect in effects) >= 3


def test_confirmation_costs_little_and_kills_false_alarms():
    source = random.Random(7)
    spent, red = 0, 0
    draws = 4000
    for _ in range(draws):
        effects: list[float] = []
        while True:
            tail = source.random() < 0.05
            effects.append(source.gauss(0, 0.12 if tail else 0.01))
            decision = next_step(effects, **LINES)
            if decision.step is not Step.MORE:
                break
        spent += len(effects)
        red += decision.step is Step.FAIL
    assert spent / draws < 1.2
    assert red / draws < 0.005


def test_quorum_is_three_of_up_to_four_and_three_quarters_of_more():
    assert [quorum(count) for count in (1, 3, 4, 5, 8, 12)] == [3, 3, 3, 4, 6, 9]


def test_a_family_needs_a_second_cell_where_there_is_one():
    assert agrees({"c1": True}, "c1")
    assert not agrees({"c1": True, "c4": False}, "c1")
    assert agrees({"c1": True, "c4": True, "c8": False}, "c1")


def test_holm_rejects_step_by_step():
    assert holm([0.01, 0.04, 0.03, 0.005], 0.05) == [True, False, False, True]
    assert holm([], 0.05) == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_bonferroni_and_no_correction(p_values):
    rejected = holm(p_values, 0.05)
    for p, one in zip(p_values, rejected, strict=True):
        assert one or p > 0.05 / len(p_values)
        assert not one or p <= 0.05
