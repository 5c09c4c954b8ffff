"""The feed-forward layer: a function of single tokens, so that chunks change nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.functional import jacobian

from tinyattn.transformer import FeedForward

from .. import reference
from ..close import assert_same
from .tiny import randn, scrambled


def layer(seed=0, **options) -> FeedForward:
    return scrambled(FeedForward(4, 6, **options), seed)


def gradients(it, x):
    x = x.clone().requires_grad_()
    it.zero_grad()
    it(x).pow(2).sum().backward()
    return [x.grad, *(p.grad.clone() for p in it.parameters())]


def test_it_expands_cuts_and_contracts_every_token():
    it, x = layer(), randn(2, 5, 4)
    weights = {f"it.{name}": value for name, value in reference.as_numpy(it.state_dict()).items()}
    expected = reference.feed_forward(x[1].numpy(), weights, "it")
    np.testing.assert_allclose(it(x)[1].detach(), expected, atol=1e-13)


def test_one_channel_may_be_expanded_to_one():
    it = scrambled(FeedForward(1, 1))
    x = randn(1, 5, 1)
    inner = (x * it.expand.weight + it.expand.bias).clamp(min=0)
    assert_same(it(x), inner * it.contract.weight + it.contract.bias)


@settings(max_examples=50)
@given(n=st.integers(0, 9), pieces=st.integers(1, 12), by_size=st.booleans())
def test_chunks_change_neither_outputs_nor_gradients(n, pieces, by_size):
    whole = layer()
    cut = layer(**({"chunk_size": pieces} if by_size else {"n_chunks": pieces}))
    x = randn(2, n, 4, seed=n)
    assert_same(cut(x), whole(x), rtol=1e-12, atol=1e-14)
    for ours, theirs in zip(gradients(cut, x), gradients(whole, x), strict=True):
        assert_same(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "n", "sizes"),
    [
        ({}, 7, [7]),
        ({"n_chunks": 3}, 7, [3, 3, 1]),
        ({"n_chunks": 4}, 6, [2, 2, 2]),
        ({"n_chunks": 9}, 2, [1, 1]),
        ({"n_chunks": 3}, 0, [0]),
        ({"chunk_size": 3}, 7, [3, 3, 1]),
        ({"chunk_size": 1}, 2, [1, 1]),
        ({"chunk_size": 9}, 2, [2]),
    ],
)
def test_no_inner_activation_is_longer_than_a_chunk(options, n, sizes):
    it, seen = layer(**options), []
    it.expand.register_forward_hook(lambda module, args, out: seen.append(out.shape[1]))
    it(randn(1, n, 4))
    assert seen == sizes


def test_it_equals_two_convolutions_of_width_one():
    it, x = layer(), randn(2, 5, 4)
    first, second = nn.Conv1d(4, 6, 1).double(), nn.Conv1d(6, 4, 1).double()
    with torch.no_grad():
        first.weight.copy_(it.expand.weight[:, :, None])
        first.bias.copy_(it.expand.bias)
        second.weight.copy_(it.contract.weight[:, :, None])
        second.bias.copy_(it.contract.bias)
    assert_same(it(x), second(first(x.mT).relu()).mT, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"n_chunks": 2}])
def test_no_token_depends_on_another(options):
    blocks = jacobian(layer(**options), randn(1, 5, 4))[0, :, :, 0].abs().sum((1, 3))
    assert torch.equal(blocks > 0, torch.eye(5, dtype=torch.bool))


@settings(max_examples=10)
@given(order=st.permutations(range(6)), pieces=st.integers(1, 4))
def test_tokens_in_another_order_come_out_in_that_order(order, pieces):
    it, x = layer(n_chunks=pieces), randn(2, 6, 4)
    assert_same(it(x[:, order]), it(x)[:, order], rtol=1e-12)


@pytest.mark.parametrize("activation", [torch.relu, nn.functional.gelu, nn.GELU()])
def test_the_activation_is_the_one_given(activation):
    it, x = layer(activation=activation), randn(1, 3, 4)
    assert torch.equal(it(x), it.contract(activation(it.expand(x))))


def test_parameters_are_two_matrices_and_two_biases():
    d = 16
    count = sum(p.numel() for p in FeedForward(d, 4 * d).parameters())
    assert count == 8 * d**2 + 5 * d
    assert sum(p.numel() for p in FeedForward(4, 6, n_chunks=3).parameters()) == 2 * 4 * 6 + 6 + 4


REFUSED = {
    "no width": ((0, 4), {}, ValueError, "1 or more, got d_model=0 and d_ff=4"),
    "no inner width": ((4, 0), {}, ValueError, "1 or more, got d_model=4 and d_ff=0"),
    "no chunks": ((4, 6, 0), {}, ValueError, "n_chunks must be 1 or more, got 0"),
    "chunks of nothing": ((4, 6), {"chunk_size": 0}, ValueError, "chunk_size must be 1 token or more, got 0"),
    "both": (
        (4, 6, 2), {"chunk_size": 3}, ValueError,
        r"n_chunks \(how many\) or chunk_size \(tokens in each\), not both, got n_chunks=2 and chunk_size=3",
    ),
    "a broken width": ((4, 6.5), {}, TypeError, r"d_ff must be a whole number, got 6\.5"),
    "half chunks": ((4, 6, 1.5), {}, TypeError, r"n_chunks must be a whole number, got 1\.5"),
    "a broken chunk": ((4, 6), {"chunk_size": 2.0}, TypeError, r"chunk_size must be a whole number, got 2\.0"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_layer_that_cannot_be_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        FeedForward(*args, **options)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 3), (1, 2, 5, 4), (4,)])
def test_input_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match=r"x must be \(b, n, d_model=4\), got \("):
        FeedForward(4, 6)(torch.zeros(shape))
