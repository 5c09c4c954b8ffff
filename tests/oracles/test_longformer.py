"""Longformer's attention against the port in transformers, called directly with copied weights."""

import pytest
import torch

from tinyattn.engine import sparse_attention
from tinyattn.patterns import longformer, radius_from_window
from tinyattn.transformer import LongformerAttention

from ..close import assert_same
from ..transformer.tiny import randn, scrambled

transformers = pytest.importorskip(
    "transformers", reason="transformers is in requirements-oracles.txt"
)

N, D_MODEL, HEADS = 48, 8, 2


def their_layer(window):
    modeling = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    config = transformers.LongformerConfig(
        vocab_size=11, hidden_size=D_MODEL, num_attention_heads=HEADS, num_hidden_layers=1,
        intermediate_size=8, attention_window=[window], attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return scrambled(modeling.LongformerSelfAttention(config, layer_id=0))


def heads_of(layer, x, real, chosen):
    """Their heads side by side: 10,000 marks global tokens, -10,000 padding."""
    marks = torch.zeros(real.shape, dtype=x.dtype)
    marks[~real] = -10_000
    marks[:, list(chosen)] = 10_000
    (out,) = layer(
        x, attention_mask=marks, is_index_masked=~real, is_index_global_attn=marks > 0,
        is_global_attn=bool(chosen),
    )[:1]  # fmt: skip
    return out


def our_layer(theirs, window):
    """Theirs has no map behind the heads; ours gets the identity."""
    ours = LongformerAttention(D_MODEL, HEADS, radius_from_window(window)).double()
    state = {}
    for name in ("query", "key", "value"):
        for part in ("weight", "bias"):
            state[f"local.{name}.{part}"] = getattr(getattr(theirs, name), part)
            state[f"{name}_global.{part}"] = getattr(getattr(theirs, f"{name}_global"), part)
    state["local.out.weight"] = torch.eye(D_MODEL, dtype=torch.float64)
    state["local.out.bias"] = torch.zeros(D_MODEL, dtype=torch.float64)
    ours.load_state_dict(state)
    return ours


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("chosen", [(), (0,), (0, 1, 2), (5, 30)])
@pytest.mark.parametrize("window", [4, 8, 24])
def test_the_layer_equals_theirs_with_projections_of_its_own_for_global_tokens(
    window, chosen, padded
):
    theirs = their_layer(window)
    ours = our_layer(theirs, window)
    real = torch.ones(2, N, dtype=torch.bool)
    if padded:
        real[0, 40:] = False
    x = randn(2, N, D_MODEL)
    grads = []
    for run in (
        lambda x: ours(x, global_positions=chosen, key_padding=real),
        lambda x: heads_of(theirs, x, real, chosen),
    ):
        own = x.clone().requires_grad_()
        out = torch.where(real[..., None], run(own), 0.0)
        (out * randn(2, N, D_MODEL, seed=5)).sum().backward()
        grads.append(
            (out, torch.where(real[..., None], own.grad, 0.0))
        )  # theirs has NaN in padding
    for mine, other in zip(*grads, strict=True):
        assert_same(mine, other, rtol=1e-5, atol=1e-5)  # their softmax is taken in float32


@pytest.mark.parametrize("chosen", [(0,), (5, 30)])
def test_the_pattern_equals_theirs_where_both_kinds_of_maps_are_one(chosen):
    theirs = their_layer(8)
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(theirs, f"{name}_global").load_state_dict(getattr(theirs, name).state_dict())
    x, real = randn(2, N, D_MODEL), torch.ones(2, N, dtype=torch.bool)
    q, k, v = (
        getattr(theirs, name)(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    ours = sparse_attention(q, k, v, longformer(radius_from_window(8), chosen))
    expected = heads_of(theirs, x, real, chosen)
    assert_same(ours.transpose(1, 2).flatten(2), expected, rtol=1e-5, atol=1e-5)
