"""Masks as texts: what goes in comes out, and texts that are no masks are refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinyattn.patterns import Causal, Dilated, Global, Random, Window
from tinyattn.show.bitmaps import pack, unpack

SQUARES = st.integers(0, 12).flatmap(lambda n: hnp.arrays(bool, (n, n)))


@given(SQUARES)
def test_what_is_packed_comes_out_again(mask):
    mask = torch.from_numpy(mask)
    assert torch.equal(unpack(pack(mask), len(mask)), mask)


@pytest.mark.parametrize("n", [1, 5, 64, 128])
@pytest.mark.parametrize("seed", range(3))
def test_long_runs_and_random_cells_come_out_again(n, seed):
    generator = torch.Generator().manual_seed(seed)
    for density in (0.0, 0.003, 0.5, 1.0):
        mask = torch.rand(n, n, generator=generator) < density
        assert torch.equal(unpack(pack(mask), n), mask)


def test_the_text_is_runs_of_cells_in_base_64():
    mask = torch.tensor([[False, True], [True, True]])
    assert pack(mask) == "rAQM"  # 1 no, 3 yes
    assert torch.equal(unpack("rAQM", 2), mask)
    assert torch.equal(unpack("rAAMB", 2), torch.tensor([[True, True], [True, False]]))


def test_differences_are_taken_from_the_upper_left():
    diagonal = torch.eye(3, dtype=torch.bool)
    assert pack(diagonal) == "dAAECAQU"  # differs at once, then in the first column below
    assert torch.equal(unpack("dAAECAQU", 3), diagonal)


@pytest.mark.parametrize(
    ("pattern", "most"),
    [(Causal(), 8), (Window(9), 12), (Dilated(4, 7), 50), (Global(3), 170)],
)
def test_rules_on_positions_are_short(pattern, most):
    assert len(pack(pattern.mask(64))) <= most


def test_random_cells_take_no_more_than_two_numbers_each():
    pattern = Random(64, r=2, seed=0)
    assert len(pack(pattern.mask(64))) <= 2 * 2 * 64 * 4 / 3 + 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "starts with r or d"),
        ("xAAE", "starts with r or d"),
        (None, "starts with r or d"),
        ("rAAE", "has 4 cells, got 1"),
        ("rAAk", "has 4 cells, got 9"),
        ("rAP//", "ends in the middle"),
        ("r!!!", "base 64"),
    ],
)
def test_texts_that_are_no_mask_are_refused(text, reason, refusals):
    with pytest.raises(ValueError, match=reason):
        unpack(text, 2)


@pytest.mark.parametrize(
    "mask", [torch.zeros(2, 3).bool(), torch.zeros(3, 3), torch.zeros(3).bool()]
)
def test_what_is_no_square_of_bools_is_refused(mask, refusals):
    with pytest.raises(ValueError, match="a packed mask must be square and bool"):
        pack(mask)
