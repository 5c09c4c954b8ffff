"""Priors: adding a logarithm is multiplying by a density and sharing out anew."""

import math

import pytest
import torch

from tinyattn import attention, attention_weights
from tinyattn.families import gaussian_prior, prior_attention
from tinyattn.patterns import Causal

from ..close import assert_same
from .heads_of import by_loops, gradients, heads, softmax_weight


@pytest.mark.parametrize(("n", "n_k"), [(0, 0), (1, 1), (5, 5), (3, 8)])
@pytest.mark.parametrize(("spread", "offset"), [(1.0, 0.0), (0.5, -1.0), (3.0, 2.5)])
def test_the_prior_is_its_formula(n, n_k, spread, offset):
    found = gaussian_prior(n, n_k, spread=spread, offset=offset)
    assert found.shape == (n, n_k)
    for row in range(n):
        for j in range(n_k):
            away = j - (row + n_k - n) - offset
            assert found[row, j] == pytest.approx(-(away**2) / (2 * spread**2))


@pytest.mark.parametrize("spread", [5e-324, 1e-200, 1e-23, 1e-10, 1e10, 1e23, 1e200, 1.7e308])
@pytest.mark.parametrize("offset", [0.0, -1.0, 2.0])
def test_any_spread_that_a_float_can_be_gives_a_curve(spread, offset):
    found = gaussian_prior(5, spread=spread, offset=offset)
    assert found.dtype == torch.float32
    for i in range(5):
        for j in range(5):
            quotient = (j - i - offset) / spread if spread > 1e-300 or j - i == offset else math.inf
            expected = -quotient * quotient / 2
            assert found[i, j] == pytest.approx(expected if abs(expected) < 3e38 else -math.inf)
    assert (found.diagonal(int(offset)) == 0).all()


def test_beside_scores_a_prior_multiplies_the_weights_and_shares_them_out_anew():
    q, k, v = heads()
    prior = gaussian_prior(9, spread=1.5).double()
    weights = attention_weights(q, k) * prior.exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    found = attention(q, k, v, bias=prior)
    assert_same(found, weights @ v)
    expected = by_loops(softmax_weight(q, k, lambda i, j: float(prior[i, j])), v, 9)
    for ours, theirs in zip(
        gradients(found, (q, k, v)), gradients(expected, (q, k, v)), strict=True
    ):
        assert_same(ours, theirs)


def test_a_prior_without_an_opinion_changes_nothing():
    q, k, v = heads()
    flat = gaussian_prior(9, spread=math.inf).double()
    assert_same(attention(q, k, v, bias=flat), attention(q, k, v))
    assert_same(prior_attention(v, flat), v.mean(dim=2, keepdim=True).expand_as(v))


@pytest.mark.parametrize("causal", [False, True])
def test_a_prior_alone_weighs_by_position_only(causal):
    _, _, v = heads()
    priors = torch.stack([gaussian_prior(9, spread=1.0, offset=o) for o in (-1.0, 1.0)]).double()
    mask = Causal().mask(9) if causal else None
    found = prior_attention(v, priors, mask)

    def weight(b, h, i, j):
        density = math.exp(-((j - i - (-1, 1)[h]) ** 2) / 2)
        return torch.tensor(density * (j <= i or not causal), dtype=torch.float64)

    assert_same(found, by_loops(weight, v, 9))
    (jacobian,) = gradients(found, (v,))
    assert jacobian.isfinite().all()


def test_zeros_under_a_causal_mask_are_the_running_mean():
    _, _, v = heads()
    counts = torch.arange(1, 10)[:, None]
    expected = v.cumsum(dim=2) / counts
    assert_same(prior_attention(v, torch.zeros(9, 9), Causal().mask(9)), expected)


def test_a_narrow_prior_copies_the_token_it_points_at():
    _, _, v = heads()
    copied = prior_attention(v, gaussian_prior(9, spread=0.05, offset=-1.0))
    assert_same(copied[:, :, 1:], v[:, :, :-1])
    assert_same(copied[:, :, :1], v[:, :, :1])  # nobody stands before the first


def test_a_query_that_may_read_nothing_gets_zeros():
    _, _, v = heads()
    mask = torch.ones(9, 9, dtype=torch.bool)
    mask[3] = False
    out = prior_attention(v, torch.zeros(9, 9), mask)
    assert (out[:, :, 3] == 0).all()
    assert gradients(out, (v,))[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_close(dtype):
    _, _, v = heads()
    prior = gaussian_prior(9, spread=1.0)
    found = prior_attention(v.to(dtype), prior)
    assert found.dtype == dtype
    assert_same(found.double(), prior_attention(v, prior.double()), rtol=2e-2, atol=2e-2)


V = torch.zeros(1, 2, 5, 3)
REFUSED = {
    "no spread": (lambda: gaussian_prior(3, spread=0.0), ValueError, r"above 0 and offset finite, got spread=0\.0"),
    "an unknown middle": (lambda: gaussian_prior(3, spread=1.0, offset=math.nan), ValueError, "offset=nan"),
    "fewer keys": (lambda: gaussian_prior(3, 2, spread=1.0), ValueError, "n=3, n_k=2"),
    "half a token": (lambda: gaussian_prior(2.5, spread=1.0), TypeError, r"whole number, got 2\.5"),
    "other keys": (lambda: prior_attention(V, torch.zeros(5, 4)), ValueError, r"prior \(5, 4\)"),
    "other heads": (lambda: prior_attention(V, torch.zeros(3, 5, 5)), ValueError, "as many as v has"),
    "one head as wide as there are keys": (lambda: prior_attention(V[0], torch.zeros(5, 3)), ValueError, r"v \(2, 5, 3\)"),
    "one head alone": (lambda: prior_attention(V[0], torch.zeros(5, 5)), ValueError, r"v \(2, 5, 3\)"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask()


def test_a_mask_of_three_axes_could_be_meant_for_sequences():
    """Two sequences and two heads: it would silently fall on the heads."""
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="a mask for each sequence needs a head axis of 1"):
        prior_attention(torch.randn(2, 2, 3, 4), torch.zeros(3, 3), mask)
