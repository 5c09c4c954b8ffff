"""Linformer: attention to mixtures of keys, exact where the mixtures are the keys."""

import math

import pytest
import torch

from tinyattn import MultiHeadAttention, attention
from tinyattn.analysis import attention_cost, parameters
from tinyattn.families import Linformer, compressed_attention

from ..close import assert_same
from .heads_of import by_loops, gradients, heads, softmax_weight


def mixtures(*shape):
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("each_head", [False, True])
@pytest.mark.parametrize(("n", "n_k", "n_memory"), [(1, 1, 1), (5, 9, 3), (9, 5, 7)])
def test_outputs_and_gradients_are_those_of_the_sums(each_head, n, n_k, n_memory):
    qkv = heads(n=n, n_k=n_k)
    e, f = mixtures(2, n_memory, n_k) if each_head else mixtures(n_memory, n_k)
    found = compressed_attention(*qkv, e, f)
    q, k, v = qkv

    def mixed(mix, x):
        rows = [
            sum((mix[h] if each_head else mix)[m, j] * x[b, h, j] for j in range(n_k))
            for b in range(2) for h in range(2) for m in range(n_memory)
        ]  # fmt: skip
        return torch.stack(rows).view(2, 2, n_memory, -1)

    expected = by_loops(softmax_weight(q, mixed(e, k)), mixed(f, v), n)
    assert_same(found, expected)
    for ours, theirs in zip(gradients(found, qkv), gradients(expected, qkv), strict=True):
        assert_same(ours, theirs)


def test_it_is_exact_if_every_slot_holds_one_key():
    q, k, v = heads()
    order = torch.eye(9, dtype=torch.float64)[torch.randperm(9)]
    assert_same(compressed_attention(q, k, v, order, order), attention(q, k, v))
    e, f = mixtures(3, 9)
    assert (compressed_attention(q, k, v, e, f) - attention(q, k, v)).abs().max() > 0.01


def test_padding_changes_nothing_whatever_stands_there():
    q, k, v = (x.detach() for x in heads())
    e, f = mixtures(3, 9)
    real = torch.arange(9) < torch.tensor([[9], [6]])
    k[1, :, 6:], v[1, :, 6:] = math.nan, math.inf
    found = compressed_attention(q, k, v, e, f, key_padding=real)
    short = compressed_attention(q[1:], k[1:, :, :6], v[1:, :, :6], e[:, :6], f[:, :6])
    assert_same(found[1:], short)
    nothing = compressed_attention(q, k, v, e, f, key_padding=torch.zeros_like(real))
    assert (nothing == 0).all()


def test_a_layer_with_identity_mixtures_is_multi_head_attention():
    ours, theirs = Linformer(8, 2, n=6, n_memory=6).double(), MultiHeadAttention(8, 2).double()
    theirs.load_state_dict({n: p for n, p in ours.state_dict().items() if "mix" not in n})
    with torch.no_grad():
        for mix in (ours.mix_keys, ours.mix_values):
            mix.copy_(torch.eye(6))
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_same(ours(x), theirs(x))


def test_a_layer_takes_shorter_sequences_and_has_the_parameters_of_both_mixtures():
    layer = Linformer(8, 2, n=20, n_memory=5).double()
    assert parameters(layer) == attention_cost(1, 8).parameters + 2 * 5 * 20
    x = torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    filled = torch.cat([x, torch.full((2, 8, 8), 9.0).double()], dim=1)
    real = (torch.arange(20) < 12).expand(2, 20)
    assert_same(layer(filled, key_padding=real)[:, :12], layer(x))
    assert layer(x[:, :0]).shape == (2, 0, 8)


def test_mixtures_start_with_a_length_of_about_one():
    """So that a slot's scores start as large as those of a key."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = Linformer(8, 2, n=100, n_memory=50)
    for mix in (layer.mix_keys, layer.mix_values):
        assert mix.pow(2).sum(dim=1).mean().item() == pytest.approx(1.0, abs=0.06)


REFUSED = {
    "mixtures of other keys": (lambda q, k, v: compressed_attention(q, k, v, *mixtures(3, 8)), ValueError, r"mix_keys must be \(n_memory, n_k=9\), .* got \(3, 8\)"),
    "mixtures for other heads": (lambda q, k, v: compressed_attention(q, k, v, *mixtures(5, 3, 9)), ValueError, r"each of 2, got \(5, 3, 9\)"),
    "other slots": (lambda q, k, v: compressed_attention(q, k, v, mixtures(3, 9)[0], mixtures(4, 9)[0]), ValueError, "same slots, got 3 and 4"),
    "fewer slots": (lambda q, k, v: compressed_attention(q, k, v, mixtures(4, 9)[0], mixtures(3, 9)[0]), ValueError, "same slots, got 4 and 3"),
    "wider tokens": (lambda *_: Linformer(8, 2, n=5, n_memory=2)(torch.zeros(1, 5, 9)), ValueError, r"d_model=8\) with .* got \(1, 5, 9\)"),
    "narrower tokens": (lambda *_: Linformer(8, 2, n=5, n_memory=2)(torch.zeros(1, 5, 7)), ValueError, r"d_model=8\) with .* got \(1, 5, 7\)"),
    "a longer sequence": (lambda *_: Linformer(8, 2, n=5, n_memory=2)(torch.zeros(1, 6, 8)), ValueError, r"n up to 5, got \(1, 6, 8\)"),
    "odd heads": (lambda *_: Linformer(8, 3, n=5, n_memory=2), ValueError, "d_model=8 and n_heads=3"),
    "no slot": (lambda *_: Linformer(8, 2, n=5, n_memory=0), ValueError, "n_memory must be 1 or more, got 0"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask(*heads())
