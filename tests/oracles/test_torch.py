"""tinyattn equals PyTorch's own attention and Transformer layers, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tinyattn import MultiHeadAttention, attention
from tinyattn.patterns import Causal
from tinyattn.transformer import DecoderLayer, Encoder, EncoderLayer

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, seeded, small
from .copying import (
    gradients,
    named,
    torch_attention,
    torch_decoder_layer,
    torch_encoder_layer,
    under,
)

BOTH = pytest.mark.parametrize("norm_first", [False, True])
D_MODEL, N_HEADS, D_FF = 8, 2, 12
TORCH = {"dropout": 0.0, "batch_first": True, "dtype": torch.float64}


def pulled_back(out: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Runs backward from one fixed direction; the gradients of the inputs."""
    (out * randn(*out.shape, seed=99)).sum().backward()
    return [tensor.grad for tensor in inputs]


def leaves(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.clone().requires_grad_() for tensor in tensors]


# --------------------------------------------------------------------------------------- SDPA


@settings(max_examples=30)
@given(
    n_q=st.integers(1, 6), n_k=st.integers(1, 7), d_head=st.integers(1, 5), d_v=st.integers(1, 4),
    share=st.sampled_from([0.0, 0.3, 0.8, 1.0]), seed=st.integers(0, 999),
)  # fmt: skip
def test_attention_equals_sdpa_with_empty_rows_included(n_q, n_k, d_head, d_v, share, seed):
    shapes = [(2, 3, n_q, d_head), (2, 3, n_k, d_head), (2, 3, n_k, d_v)]
    tensors = [randn(*shape, seed=seed + s) for s, shape in enumerate(shapes)]
    mask = torch.rand(2, 1, n_q, n_k, generator=seeded(seed)) < share
    ours, theirs = leaves(*tensors), leaves(*tensors)
    with sdpa_kernel(SDPBackend.MATH):
        expected = F.scaled_dot_product_attention(*theirs, attn_mask=mask)
        expected_gradients = pulled_back(expected, *theirs)
    out = attention(*ours, mask)
    assert_same(out, expected)
    for gradient, other in zip(pulled_back(out, *ours), expected_gradients, strict=True):
        assert_same(gradient, other)


def test_scale_and_bias_are_sdpas():
    q, k, v, bias = (
        randn(2, 3, 5, 4),
        randn(2, 3, 6, 4, seed=1),
        randn(2, 3, 6, 4, seed=2),
        randn(5, 6),
    )
    with sdpa_kernel(SDPBackend.MATH):
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3)
    assert_same(attention(q, k, v, bias=bias, scale=0.3), expected)


def test_square_causal_attention_is_sdpas_and_its_other_alignment_is_not():
    q, k, v = randn(3, 1, 1, 5, 4)
    with sdpa_kernel(SDPBackend.MATH):
        square = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        fewer = F.scaled_dot_product_attention(q[:, :, :2], k, v, is_causal=True)
    assert_same(attention(q, k, v, Causal().mask(5)), square)
    ours = attention(q[:, :, :2], k, v, Causal().mask(2, 5))
    assert not torch.allclose(ours, fewer, atol=1e-3)  # top left: it reads one key and two


# ------------------------------------------------------------------------- multi-head attention


@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize("cross", [False, True])
def test_heads_equal_torchs_multihead_attention(n_heads, cross):
    theirs = scrambled(nn.MultiheadAttention(D_MODEL, n_heads, **TORCH))
    ours = MultiHeadAttention(D_MODEL, n_heads).double()
    ours.load_state_dict(torch_attention(theirs.state_dict()))
    x, context = randn(2, 4, D_MODEL), randn(2, 5 if cross else 4, D_MODEL, seed=1)
    n_k = context.shape[1]
    mask = torch.rand(4, n_k, generator=seeded(2)) < 0.6
    mask[:, 0] = True
    real = torch.ones(2, n_k, dtype=torch.bool)
    real[1, -2:] = False
    a, b = leaves(x, context), leaves(x, context)
    out, weights = ours(
        a[0], a[1] if cross else None, mask=mask, key_padding=real, return_weights=True
    )
    source = b[1] if cross else b[0]
    expected, expected_weights = theirs(
        b[0], source, source, attn_mask=~mask, key_padding_mask=~real, average_attn_weights=False
    )
    assert_same(out, expected)
    assert_same(weights, expected_weights)
    pulled_back(out)
    pulled_back(expected)
    assert_same(a[0].grad, b[0].grad)
    if cross:
        assert_same(a[1].grad, b[1].grad)
    for name, gradient in torch_attention(gradients(theirs)).items():
        assert_same(gradients(ours)[name], gradient)


# ------------------------------------------------------------------------------------- layers


@BOTH
@pytest.mark.parametrize("activation", [torch.relu, F.gelu])
@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_layer_equals_torchs(norm_first, activation, padded):
    theirs = scrambled(
        nn.TransformerEncoderLayer(
            D_MODEL, N_HEADS, D_FF, activation=activation, norm_first=norm_first, **TORCH
        )
    )
    ours = EncoderLayer(small(d_ff=D_FF, norm_first=norm_first, activation=activation)).double()
    ours.load_state_dict(torch_encoder_layer(theirs.state_dict()))
    (a,), (b,) = leaves(randn(2, 5, D_MODEL)), leaves(randn(2, 5, D_MODEL))
    real = torch.arange(5) < torch.tensor([[3], [5]]) if padded else None
    out = ours(a, key_padding=real)
    expected = theirs(b, src_key_padding_mask=None if real is None else ~real)
    assert_same(out, expected)
    pulled_back(out)
    pulled_back(expected)
    assert_same(a.grad, b.grad)
    theirs_by_our_names = torch_encoder_layer(gradients(theirs))
    assert theirs_by_our_names.keys() == gradients(ours).keys()
    for name, gradient in theirs_by_our_names.items():
        assert_same(gradients(ours)[name], gradient)


@BOTH
def test_a_decoder_layer_equals_torchs(norm_first):
    theirs = scrambled(
        nn.TransformerDecoderLayer(D_MODEL, N_HEADS, D_FF, norm_first=norm_first, **TORCH)
    )
    ours = DecoderLayer(small(d_ff=D_FF, norm_first=norm_first), pattern=Causal()).double()
    ours.load_state_dict(torch_decoder_layer(theirs.state_dict()))
    x, memory = randn(2, 5, D_MODEL), randn(2, 4, D_MODEL, seed=1)
    real = torch.tensor([[True, True, False, True], [True] * 4])
    a, b = leaves(x, memory), leaves(x, memory)
    out = ours(*a, memory_padding=real)
    expected = theirs(*b, tgt_mask=~torch.ones(5, 5).tril().bool(), memory_key_padding_mask=~real)
    assert_same(out, expected)
    pulled_back(out)
    pulled_back(expected)
    for tensor, other in zip(a, b, strict=True):
        assert_same(tensor.grad, other.grad)
    theirs_by_our_names = torch_decoder_layer(gradients(theirs))
    assert theirs_by_our_names.keys() == gradients(ours).keys()
    for name, gradient in theirs_by_our_names.items():
        assert_same(gradients(ours)[name], gradient)


@BOTH
def test_an_encoder_equals_torchs_stack_with_the_norm_that_belongs_to_it(norm_first):
    """norm=None for post-norm: nn.Transformer itself normalises the last output twice."""
    layer = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, norm_first=norm_first, **TORCH)
    last = nn.LayerNorm(D_MODEL, dtype=torch.float64) if norm_first else None
    theirs = scrambled(nn.TransformerEncoder(layer, 3, norm=last, enable_nested_tensor=False))
    ours = Encoder(small(d_ff=D_FF, n_layers=3, norm_first=norm_first)).double()
    state = theirs.state_dict()
    copied = {} if last is None else named(under(state, "norm."), "norm.")
    for number in range(3):
        place = f"layers.{number}."
        copied |= named(torch_encoder_layer(under(state, place)), place)
    copied["embedding.table.weight"] = ours.embedding.table.weight
    ours.load_state_dict(copied)
    x = randn(2, 5, D_MODEL)
    with_positions = ours.embedding(x)
    real = torch.arange(5) < torch.tensor([[4], [5]])
    assert_same(ours(x, key_padding=real), theirs(with_positions, src_key_padding_mask=~real))
