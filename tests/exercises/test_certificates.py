"""Answers that are certificates: called on copies, refused in a sentence, never crashed upon."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from tinyattn.exercises.certificates import made, returned, whole_list


def not_yet(x):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [None, ..., lambda x: None, lambda x: ..., not_yet])
def test_what_returns_nothing_was_not_attempted(answer):
    assert returned(answer, 1).state == "open"


def test_what_is_no_function_is_wrong():
    assert returned(3, 1).says == "a function is wanted"


def test_an_error_is_named_with_its_message():
    assert returned(lambda x: 1 / x, 0).says == (
        "your function raised ZeroDivisionError: division by zero"
    )


def test_an_answer_gets_copies_of_what_is_examined_later():
    given = [1, 2]
    assert returned(lambda numbers: numbers.pop(), given) == 2
    assert given == [1, 2]


def test_a_value_may_be_given_itself_or_by_a_function():
    assert made([3]) == made(lambda: [3]) == [3]
    assert made(...).state == made(None).state == made(lambda: None).state == "open"
    assert made(lambda: 1 / 0).state == "wrong"


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1.0, 2.0),
        torch.tensor([1, 2]),
        range(1, 3),
        np.array([1, 2]),
        [Fraction(1), np.float64(2)],
        iter([1, 2]),
    ],
)
def test_whole_numbers_may_come_in_any_form(value):
    assert whole_list(value) == [1, 2]


@pytest.mark.parametrize(
    "value",
    [
        [0.5],
        [math.nan],
        [math.inf],
        "two",
        2,
        None,
        [[1]],
        [None],
        "12",
        ["1"],
        [True],
        {1: 2},
        [1j],
        torch.ones(2, 2),
    ],
)
def test_what_is_no_list_of_whole_numbers_is_none(value):
    assert whole_list(value) is None
