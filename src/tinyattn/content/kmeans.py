"""The router behind routing attention: k-means whose centroids follow the tokens in training."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import whole_numbers, whole_seed
from tinyattn.content.membership import nearest
from tinyattn.content.router import Router
from tinyattn.content.routing import (
    check_membership,
    check_routing,
    routing_attention,
    routing_weights,
)
from tinyattn.engine import check_qkv
from tinyattn.padding import real_only


class RoutingRouter(Router):
    """Routing attention in place of a pattern, with centroids that are learned by `update`.

    For each centroid it keeps a running sum of its members, queries and keys at unit length, and
    a running count of them:

        sum   <- decay * sum   + (1 - decay) * Σ members
        count <- decay * count + (1 - decay) * n_members
        centroid = sum / count,  for those that have members; the others stay

    so that with decay = 0 a centroid is the mean of its members. Members are those nearest to
    it, whatever the membership of the attention is. No gradient reaches centroids.

    Args:
        n_heads: heads, each with centroids of its own.
        n_clusters: centroids; about √n cost least.
        d_head: width of a head.
        membership: "argmax" or "balanced", as for `routing_attention`.
        causal: whether a query reads no later key. A decoder takes "argmax" only: with "balanced"
            later tokens decide with whom earlier ones meet.
        cluster_size: tokens in a balanced cluster; n / n_clusters, rounded up, if not given.
        decay: how much of its memory a centroid keeps in an update.
        seed: of the directions that centroids begin with, and of `initialise`.

    Raises:
        ValueError: if a size is below 1, decay not in [0, 1), or membership another one.
        TypeError: if a size is no whole number.

    Source:
        Roy et al. 2021, section 4 (arXiv:2003.05997); Lin et al. 2022, equations 8 to 10. Roy et
        al. move centroids by half of each sum and keep no count.

    Example:
        >>> router = RoutingRouter(n_heads=2, n_clusters=3, d_head=4, decay=0.5)
        >>> q, k = torch.randn(2, 1, 2, 50, 4)
        >>> router.initialise(q, k)
        >>> router.update(q, k)
        >>> router.counts.sum(dim=1)
        tensor([100., 100.])
    """

    def __init__(
        self,
        n_heads: int,
        n_clusters: int,
        d_head: int,
        *,
        membership: str = "argmax",
        causal: bool = False,
        cluster_size: int | None = None,
        decay: float = 0.999,
        seed: int = 0,
    ) -> None:
        super().__init__()
        sizes = {"n_heads": n_heads, "n_clusters": n_clusters, "d_head": d_head}
        n_heads, n_clusters, d_head = whole_numbers(**sizes)
        seed = whole_seed(seed)
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be 1 or more, got {size}")
        cluster_size = check_membership(membership, cluster_size)
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1), got {decay}")
        self.membership, self.cluster_size, self.decay = membership, cluster_size, decay
        self.reads_back_only = causal
        self.causal = causal and membership == "argmax"
        self.seed = seed
        rng = torch.Generator().manual_seed(seed)
        centroids = F.normalize(torch.randn(n_heads, n_clusters, d_head, generator=rng), dim=-1)
        self.register_buffer("centroids", centroids)
        self.register_buffer("sums", centroids.clone())
        self.register_buffer("counts", torch.ones(n_heads, n_clusters))  # as many as are in sums
        self.seen: tuple[Tensor, Tensor, Tensor | None] | None = None

    def check(self, n_heads: int, d_head: int) -> None:
        own = (self.centroids.shape[0], self.centroids.shape[2])
        if own != (n_heads, d_head):
            raise ValueError(
                f"the router must be made for the heads it gets, (n_heads, d_head) = "
                f"{(n_heads, d_head)}, got one for {own}"
            )

    def attend(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        v: Float[Tensor, "b h n d_v"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n d_v"]:
        """`routing_attention`; in training mode q and k are kept for the next `update`."""
        if self.training:
            self.seen = (q.detach(), k.detach(), key_padding)
        return routing_attention(q, k, v, **self._options(q, key_padding, scale))

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        return routing_weights(q, k, **self._options(q, key_padding, scale))

    @torch.no_grad()
    def update(
        self,
        q: Float[Tensor, "b h n d_head"] | None = None,
        k: Float[Tensor, "b h n d_head"] | None = None,
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> None:
        """Move the centroids towards the tokens of the last call in training mode, or these.

        Raises:
            ValueError: if there are no tokens, or only one of q and k.
        """
        if (q is None) != (k is None):
            raise ValueError("update takes q and k, or neither")
        if q is not None and k is not None:
            self._check_tokens(q, k, key_padding)
            self.seen = (q, k, key_padding)
        if self.seen is None:
            raise ValueError("update needs a call in training mode since the last one, or q and k")
        sums, counts = self._members(*self.seen)
        self.seen = None  # the same tokens are not counted twice
        self.sums.lerp_(sums, 1 - self.decay)
        self.counts.lerp_(counts, 1 - self.decay)
        means = self.sums / self.counts[..., None]
        self.centroids.copy_(torch.where(counts[..., None] > 0, means, self.centroids))

    @torch.no_grad()
    def initialise(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        n_iters: int = 10,
    ) -> None:
        """Start from tokens: k-means among them, from different ones drawn at random.

        Raises:
            ValueError: if there are fewer tokens than clusters, or n_iters is negative.
        """
        (n_iters,) = whole_numbers(n_iters=n_iters)
        if n_iters < 0:
            raise ValueError(f"n_iters must be 0 or more, got {n_iters}")
        self._check_tokens(q, k, key_padding)
        tokens, real = self._tokens(q, k, key_padding)
        at = real.nonzero()[:, 0]
        n_clusters = self.centroids.shape[1]
        if len(at) < n_clusters:
            raise ValueError(
                f"initialise needs a token for each of the {n_clusters} clusters, got {len(at)}"
            )
        rng = torch.Generator().manual_seed(self.seed)
        for head, own in enumerate(tokens):
            drawn = at[torch.randperm(len(at), generator=rng)[:n_clusters].to(at.device)]
            self.centroids[head] = own[drawn]
        for _ in range(n_iters):
            sums, counts = self._members(q, k, key_padding)
            means = sums / counts[..., None].clamp(min=1)
            self.centroids.copy_(torch.where(counts[..., None] > 0, means, self.centroids))
        _, counts = self._members(q, k, key_padding)
        self.counts.copy_(counts.clamp(min=1))
        self.sums.copy_(self.centroids * self.counts[..., None])  # what the centroids are means of

    def _check_tokens(self, q: Tensor, k: Tensor, key_padding: Tensor | None) -> None:
        check_qkv(q, k, k, key_padding, None)
        check_routing(q, k, self.centroids, self.membership, self.cluster_size)

    def _apply(self, fn: Callable, recurse: bool = True) -> nn.Module:
        """As every module, but running sums stay in single precision: half would stop them."""
        before = {name: getattr(self, name) for name in ("centroids", "sums", "counts")}
        super()._apply(fn, recurse)
        for name, kept in before.items():
            moved = getattr(self, name)
            if moved.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, kept.to(moved.device))
        return self

    def _tokens(self, q: Tensor, k: Tensor, key_padding: Tensor | None) -> tuple[Tensor, Tensor]:
        """All queries and keys of a head at unit length (h, tokens, d_head), and which are real."""
        q, k = (real_only(x.to(self.centroids), key_padding) for x in (q, k))
        both = torch.cat([q, k], dim=2)  # (b, h, 2 n, d_head)
        tokens = F.normalize(both, dim=-1).transpose(0, 1).flatten(1, 2)
        real = torch.ones(q.shape[0], q.shape[2], dtype=torch.bool, device=q.device)
        real = real if key_padding is None else key_padding
        return tokens, torch.cat([real, real], dim=1).flatten()

    def _members(self, q: Tensor, k: Tensor, key_padding: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sums (h, n_clusters, d_head) and counts (h, n_clusters) of the tokens nearest to each."""
        tokens, real = self._tokens(q, k, key_padding)
        cluster = nearest(tokens[None], self.centroids)[0]  # (h, tokens)
        sums, counts = torch.zeros_like(self.sums), torch.zeros_like(self.counts)
        share = real.to(tokens).expand(cluster.shape)
        where = cluster[..., None].expand(tokens.shape)
        sums.scatter_add_(1, where, tokens * share[..., None])
        return sums, counts.scatter_add_(1, cluster, share)

    def _options(self, q: Tensor, key_padding: Tensor | None, scale: float | None) -> dict:
        return {
            "centroids": self.centroids.to(q),
            "membership": self.membership,
            "causal": self.reads_back_only,
            "cluster_size": self.cluster_size,
            "key_padding": key_padding,
            "scale": scale,
        }

    def extra_repr(self) -> str:
        n_heads, n_clusters, d_head = self.centroids.shape
        return (
            f"{n_heads}, {n_clusters}, {d_head}, membership={self.membership!r}, "
            f"causal={self.reads_back_only}, decay={self.decay}"
        )
