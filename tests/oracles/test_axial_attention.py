"""Rows and then columns against axial-attention with the same weights."""

import pytest
import torch

from tinyattn.patterns import axial_columns, axial_rows
from tinyattn.transformer import MultiHeadAttention

from ..close import assert_same

library = pytest.importorskip(
    "axial_attention", reason="axial-attention is in requirements-oracles.txt"
)


def copied(theirs, pattern):
    """Their layer along one axis as one of ours: its keys and values are one product."""
    ours = MultiHeadAttention(12, 3, pattern=pattern).double()
    to_key, to_value = theirs.to_kv.weight.chunk(2)
    with torch.no_grad():
        for linear, weight in (
            (ours.query, theirs.to_q.weight),
            (ours.key, to_key),
            (ours.value, to_value),
        ):
            linear.weight.copy_(weight)
            linear.bias.zero_()
        ours.out.weight.copy_(theirs.to_out.weight)
        ours.out.bias.copy_(theirs.to_out.bias)
    return ours


@pytest.mark.parametrize(("height", "width"), [(5, 7), (8, 4)])
@pytest.mark.parametrize("together", [False, True])
def test_columns_and_rows_are_their_two_axes(height, width, together):
    torch.manual_seed(0)
    theirs = library.AxialAttention(
        dim=12, num_dimensions=2, heads=3, dim_index=-1, sum_axial_out=together
    ).double()
    first, second = (axis.fn for axis in theirs.axial_attentions)
    down = copied(first, axial_columns(width))  # their first axis is the one of the rows' numbers
    along = copied(second, axial_rows(width))
    image = torch.randn(2, height, width, 12, dtype=torch.float64, requires_grad=True)
    x = image.flatten(1, 2)
    ours = down(x) + along(x) if together else along(down(x))
    expected = theirs(image)
    assert_same(ours.view_as(expected), expected)
    grads = [torch.autograd.grad(out.square().sum(), image)[0] for out in (ours, expected)]
    assert_same(*grads)
