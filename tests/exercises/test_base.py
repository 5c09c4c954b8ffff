"""What a check says of any answer: compared, described, never told the solution."""

import math
import re
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from tinyattn.exercises.base import Exercise, Mistake, Verdict, of_function, of_value

NAN, INF = math.nan, math.inf


def exercise(**values):
    standard = {
        "name": "chapter/name",
        "title": "A title",
        "kind": "implement",
        "difficulty": 2,
        "minutes": 1,
        "points": 2,
        "goal": "Do it",
        "examine": lambda answer, generator: Verdict("right"),
    }
    return Exercise(**{**standard, **values})


def says(answer, wanted, **more):
    return of_value(answer, wanted, **more).says


# --------------------------------------------------------------------------- what an exercise is


def test_the_line_below_a_heading_says_kind_difficulty_minutes_and_points():
    assert exercise(minutes=12, points=3).line == (
        "*Implement · difficulty 2 of 3 · about 12 minutes · 3 points*"
    )


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_an_exercise_has_one_of_three_difficulties(difficulty):
    assert exercise(difficulty=difficulty).difficulty == difficulty


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kind": "guess"}, "kind must be one of predict, .*, got 'guess'"),
        ({"difficulty": 0}, "difficulty must be 1, 2 or 3, got 0"),
        ({"difficulty": 4}, "difficulty must be 1, 2 or 3, got 4"),
        ({"minutes": 0}, "chapter/name needs a minute or more .* got 0 and 2"),
        ({"points": 1}, "two points or more .* got 1 and 1"),
    ],
)
def test_an_exercise_that_cannot_be_marked_is_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        exercise(**values)


def test_an_exercise_prints_without_its_check():
    assert repr(exercise()).startswith("Exercise(name='chapter/name', title='A title'")
    assert "lambda" not in repr(exercise())


def test_exercises_mistakes_and_verdicts_do_not_change():
    for one, name in (
        (exercise(), "points"),
        (Mistake("odd", 3), "says"),
        (Verdict("right"), "state"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, "another")


# ------------------------------------------------------------------------------------- of values


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (3.0, 3),
        (torch.tensor([3]), 3),
        ([1, 2], (1, 2)),
        ({"b": 2.0, "a": "x"}, {"a": "x", "b": 2}),
        (["x", 2.0], ("x", 2)),
        (True, True),
        ([NAN, INF, -INF], [NAN, INF, -INF]),
        (1 + 1e-7, 1.0),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (Fraction(440), 440),
        (Decimal("0.5"), 0.5),
        ([Fraction(1, 2), Decimal(1)], [0.5, 1]),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.array(3), 3),
        (np.arange(3.0)[::-1], [2, 1, 0]),
        (np.array([Fraction(1, 2), 1], dtype=object), [0.5, 1]),
        ([np.ones(2), np.ones(2)], torch.ones(2, 2)),
        ((torch.ones(2), [1.0, 1.0]), torch.ones(2, 2)),
        (np.True_, True),
        ([np.True_, np.False_], [True, False]),
        ([np.True_, np.int64(3)], [True, 3]),
        ([[True, False]], torch.tensor([[True, False]])),
        (np.str_("x"), "x"),
        (torch.eye(2).to_sparse(), torch.eye(2)),
    ],
)
def test_the_same_in_other_clothes_is_right(answer, wanted):
    assert of_value(answer, wanted).state == "right"


@pytest.mark.parametrize(
    ("answer", "wanted", "sentence"),
    [
        (2, 3, "2 is too small"),
        (4.5, 3, "4.5 is too large"),
        (1 + 1e-4, 1.0, "1.0001 is too large"),
        ("many", 3, "a number is wanted, got 'many' (str)"),
        ([1], 3, "a number is wanted, got [1] (list)"),
        ("440", 440, "a number is wanted, got '440' (str)"),
        (NAN, 3, "a number is wanted, got nan (float)"),
        (INF, 3, "inf is too large"),
        (440 + 3j, 440, "a number is wanted, got (440+3j) (complex)"),
        (np.complex64(3), 3, "a number is wanted, got np.complex64(3+0j) (complex64)"),
        (True, 1, "a number is wanted, got True (bool)"),
        (np.True_, 1, "a number is wanted, got np.True_ (bool)"),
        (torch.tensor(True), 1, "a number is wanted, got a tensor of shape ()"),
        (torch.ones(2), 1, "a number is wanted, got a tensor of shape (2,)"),
        ([True, 2], [1, 2], "not right yet: entry 1"),
        (Fraction(7, 2), 3, "7/2 is too large"),
        (10**30, 3, f"{10**30} is too large"),
        (-(10**400), 3, f"-1{'0' * 198}… is too small"),
        ("yes", "no", "'yes' is not it"),
        (1, True, "1 is not it"),
        (1, "1", "1 is not it"),
        (3, (1, 2), "a list of 2 entries is wanted, got 3 (int)"),
        ((1, 2, 3), (1, 2), "2 entries are wanted, got 3"),
        ((1, 5, 7), (1, 2, 3), "not right yet: entry 2, 3"),
        (("x", 2), ("y", 2), "not right yet: entry 1"),
        ({"a": 1}, {"b": 1}, "a dict with the keys 'b' is wanted, got {'a': 1} (dict)"),
        (7, {"a": 1, "b": 1}, "a dict with the keys 'a', 'b' is wanted, got 7 (int)"),
        ({"a": 1, "b": 5}, {"a": 1, "b": 2}, "not right yet: 'b'"),
    ],
)
def test_a_wrong_value_is_described_and_the_right_one_not_told(answer, wanted, sentence):
    verdict = of_value(answer, wanted)
    assert (verdict.state, verdict.says) == ("wrong", sentence)


def test_a_mistake_that_is_known_is_named_and_others_are_described():
    mistakes = [Mistake("rows and columns are swapped", [2, 1]), Mistake("off by one", [2, 3])]
    assert says([2, 3], [1, 2], mistakes=mistakes) == "off by one"
    assert says([2, 1], [1, 2], mistakes=mistakes) == "rows and columns are swapped"
    assert says([2, 2], [1, 2], mistakes=mistakes) == "not right yet: entry 1"


def test_a_value_may_be_as_far_off_as_the_exercise_allows():
    assert of_value(1.03, 1.0, tolerance=0.02).state == "right"  # of both: absolute and relative
    assert of_value(1.05, 1.0, tolerance=0.02).state == "wrong"


def test_a_part_that_is_near_enough_is_not_among_those_that_are_not_right_yet():
    assert says([1.01, 7], [1, 2], tolerance=0.02) == "not right yet: entry 2"
    assert says({"a": 1.01, "b": 7}, {"a": 1, "b": 2}, tolerance=0.02) == "not right yet: 'b'"


@pytest.mark.parametrize(
    "answer",
    [None, ..., [1, ...], (..., 2), {"a": ...}, [1, [2, ...]], {"a": [{"b": ...}]}, [1, None]],
)
def test_a_value_with_a_gap_was_not_attempted(answer):
    assert of_value(answer, [1, 2]).state == "open"


# ---------------------------------------------------------------------------------- of functions


def doubled(x):
    return 2 * x


@pytest.mark.parametrize("answer", [None, ..., lambda x: ..., lambda x: None])
def test_a_function_that_does_nothing_was_not_attempted(answer):
    assert of_function(answer, doubled, [(1,), (2,)]).state == "open"


def test_a_stub_was_not_attempted_and_its_reader_sees_the_mask_that_is_wanted():
    def stub(n):
        raise NotImplementedError

    verdict = of_function(stub, lambda n: torch.ones(n, n, dtype=torch.bool), [(3,), (4,)])
    assert verdict.state == "open"
    assert verdict.wanted.shape == (3, 3)
    assert of_function(stub, doubled, [(3,)]).wanted is None


def test_what_is_no_function_is_told_so():
    assert of_function(3, doubled, [(1,)]).says == "a function is wanted, this is 3 (int)"
    answer = of_function(torch.ones(2, 3), doubled, [(1,)])
    assert answer.says == "a function is wanted, this is a tensor of shape (2, 3)"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda x: 2 * x if x < 2 else 5, "for 2: yours is 5, wanted is 4"),
        (lambda x: 2 * x if x < 2 else None, "for 2: your function returned nothing; .*`return`"),
        (lambda x: 1 // (x - 2) * -2, "for 2: your function raised ZeroDivisionError: .* by zero"),
        (lambda x: "much", r"for 1: numbers are wanted, got 'much' \(str\)"),
        (lambda x: torch.ones(2), "for 1: the shape is \\(2,\\), it should be that of a single number"),
    ],
)  # fmt: skip
def test_the_first_case_that_goes_wrong_is_described(answer, sentence):
    verdict = of_function(answer, doubled, [(1,), (2,), (3,)])
    assert verdict.state == "wrong"
    assert re.fullmatch(sentence, verdict.says)


def test_a_tensor_is_compared_entry_by_entry_shape_first():
    zeros = [(torch.zeros(2, 2),)]

    def told(answer):
        return of_function(answer, lambda x: x, zeros).says

    assert told(lambda x: torch.tensor([[0.0, 0.0], [3.0, 1.0]])) == (
        "for a tensor of (2, 2): at [1, 0] yours is 3, wanted is 0 (2 of 4 entries differ)"
    )
    assert told(lambda x: x[0]).endswith("the shape is (2,), it should be (2, 2)")
    assert told(lambda x: x > 0).endswith("the dtype is torch.bool, it should be torch.float32")
    assert told(lambda x: x.log()).endswith("yours is -inf, wanted is 0 (4 of 4 entries differ)")


@pytest.mark.parametrize(
    "odd", [1j, torch.ones(2) * 1j, True, [True, 1.0], "1", [[1], [2, 3]], {1}]
)
def test_what_holds_no_real_numbers_is_named(odd):
    ones = torch.ones(2)
    assert "numbers are wanted, got" in of_function(lambda x: odd, lambda x: ones, [(1,)]).says


def test_an_array_beside_a_gap_is_compared_with_nothing():
    assert of_value((np.ones(2), ...), [1, 2]).state == "open"
    assert of_value({"a": np.ones(2)}, {"a": [1, 1]}).state == "right"


def test_several_results_are_wanted_as_several():
    def both(x):
        return torch.ones(1), x

    case = [(2,)]
    assert of_function(lambda x: [torch.ones(1), x], both, case).state == "right"
    assert of_function(lambda x: (torch.ones(1), 3), both, case).says.endswith(
        "yours is 3, wanted is 2"
    )
    assert "2 results are wanted, got 2 (int)" in of_function(lambda x: x, both, case).says
    assert "2 results are wanted" in of_function(lambda x: (1, 2, 3), both, case).says


def test_a_function_that_changes_its_second_input_is_told_which():
    def careless(x, y):
        total = x + y
        y += 1
        return total

    cases = [(torch.zeros(2), torch.zeros(2))]
    verdict = of_function(careless, lambda x, y: x + y, cases)
    assert verdict.says.endswith("your function changed its input number 2; work on a copy")


def test_a_case_is_described_by_its_arguments():
    def fails(*arguments):
        raise KeyError("it")

    case = (torch.ones(2, 2, dtype=torch.bool), torch.ones(3), doubled, "word", 0.5)
    assert of_function(fails, lambda *_: 0, [case]).says == (
        "for a mask of (2, 2), a tensor of (3,), doubled, word, 0.5: "
        "your function raised KeyError: 'it'"
    )
    assert of_function(fails, lambda: 0, [()]).says.startswith("for no arguments: ")


def test_a_mistake_that_fails_where_the_answer_fails_explains_it():
    def halves(x):
        return 6 / x

    mistake = Mistake("it divides by nothing", lambda x: 6 / (x - 1))
    cases = [(1,), (4,)]
    assert of_function(mistake.answer, halves, cases, [mistake]).says == "it divides by nothing"
    assert (
        of_function(lambda x: 6 / (x - 4), halves, cases, [mistake]).says
        == "for 1: yours is -2, wanted is 6"
    )


def test_an_answer_that_always_fails_is_told_its_own_error_and_no_mistake():
    def fails(x):
        raise KeyError("of mine")

    mistake = Mistake("it divides by nothing", lambda x: x / 0)
    said = of_function(fails, lambda x: x, [(1,), (4,)], [mistake]).says
    assert said == "for 1: your function raised KeyError: 'of mine'"


@pytest.mark.parametrize(("n", "drawn"), [(1, True), (32, True), (33, False)])
def test_masks_are_drawn_side_by_side_up_to_a_size_that_fits(n, drawn):
    def wanted(n):
        return torch.ones(n, n, dtype=torch.bool)

    verdict = of_function(lambda n: ~wanted(n), wanted, [(n,)])
    assert (verdict.wanted is not None, verdict.got is not None) == (drawn, drawn)
    if drawn:
        assert torch.equal(verdict.got, ~verdict.wanted)
    assert of_function(lambda n: wanted(n + 1), wanted, [(n,)]).wanted is None
    assert of_function(lambda n: wanted(n).float(), wanted, [(n,)]).wanted is None


def test_a_row_of_bools_is_no_picture():
    verdict = of_function(lambda n: torch.zeros(n) > 0, lambda n: torch.ones(n) > 0, [(4,)])
    assert (verdict.state, verdict.wanted, verdict.got) == ("wrong", None, None)


def test_yes_may_be_said_by_numpy_or_a_tensor_and_not_by_a_number():
    def passes(answer):
        return of_function(lambda: answer, lambda: True, [()]).state == "right"

    assert passes(np.True_)
    assert passes(torch.tensor(True))
    for wrong in (False, np.False_, torch.tensor(False), 1, "True"):
        assert not passes(wrong)
    for wrong in (False, 1, "True"):
        said = of_function(lambda wrong=wrong: wrong, lambda: True, [()]).says
        assert said == f"for no arguments: got {wrong!r}"
