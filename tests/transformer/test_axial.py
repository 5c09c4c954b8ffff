"""Axial positions, and the causal axial model pixel by pixel."""

import pytest
import torch

from tinyattn.transformer import AxialPositions, AxialTransformer, TransformerConfig

from ..close import assert_same
from .tiny import assert_begins_with, randn, scrambled

CONFIG = TransformerConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=16, n_layers=1)
SHAPES = [(1, 1), (1, 5), (4, 1), (3, 5), (4, 4)]


def pictures(height, width, b=2):
    return torch.randint(5, (b, height * width), generator=torch.Generator().manual_seed(0))


# --------------------------------------------------------------------------------- positions


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_each_pixel_gets_the_vectors_of_its_row_and_its_column(height, width):
    scheme = scrambled(AxialPositions(height, width, 6), 0)
    x = randn(2, height * width, 6)
    out = scheme.embed(x)
    for row in range(height):
        for col in range(width):
            at = row * width + col
            assert_same(out[:, at], x[:, at] + scheme.rows[row] + scheme.columns[col])
    assert_same(scheme.embed(x[:, 1:], start=1), out[:, 1:])
    assert_same(scheme.embed(x[:, :1]), out[:, :1])


def test_pixels_outside_of_the_picture_are_refused():
    scheme = AxialPositions(2, 3, 6)
    for x, start in (
        (torch.zeros(1, 7, 6), 0),
        (torch.zeros(1, 2, 6), 5),
        (torch.zeros(1, 6, 5), 0),
    ):
        with pytest.raises(
            ValueError, match="2 rows and 3 columns need at most 6 pixels of width 6"
        ):
            scheme.embed(x, start)
    with pytest.raises(ValueError, match="got height=0, width=3, d_model=6"):
        AxialPositions(0, 3, 6)


# ------------------------------------------------------------------------------------- model


@pytest.mark.parametrize(("height", "width"), SHAPES)
@pytest.mark.parametrize("n_inner", [1, 2])
def test_each_pixel_hears_of_those_before_it_and_of_all_of_them(height, width, n_inner):
    model = scrambled(AxialTransformer(CONFIG, height, width, n_inner), 0)
    pixels = pictures(height, width, b=1)
    before = model(pixels)
    for j in range(height * width):
        changed = pixels.clone()
        changed[0, j] = (changed[0, j] + 1) % 5
        heard = (model(changed) - before).abs().amax(dim=(0, 2)) > 0
        assert heard.tolist() == [i > j for i in range(height * width)]


def test_shifts_move_by_one_row_and_by_one_pixel_and_bring_in_zeros():
    model = AxialTransformer(CONFIG, 3, 4, 1)
    x = randn(2, 12, 8)
    down, right = model.shifted_down(x), model.shifted_right(x)
    for row in range(3):
        for col in range(4):
            at = row * 4 + col
            above = x[:, at - 4] if row else torch.zeros(2, 8, dtype=torch.float64)
            left = x[:, at - 1] if col else torch.zeros(2, 8, dtype=torch.float64)
            assert torch.equal(down[:, at], above)
            assert torch.equal(right[:, at], left)


def test_pictures_of_a_batch_do_not_see_each_other():
    model, pixels = scrambled(AxialTransformer(CONFIG, 3, 4, 2), 0), pictures(3, 4)
    assert_same(model(pixels)[1:], model(pixels[1:]))


def test_an_axial_model_refuses_what_is_no_picture_of_its_size():
    with pytest.raises(ValueError, match="3 rows and 4 columns has 12 pixels, got 11"):
        AxialTransformer(CONFIG, 3, 4, 1)(torch.zeros(1, 11, dtype=torch.long))
    with pytest.raises(ValueError, match="n_inner must be 1 or more, got 0"):
        AxialTransformer(CONFIG, 3, 4, 0)


def test_rows_and_columns_begin_small():
    positions = AxialPositions(50, 60, 64)
    assert_begins_with(0.02, positions.rows, positions.columns)
