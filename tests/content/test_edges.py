"""Attention over a list of edges equals dense attention under their mask."""

import pytest
import torch

from tinyattn import attention, sparse_attention
from tinyattn.content import Edges, edge_attention
from tinyattn.patterns import Painted

from ..close import assert_same
from ..transformer.tiny import randn, seeded


def inputs(n, *, b=2, h=3, d=4, d_v=5, dtype=torch.float64):
    widths = (d, d, d_v)
    made = [randn(b, h, n, width, seed=seed).to(dtype) for seed, width in enumerate(widths)]
    return [x.requires_grad_() for x in made]


def edges_of(mask, seed=0):
    """The pairs of a mask (b, g, n, n) in random order, filled up with entries that are none."""
    b, g = mask.shape[:2]
    most = int(mask.sum(dim=(2, 3)).max()) + 2
    queries, keys = torch.zeros(2, b, g, most, dtype=torch.long).unbind()
    valid = torch.zeros(b, g, most, dtype=torch.bool)
    for at in ((i, j) for i in range(b) for j in range(g)):
        pairs = mask[at].nonzero()
        places = torch.randperm(most, generator=seeded(seed))[: len(pairs)]
        queries[at][places], keys[at][places], valid[at][places] = *pairs.T, True
    return Edges(queries, keys, valid)


def scattered(*shape, share=0.3, seed=0):
    return torch.rand(*shape, generator=seeded(seed)) < share


def gradients(out, at):
    weights = randn(*out.shape, seed=9).to(out.dtype)
    return torch.autograd.grad((out * weights).sum(), at)


@pytest.mark.parametrize("n", [1, 2, 9, 17])
@pytest.mark.parametrize("g", [1, 3])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_it_equals_dense_attention_in_outputs_and_gradients(n, g, share):
    q, k, v = inputs(n)
    mask = scattered(2, g, n, n, share=share)
    edges = edges_of(mask)
    assert torch.equal(edges.mask(n), mask)
    out, expected = edge_attention(q, k, v, edges, scale=0.7), attention(q, k, v, mask, scale=0.7)
    assert_same(out, expected)
    for ours, theirs in zip(gradients(out, (q, k, v)), gradients(expected, (q, k, v)), strict=True):
        assert_same(ours, theirs)


def test_it_equals_the_engine_on_the_same_pairs():
    q, k, v = inputs(33, b=1)
    mask = scattered(33, 33)
    out = edge_attention(q, k, v, edges_of(mask[None, None]))
    assert_same(out, sparse_attention(q, k, v, Painted(mask)))


def test_scores_of_any_size_stay_finite():
    q, k, v = inputs(5)
    out = edge_attention(q, 1000 * k, v, edges_of(scattered(2, 1, 5, 5)))
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in gradients(out, (q, k, v)))


def test_a_query_without_edges_outputs_zeros():
    q, k, v = inputs(4)
    none = torch.zeros(2, 1, 0, dtype=torch.long)
    out = edge_attention(q, k, v, Edges(none, none, none.bool()))
    assert (out == 0).all()
    assert all((g == 0).all() for g in gradients(out, (q, k, v)))
    q, k, v = inputs(0)
    assert edge_attention(q, k, v, Edges(none, none, none.bool())).shape == (2, 3, 0, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_half_precision_is_close_and_comes_back_as_it_went(dtype):
    exact, rough = inputs(9), inputs(9, dtype=dtype)
    edges = edges_of(scattered(2, 1, 9, 9))
    out = edge_attention(*rough, edges)
    assert out.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    assert_same(out.double(), edge_attention(*exact, edges), rtol=0.02, atol=tolerance)


def test_own_edges_are_those_of_real_tokens():
    real = torch.tensor([[True, True, False]])
    none = torch.zeros(1, 2, 0, dtype=torch.long)
    own = Edges(none, none, none.bool()).with_own(real)
    assert torch.equal(own.mask(3), torch.diag(real[0]).expand(1, 2, 3, 3))


def test_what_does_not_fit_is_refused(refusals):
    q, k, v = inputs(4)
    at = torch.zeros(2, 1, 2, dtype=torch.long)
    every = torch.ones(2, 1, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match="a pair stands twice among the edges"):
        edge_attention(q, k, v, Edges(at, at, every))
    for far in (4, -1):
        with pytest.raises(ValueError, match="must join positions 0 … 3"):
            edge_attention(q, k, v, Edges(at + far, at, every))
    two = Edges(*(x.expand(2, 2, 2) for x in (at, at, every)))
    with pytest.raises(ValueError, match=r"\(b, 1 or h, n_edges\) with b=2, h=3, got \(2, 2, 2\)"):
        edge_attention(q, k, v, two)


def test_edges_that_do_not_fit_are_refused(refusals):
    pair = torch.zeros(1, 1, 2, dtype=torch.long)
    there = torch.ones(1, 1, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match="must have one shape"):
        Edges(pair, pair[..., :1], there)
    with pytest.raises(ValueError, match="must have one shape"):
        Edges(pair[0], pair[0], there[0])
    with pytest.raises(TypeError, match="queries and keys must be int64 and valid bool"):
        Edges(pair, pair, there.long())
    with pytest.raises(ValueError, match=r"positions 0 … 2, got keys beyond"):
        Edges(pair, pair + 3, there).mask(3)
    q, k, v = torch.randn(3, 1, 1, 4, 2)
    edges = Edges(pair[..., :1], pair[..., :1], there[..., :1])
    with pytest.raises(ValueError, match="q and k must have one n, got 4 and 3"):
        edge_attention(q, k[:, :, :3], v[:, :, :3], edges)


@pytest.mark.parametrize("b", [1, 3])
def test_edges_of_another_number_of_sequences_are_refused(b, refusals):
    q, k, v = torch.randn(3, 2, 1, 4, 2)
    pair = torch.zeros(b, 1, 1, dtype=torch.long)
    with pytest.raises(ValueError, match=r"edges must be \(b, 1 or h, n_edges\) with b=2, h=1"):
        edge_attention(q, k, v, Edges(pair, pair, pair == 0))
