"""Convolution, recurrence and the fully connected layer, against loops and PyTorch's layers."""

import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian

from tinyattn.families import Convolution, FullyConnected, Recurrence

from ..close import assert_same


def tokens(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reads(layer, n, d_model):
    """Which outputs change with which inputs, (n, n), by autograd."""
    found = jacobian(layer, tokens(1, n, d_model))  # (1, n, d_model, 1, n, d_model)
    return found.abs().sum(dim=(0, 2, 3, 5)) > 0


@pytest.mark.parametrize("n", [0, 1, 2, 9])
@pytest.mark.parametrize(
    ("width", "dilation", "causal"), [(1, 1, False), (3, 1, False), (3, 2, False), (5, 3, False),
                                      (1, 4, True), (2, 1, True), (2, 4, True), (3, 2, True)],
)  # fmt: skip
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_is_its_sum_over_offsets(n, width, dilation, causal, bias):
    layer = Convolution(4, width, dilation=dilation, causal=causal, bias=bias).double()
    x = tokens(2, n, 4)
    kernel = layer.kernel.weight  # (d_out, d_in, width)
    first = -(width - 1) if causal else -(width - 1) // 2
    expected = torch.zeros(2, n, 4, dtype=torch.float64)
    for i in range(n):
        for m in range(width):
            j = i + (first + m) * dilation
            if 0 <= j < n:
                expected[:, i] += x[:, j] @ kernel[:, :, m].T
        if bias:
            expected[:, i] += layer.kernel.bias
    assert_same(layer(x), expected)


def test_a_convolution_moves_with_its_input_away_from_the_ends():
    layer, x = Convolution(4, 5, dilation=2).double(), tokens(1, 30, 4)
    moved = layer(x.roll(3, dims=1))
    assert_same(moved[:, 7:-7], layer(x).roll(3, dims=1)[:, 7:-7])


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("bias", [True, False])
def test_a_recurrence_is_that_of_pytorch(n, bias):
    ours, theirs = Recurrence(4, bias=bias).double(), nn.RNN(4, 4, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.from_token.weight)
        theirs.weight_hh_l0.copy_(ours.from_state.weight)
        theirs.bias_ih_l0.copy_(ours.from_token.bias if bias else torch.zeros(4))
        theirs.bias_hh_l0.zero_()
    x = tokens(3, n, 4)
    if n == 0:  # PyTorch refuses it
        assert ours(x).shape == (3, 0, 4)
        return
    assert_same(ours(x), theirs(x)[0])
    d_out = tokens(3, n, 4, seed=1)
    by_ours, by_theirs = (
        torch.autograd.grad((out * d_out).sum(), weight)[0]
        for out, weight in [
            (ours(x), ours.from_state.weight),
            (theirs(x)[0], theirs.weight_hh_l0),
        ]
    )
    assert_same(by_ours, by_theirs)


@pytest.mark.parametrize("bias", [True, False])
def test_a_fully_connected_layer_sees_every_number_of_every_token(bias):
    layer, x = FullyConnected(3, 4, bias=bias).double(), tokens(2, 3, 4)
    weight = layer.everything.weight.view(3, 4, 3, 4)  # (n, d_out, n, d_in)
    expected = torch.einsum("iajc,bjc->bia", weight, x)
    if bias:
        expected = expected + layer.everything.bias.view(3, 4)
    assert_same(layer(x), expected)


@pytest.mark.parametrize("layer", [Convolution(4, 3), Recurrence(4), FullyConnected(3, 4)])
def test_a_layer_has_one_bias_if_nothing_else_is_said(layer):
    assert [name.endswith("bias") for name, _ in layer.named_parameters()].count(True) == 1


def test_who_reads_whom_is_what_tells_the_layers_apart():
    i, j = torch.arange(9)[:, None], torch.arange(9)
    expected = {
        Convolution(3, 3): (i - j).abs() <= 1,
        Convolution(3, 3, dilation=2): ((i - j).abs() <= 2) & ((i - j) % 2 == 0),
        Convolution(3, 2, dilation=3, causal=True): (i - j == 0) | (i - j == 3),
        Recurrence(3): j <= i,
        FullyConnected(9, 3): torch.ones(9, 9, dtype=torch.bool),
    }
    for layer, who in expected.items():
        assert torch.equal(reads(layer.double(), 9, 3), who)


REFUSED = {
    "an even kernel around its token": (lambda: Convolution(4, 2), ValueError, "width must be odd .*, got 2"),
    "an empty kernel": (lambda: Convolution(4, 0), ValueError, "width must be 1 or more, got 0"),
    "no step": (lambda: Convolution(4, 3, dilation=0), ValueError, "dilation must be 1 or more, got 0"),
    "half a channel": (lambda: Recurrence(0.5), TypeError, r"whole number, got 0\.5"),
    "no tokens": (lambda: FullyConnected(0, 4), ValueError, "n must be 1 or more, got 0"),
    "another length": (lambda: FullyConnected(3, 4)(torch.zeros(1, 5, 4)), ValueError, "built for 3 tokens, got 5"),
    "another width": (lambda: Recurrence(4)(torch.zeros(1, 5, 3)), ValueError, r"d_model=4\), got \(1, 5, 3\)"),
    "no batch": (lambda: Convolution(4, 3)(torch.zeros(5, 4)), ValueError, r"d_model=4\), got \(5, 4\)"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("build", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build()
