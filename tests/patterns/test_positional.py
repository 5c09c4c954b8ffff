"""Rules of position against loops, counts, autograd and torch's own causal bias."""

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right

from tinyattn import attention
from tinyattn.patterns import Causal, Full

from .. import reference
from ..close import assert_same


@pytest.mark.parametrize("n_q", [0, 1, 3, 8])
@pytest.mark.parametrize("more", [0, 1, 5])
def test_causal_matches_the_definition_at_the_bottom_right(n_q, more):
    expected = torch.from_numpy(reference.causal(n_q, n_q + more))
    assert torch.equal(Causal().mask(n_q, n_q + more), expected)


def test_a_single_query_reads_every_key_up_to_the_last():
    assert Causal().mask(1, 6).all()


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 4), (3, 4), (4, 4)])
def test_causal_equals_torchs_lower_right_bias(n_q, n_k):
    q, k, v = (
        torch.randn(1, 1, n, 2, generator=torch.Generator().manual_seed(n)) for n in (n_q, n_k, n_k)
    )
    sdpa = torch.nn.functional.scaled_dot_product_attention
    expected = sdpa(q, k, v, attn_mask=causal_lower_right(n_q, n_k))
    assert_same(attention(q, k, v, Causal().mask(n_q, n_k)), expected, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_full_allows_every_pair_and_causal_the_triangle(n):
    assert Full().mask(n).all()
    assert Full().edges(n) == n * n
    assert Causal().edges(n) == n * (n + 1) // 2 == int(Causal().mask(n).sum())


@pytest.mark.parametrize("pattern", [Full(), Causal()])
def test_a_query_reads_exactly_the_allowed_values(pattern):
    q, k, v = torch.randn(3, 1, 1, 9, 4, generator=torch.Generator().manual_seed(0))
    jacobian = torch.autograd.functional.jacobian(
        lambda v: attention(q, k, v, pattern.mask(9)).sum(dim=(0, 1, 3)), v
    )  # (n_q, b, h, n_k, d_v)
    assert torch.equal(jacobian.abs().sum(dim=(1, 2, 4)) > 0, pattern.mask(9))
