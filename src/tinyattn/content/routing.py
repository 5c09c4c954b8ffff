"""Routing attention: queries and keys meet where they belong to the same k-means cluster."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.content.clusters import Clusters, Members, attend_in_clusters
from tinyattn.content.membership import check_centroids, chosen, nearest
from tinyattn.dense import attention_weights
from tinyattn.engine import check_qkv
from tinyattn.padding import real_only

MEMBERSHIPS = ("argmax", "balanced")


def routing_attention(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    centroids: Float[Tensor, "h n_clusters d_head"],
    *,
    membership: str = "argmax",
    causal: bool = False,
    cluster_size: int | None = None,
    key_padding: Bool[Tensor, "b n"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Attention of each query to the keys of its cluster.

        argmax:    P_i = {j : μ(q_i) = μ(k_j)},  μ(x) = the centroid at the smallest angle to x
        balanced:  each centroid takes the queries, and the keys, at the smallest angles to it,
                   cluster_size of each

    With "argmax" a token is in one cluster and clusters have any size: the cost is the sum of
    their n_queries * n_keys, n² / n_clusters if they are equal. With "balanced" they are equal,
    and a query in several gets the average of what they answer, in none zeros. To find clusters
    costs n * n_clusters products more; both are least together with about √n clusters.

    A causal query reads no later key. That is enough with "argmax", where a token's cluster
    depends on that token alone. With "balanced" it is not: a later token can take an earlier
    one's place in a cluster, and so change what was said before it. Only lengths of centroids do
    not matter; a token that is not real is neither chosen nor answered.

    Args:
        q: queries.
        k: keys, as many.
        v: values.
        centroids: directions of the clusters of each head.
        membership: "argmax" or "balanced".
        causal: whether a query reads no later key.
        cluster_size: tokens in a balanced cluster; n / n_clusters, rounded up, if not given.
        key_padding: True where a token is real.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.

    Raises:
        ValueError: if shapes do not fit, or membership is another one.
        TypeError: if the tensors do not share a float dtype.
        NotImplementedError: for second derivatives.

    Source:
        Roy et al. 2021, "Efficient Content-Based Sparse Attention with Routing Transformers"
        (arXiv:2003.05997), which is "balanced"; Lin et al. 2022, equation 11, which is "argmax".
        There q and k are put on a sphere by LayerNorm before all else; here by their length,
        and to find clusters only.

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 50, 4)
        >>> routing_attention(q, k, v, torch.randn(2, 7, 4), causal=True).shape
        torch.Size([1, 2, 50, 4])
    """
    scale = check_qkv(q, k, v, key_padding, scale)
    cluster_size = check_routing(q, k, centroids, membership, cluster_size)
    q, k, v = (real_only(x, key_padding) for x in (q, k, v))
    if v.numel() == 0:
        return v * (q.sum() + k.sum())
    n, n_clusters = q.shape[2], centroids.shape[1]
    if membership == "argmax":
        members = [Members.sort(nearest(x, centroids).flatten(0, 1), n_clusters) for x in (q, k)]
    else:
        size = balanced_size(n, n_clusters, cluster_size)
        row = torch.arange(q.shape[0] * q.shape[1], device=q.device)[:, None, None] * n
        found = (chosen(x, centroids, size, key_padding=key_padding) for x in (q, k))
        members = [Members.equal(tokens.flatten(0, 1) + row) for tokens in found]
    real = torch.ones(q.shape[:3], dtype=torch.bool, device=q.device)
    if key_padding is not None:
        real = key_padding[:, None].expand(real.shape)
    clusters = Clusters(*members, real.flatten(), n, causal)
    wide = torch.promote_types(q.dtype, torch.float32)
    flat = (x.flatten(0, 2).to(wide) for x in (q, k, v))  # (b * h * n, d)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return attend_in_clusters(*flat, clusters, scale).to(v.dtype).view(v.shape)


def routing_weights(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    centroids: Float[Tensor, "h n_clusters d_head"],
    *,
    membership: str = "argmax",
    causal: bool = False,
    cluster_size: int | None = None,
    key_padding: Bool[Tensor, "b n"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n n"]:
    """All n² weights by which `routing_attention` multiplies the values.

    Costs O(n_clusters * n²): for pictures and tests. Arguments are those of `routing_attention`.

    Example:
        >>> q, k = torch.eye(3).repeat(2, 1, 1, 1, 1)
        >>> routing_weights(q, k, torch.eye(3)[None], causal=True)[0, 0].diag()
        tensor([1., 1., 1.])
    """
    cluster_size = check_routing(q, k, centroids, membership, cluster_size)
    check_qkv(q, k, k, key_padding, scale)
    n, n_clusters = q.shape[2], centroids.shape[1]
    total, n_answers = q.new_zeros(*q.shape[:3], n), q.new_zeros(*q.shape[:3], 1)
    size = balanced_size(n, n_clusters, cluster_size)
    in_clusters = []
    for x in (q, k):
        if membership == "argmax":
            tokens = nearest(x, centroids)[:, :, None] == torch.arange(n_clusters)[:, None]
        else:
            taken = chosen(x, centroids, size, key_padding=key_padding)
            tokens = torch.zeros(*taken.shape[:3], n, dtype=torch.bool).scatter_(3, taken, True)
        if key_padding is not None:
            tokens = tokens & key_padding[:, None, None]
        in_clusters.append(tokens)  # (b, h, n_clusters, n)
    for asks, is_read in zip(*(tokens.unbind(dim=2) for tokens in in_clusters), strict=True):
        mask = asks[..., :, None] & is_read[..., None, :]
        if causal:
            mask = mask.tril()
        total = total + attention_weights(q, k, mask, scale=scale)
        n_answers += mask.any(dim=-1, keepdim=True)
    return total / n_answers.clamp(min=1)


def balanced_size(n: int, n_clusters: int, cluster_size: int | None) -> int:
    """Tokens in a balanced cluster: as many as given, but no more than there are."""
    return min(n, math.ceil(n / n_clusters) if cluster_size is None else cluster_size)


def check_routing(
    q: Tensor, k: Tensor, centroids: Tensor, membership: str, cluster_size: int | None
) -> int | None:
    """The size of a cluster as Python's integer, where everything fits."""
    if q.dim() != 4 or q.shape != k.shape:
        raise ValueError(
            "routing is self-attention: q and k must have one shape (b, h, n, d_head), "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    check_centroids(q, centroids)
    return check_membership(membership, cluster_size)


def check_membership(membership: str, cluster_size: int | None) -> int | None:
    if membership not in MEMBERSHIPS:
        raise ValueError(f"membership must be 'argmax' or 'balanced', got {membership!r}")
    if cluster_size is not None:
        (cluster_size,) = whole_numbers(cluster_size=cluster_size)
        if cluster_size < 1:
            raise ValueError(f"cluster_size must be 1 token or more, got {cluster_size}")
        if membership == "argmax":
            raise ValueError(
                "with membership='argmax' clusters have the size they have, "
                f"got cluster_size={cluster_size}; membership='balanced' takes one"
            )
    return cluster_size
