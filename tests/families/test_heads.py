"""Heads that share keys, and heads that talk."""

import math

import pytest
import torch
import torch.nn.functional as F

from tinyattn import MultiHeadAttention, attention
from tinyattn.analysis import parameters
from tinyattn.families import (
    GroupedQueryAttention,
    grouped_attention,
    talking_heads_attention,
)
from tinyattn.patterns import Causal, Window

from ..close import assert_same
from .heads_of import by_loops, gradients, heads, softmax_weight


@pytest.mark.parametrize("h_kv", [1, 2, 3, 6])
@pytest.mark.parametrize(("n", "n_k"), [(1, 1), (5, 5), (3, 7)])
def test_a_group_reads_one_head_of_keys_and_values(h_kv, n, n_k):
    q = heads(h=6, n=n, n_k=n_k)[0]
    _, k, v = heads(h=h_kv, n=n, n_k=n_k, seed=1)
    found = grouped_attention(q, k, v)
    repeated = [x[:, [head * h_kv // 6 for head in range(6)]] for x in (k, v)]
    expected = by_loops(softmax_weight(q, repeated[0]), repeated[1], n)
    assert_same(found, expected)
    assert_same(found, F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    for ours, theirs in zip(
        gradients(found, (q, k, v)), gradients(expected, (q, k, v)), strict=True
    ):
        assert_same(ours, theirs)


def test_as_many_heads_as_queries_are_plain_attention():
    q, k, v = heads(h=4)
    assert_same(grouped_attention(q, k, v), attention(q, k, v))


def test_masks_are_for_all_heads_or_for_each():
    q = heads(h=4)[0]
    _, k, v = heads(h=2, seed=1)
    repeated = [x.repeat_interleave(2, dim=1) for x in (k, v)]
    for mask in (
        Causal().mask(9),
        torch.stack([Window(w).mask(9) for w in range(4)])[None],
        (torch.arange(9) < torch.tensor([[9], [6]]))[:, None, None, :],
    ):
        assert_same(grouped_attention(q, k, v, mask), attention(q, *repeated, mask))


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_a_layer_is_multi_head_attention_with_tied_heads(n_kv_heads):
    ours = GroupedQueryAttention(8, 4, n_kv_heads).double()
    theirs = MultiHeadAttention(8, 4).double()
    state = ours.state_dict()
    for name in ("key", "value"):
        for kind in ("weight", "bias"):
            rows = state[f"{name}.{kind}"].unflatten(0, (n_kv_heads, 2))
            rows = rows.repeat_interleave(4 // n_kv_heads, dim=0).flatten(0, 1)
            state[f"{name}.{kind}"] = rows
    theirs.load_state_dict(state)
    x = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_same(ours(x), theirs(x))
    mask = Causal().mask(7)
    assert_same(ours(x, mask=mask), theirs(x, mask=mask))
    width = 2 * n_kv_heads
    assert parameters(ours) == 2 * (8 * 8 + 8) + 2 * (8 * width + width)


@pytest.mark.parametrize("filling", [1e300, math.nan, math.inf])
@pytest.mark.parametrize("masked", [False, True])
def test_a_padded_layer_answers_as_for_each_sequence_by_itself(masked, filling):
    it = GroupedQueryAttention(8, 4, 2).double()
    x = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = Causal().mask(7) if masked else None
    real = torch.arange(7) < torch.tensor([[7], [4]])
    filled = x.masked_fill(~real[..., None], filling).requires_grad_()
    out = it(filled, mask=mask, key_padding=real)
    short = it(x[1:, :4], mask=None if mask is None else mask[:4, :4])
    assert_same(out[1:, :4], short)
    assert_same(out[0], it(x, mask=mask)[0])
    (slope,) = torch.autograd.grad(out[real].sum(), filled)
    assert bool((slope[~real] == 0).all())
    assert bool(slope.isfinite().all())


def test_a_mask_for_each_head_meets_a_padding():
    it = GroupedQueryAttention(8, 4, 2).double()
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = torch.stack([Window(w).mask(5) for w in range(4)])[None]
    real = torch.arange(5) < torch.tensor([[5], [3]])
    found = it(x, mask=mask, key_padding=real)
    assert_same(found[1:, :3], it(x[1:, :3], mask=mask[..., :3, :3]))


def test_silent_heads_are_plain_attention():
    q, k, v = heads(h=3)
    one = torch.eye(3).double()
    assert_same(talking_heads_attention(q, k, v, one, one), attention(q, k, v))
    order = torch.tensor([2, 0, 1])
    there, back = one[:, order], one[order]
    assert_same(talking_heads_attention(q, k, v, there, back), attention(q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_heads_talk_before_and_after_the_softmax(causal):
    (q, k, _), v = heads(h=2), heads(h=4, seed=1)[2]
    generator = torch.Generator().manual_seed(2)
    mix_scores = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    mix_weights = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    mask = Causal().mask(9) if causal else None
    found = talking_heads_attention(q, k, v, mix_scores, mix_weights, mask)
    scores = [q[:, m] @ k[:, m].transpose(1, 2) / math.sqrt(4) for m in range(2)]
    weights = []
    for h in range(3):
        mixed = sum(mix_scores[m, h] * scores[m] for m in range(2)).exp()
        mixed = mixed.tril() if causal else mixed
        weights.append(mixed / mixed.sum(dim=-1, keepdim=True))
    expected = torch.stack(
        [sum(mix_weights[h, m] * weights[h] for h in range(3)) @ v[:, m] for m in range(4)], dim=1
    )
    assert_same(found, expected)
    for ours, theirs in zip(
        gradients(found, (q, k, v)), gradients(expected, (q, k, v)), strict=True
    ):
        assert_same(ours, theirs)


def test_a_forbidden_key_stays_forbidden_when_heads_talk():
    q, k, v = (x.detach().clone() for x in heads(h=2))
    mix = torch.tensor([[1.0, -1.0], [0.0, 2.0]]).double()
    mask = Causal().mask(9).clone()
    mask[4] = False
    before = talking_heads_attention(q, k, v, mix, mix, mask)
    k[:, :, 7:], v[:, :, 7:] = 50.0, -50.0
    after = talking_heads_attention(q, k, v, mix, mix, mask)
    assert_same(before[:, :, :7], after[:, :, :7])
    assert (after[:, :, 4] == 0).all()
    assert after.isfinite().all()


def test_talking_heads_do_not_overflow_where_attention_does_not():
    q = torch.full(
        (1, 2, 3, 64), 40.0, dtype=torch.float16
    )  # q · k is 102,400, float16 ends at 65,504
    v, one = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0)), torch.eye(2)
    found = talking_heads_attention(q, q, v.half(), one.half(), one.half())
    assert_same(found, attention(q, q, v.half()), rtol=1e-3, atol=1e-3)


Q, K2, ONE = torch.zeros(1, 4, 5, 3), torch.zeros(1, 2, 5, 3), torch.eye(4)
REFUSED = {
    "groups that do not come out": (lambda: grouped_attention(Q, torch.zeros(1, 3, 5, 3), torch.zeros(1, 3, 5, 3)), ValueError, "a divisor of h"),
    "no keys to share": (lambda: grouped_attention(Q, Q[:, :0], Q[:, :0]), ValueError, "a divisor of h"),
    "values of other heads": (lambda: grouped_attention(Q, K2, Q), ValueError, "share b and h"),
    "a layer of such groups": (lambda: GroupedQueryAttention(8, 4, 3), ValueError, "n_heads=4, n_kv_heads=3"),
    "a layer of other width": (lambda: GroupedQueryAttention(8, 4, 2)(torch.zeros(1, 5, 7)), ValueError, r"d_model=8\), got \(1, 5, 7\)"),
    "mixtures of other heads": (lambda: talking_heads_attention(Q, Q, Q, torch.eye(2), ONE), ValueError, r"\(h_k=4, h\)"),
    "mixtures of one axis": (lambda: talking_heads_attention(Q, Q, Q, torch.ones(4), ONE), ValueError, r"got \(4,\) and \(4, 4\)"),
    "mixtures that do not meet": (lambda: talking_heads_attention(Q, Q, Q, torch.zeros(4, 3), ONE), ValueError, r"got \(4, 3\) and \(4, 4\)"),
    "mixtures of too many heads": (lambda: talking_heads_attention(Q, Q, Q, torch.zeros(5, 4), ONE), ValueError, r"got \(5, 4\) and \(4, 4\)"),
    "mixtures for fewer values": (lambda: talking_heads_attention(Q, Q, Q, ONE, torch.zeros(4, 3)), ValueError, r"got \(4, 4\) and \(4, 3\)"),
    "queries of three axes": (lambda: grouped_attention(Q[0], torch.zeros(1, 5, 5, 3), torch.zeros(1, 5, 5, 3)), ValueError, r"a divisor of h, got q \(4, 5, 3\)"),
    "keys of three axes": (lambda: grouped_attention(torch.zeros(1, 5, 5, 3), Q[0], Q[0]), ValueError, r"and k \(4, 5, 3\)"),
    "values of other keys": (lambda: talking_heads_attention(Q, Q, Q[:, :, 1:], ONE, ONE), ValueError, "share b and n_k"),
    "a mask of no heads": (lambda: masked(2, 5, 5), ValueError, r"mask must be \(n_q, n_k\) or .* got \(2, 5, 5\)"),
    "a mask of five axes": (lambda: masked(1, 2, 2, 5, 5), ValueError, r"mask must be \(n_q, n_k\) or .* got \(1, 2, 2, 5, 5\)"),
    "a mask of the heads of keys": (lambda: masked(1, 2, 5, 5), ValueError, r"\(1, 4, 5, 5\), got \(1, 2, 5, 5\)"),
    "a mask of too few heads": (lambda: masked(1, 3, 5, 5), ValueError, r"\(1, 4, 5, 5\), got \(1, 3, 5, 5\)"),
    "a mask of other sequences": (lambda: masked(2, 4, 5, 5), ValueError, r"\(1, 4, 5, 5\), got \(2, 4, 5, 5\)"),
    "a mask of other keys": (lambda: masked(5, 4), ValueError, r"\(1, 4, 5, 5\), got \(5, 4\)"),
    "a mask of numbers": (lambda: grouped_attention(Q, K2, K2, torch.ones(5, 5)), TypeError, "mask must be bool .* got torch.float32"),
    "a padding of other tokens": (lambda: padded(torch.ones(2, 4).bool()), ValueError, r"each token: \(b, n\) = \(2, 5\), got \(2, 4\)"),
    "a padding of numbers": (lambda: padded(torch.ones(2, 5)), TypeError, "key_padding must be bool .* got torch.float32"),
    "a padding and a mask of three axes": (lambda: padded(torch.ones(2, 5).bool(), mask=torch.ones(2, 5, 5).bool()), ValueError, "needs a head axis of 1"),
    "a mask of a layer": (lambda: GroupedQueryAttention(8, 4, 2)(torch.zeros(2, 5, 8), mask=torch.ones(2, 5, 5).bool()), ValueError, "needs a head axis of 1"),
    "values of another dtype": (lambda: talking_heads_attention(Q, Q, Q.double(), ONE, ONE), TypeError, "must share one float dtype, got torch.float32, torch.float64"),
    "mixtures of another dtype": (lambda: talking_heads_attention(Q, Q, Q, ONE, ONE.half()), TypeError, "mix_scores and mix_weights must share one float dtype"),
}  # fmt: skip


def masked(*shape):
    return grouped_attention(Q, K2, K2, torch.ones(shape, dtype=torch.bool))


def padded(key_padding, mask=None):
    x = torch.zeros(2, 5, 8)
    return GroupedQueryAttention(8, 4, 2)(x, mask=mask, key_padding=key_padding)


@pytest.mark.parametrize("b", [1, 2, 4])
def test_a_mask_for_each_sequence_falls_on_that_sequence(b):
    q, k, v = (x.detach() for x in heads(b=b, h=4))
    mask = torch.stack([Window(w).mask(9) for w in range(b)])[:, None]
    found = grouped_attention(q, k[:, :2], v[:, :2], mask)
    for at in range(b):
        one = slice(at, at + 1)
        assert_same(found[one], grouped_attention(q[one], k[one, :2], v[one, :2], mask[at, 0]))


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask()


def test_a_mask_of_three_axes_could_be_meant_for_sequences():
    """Two sequences and two heads: it would silently fall on the heads."""
    q, k, v = torch.randn(3, 2, 2, 3, 4)
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="a mask for each sequence needs a head axis of 1"):
        talking_heads_attention(q, k, v, torch.eye(2), torch.eye(2), mask)


def test_queries_that_do_not_fit_are_refused_by_the_shape_in_which_they_came(refusals):
    q, k, v = torch.randn(1, 8, 5, 4), torch.randn(1, 2, 5, 3), torch.randn(1, 2, 5, 3)
    with pytest.raises(ValueError, match=r"share b and d_head, got q \(1, 8, 5, 4\)"):
        grouped_attention(q, k, v)
