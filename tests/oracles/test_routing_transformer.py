"""Balanced routing attention against routing-transformer, with its centroids."""

import pytest
import torch

from tinyattn.content import nearest, routing_attention

from ..close import assert_same

library = pytest.importorskip(
    "routing_transformer.routing_transformer",
    reason="routing-transformer is in requirements-oracles.txt",
)

N = 60


@pytest.mark.parametrize(("n_clusters", "size"), [(6, 10), (4, 25), (5, 60)])
def test_clusters_of_one_size_answer_as_there(n_clusters, size):
    rng = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 3, N, 8, generator=rng, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    )
    layer = library.KmeansAttention(n_clusters, size, 3, 8, causal=False).double().eval()
    layer.kmeans.means.copy_(torch.randn(3, n_clusters, 8, generator=rng))
    layer.kmeans.initted.fill_(True)
    theirs, _ = layer(q, k, v)
    centroids = layer.kmeans.means
    ours = routing_attention(q, k, v, centroids, membership="balanced", cluster_size=size)
    # there the number of answers is larger by 1e-5
    assert_same(ours, theirs, rtol=1.1e-5, atol=1e-9)
    weights = torch.randn(2, 3, N, 8, generator=rng, dtype=torch.float64)
    mine, other = (torch.autograd.grad((x * weights).sum(), (q, k, v)) for x in (ours, theirs))
    for one, two in zip(mine, other, strict=True):
        assert_same(one, two, rtol=1e-4, atol=1e-4)


def test_the_nearest_centroid_is_the_one_that_it_finds():
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, N, 8, generator=rng, dtype=torch.float64)
    means = torch.nn.functional.normalize(torch.randn(3, 7, 8, generator=rng), dim=-1).double()
    _, theirs = library.dists_and_buckets(x, means)
    assert torch.equal(nearest(x, means), theirs)
