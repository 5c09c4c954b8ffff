"""Residuals and LayerNorm in both orders, and the layers built of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.functional import jacobian

from tinyattn.patterns import Causal
from tinyattn.transformer import DecoderLayer, EncoderLayer, Residual, RoPE
from tinyattn.transformer.blocks import LayerCache

from .. import reference
from ..close import assert_same
from .tiny import randn, scrambled, seeded, small

BOTH = pytest.mark.parametrize("norm_first", [False, True])


def double(x):
    return 2 * x


# ---------------------------------------------------------------------- residual and LayerNorm


@BOTH
def test_the_norm_stands_where_the_order_puts_it(norm_first):
    it, x = scrambled(Residual(small(norm_first=norm_first))), randn(1, 3, 8)
    weights = reference.as_numpy(it.state_dict())
    rows = x[0].numpy()
    if norm_first:
        expected = rows + 2 * reference.layer_norm(rows, weights, "norm")
    else:
        expected = reference.layer_norm(rows + 2 * rows, weights, "norm")
    np.testing.assert_allclose(it(x, double)[0].detach(), expected, atol=1e-12)


def test_pre_norm_around_nothing_is_the_identity():
    it, x = Residual(small(norm_first=True)).double(), randn(2, 5, 8)
    assert torch.equal(it(x, torch.zeros_like), x)


def test_post_norm_leaves_every_token_with_mean_zero_and_variance_one():
    it, x = Residual(small(norm_first=False, layer_norm_eps=1e-12)).double(), randn(2, 5, 8)
    out = it(5 * x + 3, double)
    assert_same(out.mean(-1), torch.zeros(2, 5, dtype=torch.float64))
    assert_same(out.var(-1, correction=0), torch.ones(2, 5, dtype=torch.float64), atol=1e-10)


@settings(max_examples=15)
@given(a=st.floats(0.1, 50), b=st.floats(-50, 50))
def test_a_norm_does_not_see_scale_and_shift_of_a_token(a, b):
    x = randn(2, 5, 8)
    post = Residual(small(norm_first=False, layer_norm_eps=1e-15)).double()
    assert_same(post(a * x + b, torch.zeros_like), post(x, torch.zeros_like), atol=1e-9)
    pre = Residual(small(norm_first=True, layer_norm_eps=1e-15)).double()
    seen = []
    for input in (x, a * x + b):
        pre(input, lambda x: seen.append(x) or x)
    assert_same(*seen, atol=1e-9)


def test_epsilon_stands_inside_the_root():
    it = Residual(small(norm_first=False, layer_norm_eps=3.0)).double()
    x = torch.tensor([[[1.0, -1.0] * 4]], dtype=torch.float64)  # variance 1
    assert_same(it(x, torch.zeros_like), x / 2)  # √(1 + 3)


def test_a_constant_token_is_zero_after_the_norm_and_not_nan():
    it = Residual(small(norm_first=False))
    assert not it(torch.full((1, 2, 8), 7.0), torch.zeros_like).any()


@BOTH
def test_dropout_falls_on_what_the_sublayer_says_and_on_nothing_else(norm_first):
    it = Residual(small(norm_first=norm_first, dropout=0.9))
    torch.manual_seed(0)
    seen = []
    it.dropout.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    x = randn(1, 4, 8, dtype=torch.float32)
    it(x, double)
    assert torch.equal(seen[0], 2 * (it.norm(x) if norm_first else x))
    it.eval()
    assert torch.equal(it(x, double), it(x, double))


# ------------------------------------------------------------------------------------ layers


@BOTH
def test_an_encoder_layer_equals_the_loops(norm_first):
    it, x = scrambled(EncoderLayer(small(norm_first=norm_first))), randn(2, 4, 8)
    weights = {
        f"layers.0.{name}": value for name, value in reference.as_numpy(it.state_dict()).items()
    }
    weights |= {"norm.weight": np.ones(8), "norm.bias": np.zeros(8)}
    for b in range(2):
        expected = reference.stack(
            x[b].numpy(), weights, "", n_layers=1, n_heads=2, norm_first=norm_first
        )
        ours = it(x[b : b + 1])[0].detach().numpy()
        if norm_first:  # the reference's stack ends with a norm, a single layer does not
            ours = reference.layer_norm(ours, weights, "norm")
        np.testing.assert_allclose(ours, expected, atol=1e-11)


@pytest.mark.parametrize("d_model", [4, 8, 20])
@BOTH
def test_parameter_counts_equal_the_formulas_and_torchs_layers(d_model, norm_first):
    config = small(d_model=d_model, d_ff=4 * d_model, norm_first=norm_first)
    sizes = (d_model, 2, 4 * d_model)

    def count(module):
        return sum(p.numel() for p in module.parameters())

    encoder = count(EncoderLayer(config))
    assert encoder == 12 * d_model**2 + 13 * d_model
    assert encoder == count(nn.TransformerEncoderLayer(*sizes))
    decoder = count(DecoderLayer(config))
    assert decoder == 16 * d_model**2 + 19 * d_model
    assert decoder == count(nn.TransformerDecoderLayer(*sizes))
    assert count(DecoderLayer(config, cross_attention=False)) == encoder


@BOTH
def test_a_decoder_layer_reads_its_past_and_the_whole_memory(norm_first):
    it = scrambled(DecoderLayer(small(norm_first=norm_first), pattern=Causal()))
    x, memory = randn(1, 4, 8), randn(1, 3, 8, seed=1)
    by_token = jacobian(lambda x: it(x, memory), x)[0, :, :, 0].abs().sum((1, 3))
    assert torch.equal(by_token > 0, Causal().mask(4))
    assert torch.equal(it(x=x, memory=memory), it(x, memory))
    real = torch.tensor([[True, False, True]])
    by_memory = jacobian(lambda m: it(x, m, memory_padding=real), memory)[0, :, :, 0]
    assert torch.equal(by_memory.abs().sum((1, 3)) > 0, real.expand(4, 3))


@BOTH
def test_layer_caches_hold_own_keys_and_those_of_the_memory_apart(norm_first):
    it = scrambled(DecoderLayer(small(norm_first=norm_first), pattern=Causal(), positions=RoPE(4)))
    x, memory, cache = randn(2, 4, 8), randn(2, 3, 8, seed=1), LayerCache()
    pieces = [it(x[:, t : t + 1], memory, cache=cache) for t in range(4)]
    assert_same(torch.cat(pieces, dim=1), it(x, memory))
    assert (len(cache.own), len(cache.memory)) == (4, 3)


@BOTH
def test_gradients_of_a_decoder_layer_pass_gradcheck(norm_first):
    config = small(d_model=4, d_ff=4, norm_first=norm_first, activation=nn.functional.gelu)
    it = scrambled(DecoderLayer(config, pattern=Causal()))
    x, memory = randn(1, 3, 4).requires_grad_(), randn(1, 2, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(it, (x, memory))


def test_gradients_of_deep_stacks_favour_pre_norm_at_the_bottom():
    sizes = {}
    for norm_first in (False, True):
        torch.manual_seed(0)
        layers = [
            EncoderLayer(small(d_model=32, d_ff=64, norm_first=norm_first)) for _ in range(12)
        ]
        x = first = torch.randn(4, 6, 32, generator=seeded(0)).requires_grad_()
        for layer in layers:
            x = layer(x)
        (x * torch.randn(x.shape, generator=seeded(1))).sum().backward()
        assert first.grad.isfinite().all()
        bottom, top = (
            layer.feed_forward.expand.weight.grad.norm() for layer in (layers[0], layers[-1])
        )
        sizes[norm_first] = float(bottom / top)
    assert sizes[True] > sizes[False]  # post-norm's gradient shrinks on its way down


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("cross_attention", "args", "options", "error", "sentence"),
    [
        (True, (), {}, ValueError, "has cross-attention and needs memory, the encoder's output"),
        (False, (torch.zeros(2, 3, 8),), {}, ValueError, "no cross-attention and takes no memory"),
        (True, (torch.zeros(1, 3, 8),), {}, ValueError, "each of the 2 target sequences, got 1"),
        (True, (torch.zeros(2, 3, 6),), {}, ValueError, r"d_model=8\), got \(2, 3, 6\)"),
        (
            False, (), {"memory_padding": torch.ones(2, 3, dtype=torch.bool)}, ValueError,
            "memory_padding needs the memory that it describes, got none",
        ),
        (
            True, (torch.zeros(2, 3, 8),), {"memory_padding": torch.ones(2, 4, dtype=torch.bool)},
            ValueError, r"\(b, n\) = \(2, 3\), got \(2, 4\)",
        ),
        (
            True, (torch.zeros(2, 3, 8),), {"memory_padding": torch.ones(2, 3)}, TypeError,
            "memory_padding must be bool .*, got torch.float32",
        ),
    ],
)  # fmt: skip
def test_a_memory_that_does_not_fit_is_refused(cross_attention, args, options, error, sentence):
    it = DecoderLayer(small(), cross_attention=cross_attention)
    with pytest.raises(error, match=sentence):
        it(torch.zeros(2, 4, 8), *args, **options)


@pytest.mark.usefixtures("refusals")
def test_padding_that_does_not_fit_an_encoder_layer_is_refused():
    with pytest.raises(ValueError, match=r"\(b, n\) = \(2, 4\), got \(2, 5\)"):
        EncoderLayer(small())(torch.zeros(2, 4, 8), key_padding=torch.ones(2, 5, dtype=torch.bool))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_token_vectors_of_another_width_are_refused_wherever_the_norm_stands(kind, norm_first):
    with pytest.raises(ValueError, match=r"x must be \(b, n, d_model=8\), got \(1, 3, 4\)"):
        kind(small(norm_first=norm_first))(x=randn(1, 3, 4))
