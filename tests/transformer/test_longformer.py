"""Longformer's attention against loops: whose projections meet where."""

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from tinyattn import MultiHeadAttention
from tinyattn.patterns import Global, Window, longformer
from tinyattn.transformer import LongformerAttention

from .. import reference
from ..close import assert_same
from .tiny import randn, scrambled


def layer(w=2, seed=0):
    return scrambled(LongformerAttention(8, n_heads=2, w=w), seed)


def by_loops(it, x, w, chosen, real):
    """Row by row: a global token asks with its own maps, others read everyone's ordinary keys."""
    weights, n = reference.as_numpy(it.state_dict()), len(x)

    def maps(kind):
        if kind == "ordinary":
            return [
                reference.linear(x, weights, f"local.{part}") for part in ("query", "key", "value")
            ]
        return [
            reference.linear(x, weights, f"{part}_global") for part in ("query", "key", "value")
        ]

    heads = np.zeros((n, 8))
    for i in range(n):
        q, k, v = maps("global" if i in chosen else "ordinary")
        allowed = [real[j] and (i in chosen or j in chosen or abs(i - j) <= w) for j in range(n)]
        for own in (slice(0, 4), slice(4, 8)):
            out, _ = reference.attend(q[i : i + 1, own], k[:, own], v[:, own], np.array([allowed]))
            heads[i, own] = out[0]
    return reference.linear(heads, weights, "local.out")


@pytest.mark.parametrize("n", [1, 2, 11])
@pytest.mark.parametrize("chosen", [(), (0,), (0, 1), (3, 10), (9, 0, 4), tuple(range(11))])
@pytest.mark.parametrize("w", [0, 2, 20])
def test_it_is_the_papers_attention(n, chosen, w):
    chosen = tuple(position for position in chosen if position < n)
    it, x = layer(w), randn(2, n, 8)
    real = torch.ones(2, n, dtype=torch.bool)
    if n == 11 and 9 not in chosen and 10 not in chosen:
        real[1, 8:] = False
    out = it(x, global_positions=chosen, key_padding=real)
    for b in range(2):
        expected = by_loops(it, x[b].numpy(), w, chosen, real[b].tolist())
        np.testing.assert_allclose(out[b].detach(), expected, atol=1e-10)


def test_global_maps_start_as_copies_and_then_it_is_attention_under_the_mask():
    it = LongformerAttention(8, n_heads=2, w=2).double()
    plain = MultiHeadAttention(8, 2).double()
    plain.load_state_dict(it.local.state_dict())
    for name in ("query", "key", "value"):
        theirs = getattr(it, f"{name}_global").weight
        assert torch.equal(theirs, getattr(it.local, name).weight)
        assert theirs is not getattr(it.local, name).weight
    x = randn(2, 90, 8)
    mask = longformer(2, (0, 40)).mask(90)
    assert_same(it(x, global_positions=(0, 40)), plain(x, mask=mask))


def test_without_global_tokens_it_is_a_window_and_global_maps_rest():
    it, x = layer(), randn(2, 90, 8).requires_grad_()
    out = it(x)
    assert_same(out, it.local(x, mask=Window(2).mask(90)))
    out.sum().backward()
    assert it.query_global.weight.grad is None


def test_with_all_tokens_global_it_is_dense_attention_by_the_global_maps():
    it, x = layer(), randn(2, 9, 8)
    plain = MultiHeadAttention(8, 2).double()
    plain.load_state_dict(it.local.state_dict())
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(plain, name).load_state_dict(getattr(it, f"{name}_global").state_dict())
    assert_same(it(x, global_positions=tuple(range(9))), plain(x))


def test_ordinary_rows_do_not_know_the_global_maps():
    it, x = layer(), randn(1, 9, 8)
    before = it(x, global_positions=(3,))
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(it, f"{name}_global").weight.mul_(-2)
    after = it(x, global_positions=(3,))
    rows = [at for at in range(9) if at != 3]
    assert torch.equal(after[:, rows], before[:, rows])
    assert not torch.allclose(after[:, 3], before[:, 3])


def test_who_reads_whom_is_the_mask():
    it = layer()
    blocks = jacobian(lambda x: it(x, global_positions=(3, 8)), randn(1, 12, 8))[0, :, :, 0]
    support = blocks.abs().sum((1, 3)) > 0
    assert torch.equal(support, (Window(2) | Global((3, 8))).mask(12))


def test_the_order_of_the_positions_does_not_matter():
    it, x = layer(), randn(1, 9, 8)
    assert torch.equal(it(x, global_positions=(5, 1)), it(x, global_positions=(1, 5)))


def test_padding_behind_a_sequence_changes_nothing():
    it, x = layer(), randn(1, 12, 8)
    real = (torch.arange(12) < 8)[None]
    padded = torch.where(real[..., None], x, 1e3)
    out = it(padded, global_positions=(0, 3), key_padding=real)[:, :8]
    assert_same(out, it(x[:, :8], global_positions=(0, 3)))


def test_gradients_pass_gradcheck_for_the_input_and_all_maps():
    it, x = scrambled(LongformerAttention(4, 2, w=1)), randn(1, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: it(x, global_positions=(1,)), x)
    it(x, global_positions=(1,)).pow(2).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in it.parameters() if p.dim() == 2)


X = torch.zeros(2, 5, 8)
REAL = torch.ones(2, 5, dtype=torch.bool)
LAST = torch.tensor([[True] * 5, [True] * 4 + [False]])
REFUSED = {
    "another width": ((X[..., :6],), {}, ValueError, r"x must be \(b, n, d_model=8\), got \(2, 5, 6\)"),
    "no batch": ((X[0],), {}, ValueError, r"d_model=8\), got \(5, 8\)"),
    "a position behind the end": (
        (X,), {"global_positions": (0, 5)}, ValueError, r"must be below n=5, got \(0, 5\)",
    ),
    "a position before the start": (
        (X,), {"global_positions": (-1,)}, ValueError, r"distinct, and 0 or more, got \(-1,\)",
    ),
    "a position twice": ((X,), {"global_positions": (1, 1)}, ValueError, r"distinct, .* got \(1, 1\)"),
    "half a position": ((X,), {"global_positions": (1.5,)}, TypeError, r"whole number, got 1\.5"),
    "a global token on padding": (
        (X,), {"global_positions": (0, 4), "key_padding": LAST}, ValueError,
        r"global tokens must be real, got padding among \(0, 4\)",
    ),
    "padding of another length": (
        (X,), {"global_positions": (4,), "key_padding": REAL[:, :4]}, ValueError,
        r"one entry for each token: \(b, n\) = \(2, 5\), got \(2, 4\)",
    ),
    "integer padding": ((X,), {"key_padding": REAL.long()}, TypeError, "bool .* got torch.int64"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        LongformerAttention(8, 2, w=1)(*args, **options)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("args", "error", "sentence"),
    [
        ((8, 2, -1), ValueError, "w must be 0 or more keys per side, got -1"),
        ((8, 2, 1.5), TypeError, r"w must be a whole number, got 1\.5"),
        ((8, 3, 1), ValueError, "d_model must be divisible by n_heads"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(args, error, sentence):
    with pytest.raises(error, match=sentence):
        LongformerAttention(*args)


@pytest.mark.parametrize("positions", [(1, 1), (-1,), (0, -2)])
def test_global_positions_are_refused_by_their_name(positions):
    with pytest.raises(ValueError, match="global_positions must be distinct, and 0 or more, got"):
        layer()(randn(1, 9, 8), global_positions=positions)
