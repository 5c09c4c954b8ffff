"""Libraries still mean by their masks, windows and scales what the book's table says."""

import json

import pytest
import torch
from torch.nn import functional as F

from tinyattn import attention
from tinyattn.patterns import Window

from . import asking
from .conventions import ASKED, FILE, rows

STORED = json.loads(FILE.read_text(encoding="utf-8"))["rows"]
MODULES = {"FlexAttention": "torch"}  # the others import under their names


@pytest.mark.parametrize("library", ASKED)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_library_answers_as_the_table_says(library):
    module = MODULES.get(library, library.replace("-", "_"))
    pytest.importorskip(module, reason=f"{library} is in requirements-oracles.txt")
    stored = [row for row in STORED if row["library"] == library]
    assert rows(library) == stored, "python -m tests.oracles.conventions writes the table anew"


def test_the_table_has_every_library_in_order():
    assert list(dict.fromkeys(row["library"] for row in STORED)) == list(ASKED)


# ------------------------------------------------------------- the questions, put to known answers


def masked(mask):
    return lambda q, k, v: attention(q, k, v, mask)


def causal_from(corner):
    """Causal with the first query at this position."""
    return lambda q, k, v: attention(q, k, v, torch.ones(2, 5).tril(corner(5 - 2)).bool())


def test_the_two_meanings_of_true_are_told_apart():
    mask = torch.tensor([False, True, True, False])
    for given, meaning in ((mask, "is read"), (~mask, "is left out")):
        found, _, _ = asking.weights(masked(given), 3, 4)
        assert asking.mark(found[0], mask) == meaning


def test_a_mask_that_neither_keeps_nor_drops_is_no_answer():
    found, _, _ = asking.weights(attention, 3, 4)
    with pytest.raises(AssertionError, match="made a row read"):
        asking.mark(found[0], torch.tensor([True, False, False, False]))


def test_the_two_corners_of_causal_are_told_apart():
    assert asking.causal(causal_from(lambda more: 0)) == "first query at first key"
    assert asking.causal(causal_from(lambda more: more)) == "last query at last key"


@pytest.mark.parametrize(
    ("mask", "meaning"),
    [
        (Window(3).mask(24), "3 before, itself, 3 after"),
        (Window(3).mask(24).tril(), "3 before, itself, 0 after"),
        (Window(3).mask(24).fill_diagonal_(False), "3 before, not itself, 3 after"),
        (torch.block_diag(*[torch.ones(6, 6)] * 4).bool(), "6 keys, whole blocks"),
    ],
)
def test_windows_are_told_apart(mask, meaning):
    found, _, _ = asking.weights(masked(mask), 24)
    assert asking.window(found, 13) == meaning


@pytest.mark.parametrize("scale", [5**-0.5, 1.0])
@pytest.mark.parametrize("unit", [False, True])
def test_scales_are_told_apart(scale, unit):
    def attend(q, k, v):
        return attention(q, F.normalize(k, dim=-1) if unit else k, v, scale=scale)

    name = "1" if scale == 1.0 else "1/√d_head"
    assert asking.scale(*asking.weights(attend, 5)) == name + ", keys of length 1" * unit


def test_a_scale_that_has_no_name_is_no_answer():
    with pytest.raises(AssertionError, match=r"0\.3"):
        asking.scale(*asking.weights(lambda q, k, v: attention(q, k, v, scale=0.3), 5))


@pytest.mark.parametrize(
    ("row", "meaning"),
    [
        (torch.full((4,), torch.nan), "NaN"),
        (torch.zeros(4), "zeros"),
        (torch.full((4,), 0.25), "the mean of all"),
        (torch.tensor([0.0, 0.5, 0.5, 0.0]), "the mean of its blocks"),
    ],
)
def test_empty_rows_are_told_apart(row, meaning):
    assert asking.empty(row) == meaning
