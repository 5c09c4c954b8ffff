"""Answers that are certificates: called on copies, refused in a sentence, never crashed upon."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from tinyattn.exercises.certificates import made, returned, vector, whole_list


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


@pytest.mark.parametrize(
    "value", [[1, 2, 3], (1.0, 2.0, 3.0), np.arange(3), torch.ones(3).double()]
)
def test_a_vector_may_come_in_any_form(value):
    found = vector(value, 3)
    assert (found.dtype, found.shape) == (torch.float32, (3,))
    assert found.tolist() == [float(x) for x in value]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("abc", "one vector of 3 numbers is wanted, got"),
        (None, "one vector of 3 numbers is wanted, got"),
        ([1, 2], r"one vector of 3 numbers is wanted, got \(2,\)"),
        ([1, 2, 3, 4], r"one vector of 3 numbers is wanted, got \(4,\)"),
        (torch.ones(1, 3), r"one vector of 3 numbers is wanted, got \(1, 3\)"),
        ([1, math.nan, 3], r"the vector must be finite, got \[1.0, nan, 3.0\]"),
    ],
)
def test_what_is_no_vector_is_said(value, says):
    assert re.match(says, vector(value, 3).says)
