"""What is wanted is drawn beside what came, and the difference is said in words."""

import matplotlib
import pytest

from tinyattn.exercises import pictures
from tinyattn.exercises.base import Verdict, of_function
from tinyattn.patterns import Causal, Window

matplotlib.use("agg")


@pytest.fixture
def shown(monkeypatch):
    """The figures that are shown, as (figure, alt text)."""
    found = []
    monkeypatch.setattr(pictures, "show", lambda fig, alt: found.append((fig, alt)))
    return found


def band(n):
    return Window(1).mask(n)


def test_a_wrong_mask_stands_beside_the_wanted_one(shown):
    verdict = of_function(lambda n: Causal().mask(n), band, [(5,)])
    pictures.draw(verdict)
    ((fig, alt),) = shown
    assert [ax.get_title() for ax in fig.axes] == ["wanted", "yours"]
    assert "4 pairs (the first: query 0, key 1) are wanted but not allowed by yours" in alt
    assert "6 pairs (the first: query 2, key 0) are allowed by yours but not wanted" in alt


def test_a_single_pair_and_none_are_said_as_such(shown):
    got = band(4)
    got[0, 3] = True
    pictures.draw(Verdict("wrong", "", band(4), got))
    assert "no pair is wanted but" in shown[0][1]
    assert "one pair (query 0, key 3) is allowed by yours" in shown[0][1]


def test_before_an_attempt_the_wanted_mask_stands_alone(shown):
    pictures.draw(of_function(lambda n: ..., band, [(5,)]))
    ((fig, alt),) = shown
    assert [ax.get_title() for ax in fig.axes] == ["wanted"]
    assert alt.startswith("The mask that is wanted. ")


def test_masks_of_other_shapes_and_large_ones_are_not_drawn():
    assert of_function(lambda n: band(n + 1), band, [(5,)]).got is None
    assert of_function(lambda n: ~band(n), band, [(33,)]).wanted is None


def test_curves_are_drawn_together_with_their_largest_difference(shown):
    axes = {"x": [1, 2], "xlabel": "keys", "ylabel": "cost"}
    pictures.draw(Verdict("wrong", "", {**axes, "y": [1.0, 4.0]}, {**axes, "y": [1.0, 2.5]}))
    ((fig, alt),) = shown
    assert [line.get_label() for line in fig.axes[0].lines] == ["wanted", "yours"]
    assert alt == "cost over keys, wanted and yours. The largest difference is 1.5."
