"""Products with a matrix in pieces are products with the matrix."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tinyattn import sparse_attention
from tinyattn.patterns import Global, Window
from tinyattn.products import FEW, beside, few, sum_of_products

from .close import assert_same
from .transformer.tiny import randn

LENGTHS = [(5,), (1, 4), (3, 0, 2, 6), (0, 2)]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("alpha", [1.0, -0.25])
def test_columns_stand_beside_each_other_as_those_of_the_whole_matrix_do(lengths, alpha):
    left, pieces = randn(2, 3, 4), [randn(2, n, 4, seed=n + 1) for n in lengths]
    out = torch.full((2, 3, sum(lengths)), torch.nan, dtype=left.dtype)  # is not read
    beside(left, pieces, out, alpha)
    assert_same(out, alpha * left @ torch.cat(pieces, dim=1).transpose(1, 2))


@pytest.mark.parametrize("lengths", LENGTHS)
def test_products_of_pieces_add_up_to_that_of_the_whole_matrix(lengths):
    left, pieces = randn(2, 3, sum(lengths)), [randn(2, n, 4, seed=n + 1) for n in lengths]
    expected = left @ torch.cat(pieces, dim=1)
    assert_same(sum_of_products(left, pieces), expected)
    place = randn(2, 9, 4, seed=9)
    wanted = place.clone()
    wanted[:, 1:7:2] += 0.5 * expected
    sum_of_products(left, pieces, place[:, 1:7:2], 0.5)
    assert_same(place, wanted)


def test_more_than_a_few_pieces_are_copied_together():
    pieces = [randn(1, 2, 4, seed=n) for n in range(FEW + 1)]
    assert few(pieces[:FEW]) == pieces[:FEW]
    (whole,) = few(pieces)
    assert torch.equal(whole, torch.cat(pieces, dim=1))


class Copies(TorchDispatchMode):
    """The names of operations that put tensors together."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert "cat" not in func.overloadpacket.__name__, "pieces were copied together"
        return func(*args, **(kwargs or {}))


def test_a_window_beside_global_tokens_is_never_copied():
    q, k, v = (randn(1, 2, 300, 4, seed=seed).requires_grad_() for seed in range(3))
    pattern = Window(40) | Global(7)
    sparse_attention(q, k, v, pattern)  # the schedule is made
    with Copies():
        out = sparse_attention(q, k, v, pattern)
        out.sum().backward()
    with pytest.raises(AssertionError, match="copied together"), Copies():
        torch.cat([q, k])
