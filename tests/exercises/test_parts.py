"""A dict is examined part by part: the first part that is wrong is named with its own mistake."""

import pytest

from tinyattn.exercises.base import Mistake, of_parts

WANTED = {"rows": 3, "columns": 4}
MISTAKES = {"rows": [Mistake("the rows are counted twice", 6)]}


def says(answer):
    return of_parts(answer, WANTED, MISTAKES).says


def test_all_parts_right_are_right_as_floats_too():
    assert of_parts({"columns": 4.0, "rows": 3}, WANTED, MISTAKES).state == "right"


def test_a_mistake_of_a_part_is_named_with_it():
    assert says({"rows": 6, "columns": 4}) == "rows: the rows are counted twice"
    assert says({"rows": 3, "columns": 6}) == "columns: 6 is too large"


def test_the_first_wrong_part_in_the_order_of_the_work_is_named():
    assert says({"columns": 1, "rows": 2}) == "rows: 2 is too small"


@pytest.mark.parametrize(
    "answer", [..., None, {"rows": ..., "columns": 4}, {"rows": None, "columns": 4}]
)
def test_a_part_that_is_missing_is_no_mistake(answer):
    assert of_parts(answer, WANTED, MISTAKES).state == "open"


def test_other_keys_and_other_things_than_dicts_are_refused():
    assert "keys 'rows', 'columns' is wanted" in says({"rows": 3})
    assert "keys 'rows', 'columns' is wanted" in says([3, 4])
