"""Attention inside clusters of tokens, each with queries and keys of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tinyattn.checks import first_derivatives_only

SCORES_AT_ONCE = 2**19  # so that they stay in the processor's cache
FAR = 1e30  # is subtracted from a forbidden score; beyond all real ones, and finite


@dataclass(frozen=True)
class Members:
    """The tokens of every cluster, one after the other.

    Args:
        tokens: members of cluster 0, then of cluster 1, … of the first row, then of the next.
        start: where in `tokens` each cluster begins.
        count: how many members it has.
    """

    tokens: Int64[Tensor, "n_members"]
    start: Int64[Tensor, "n_clusters"]
    count: Int64[Tensor, "n_clusters"]

    @classmethod
    def equal(cls, tokens: Int64[Tensor, "n_rows n_clusters size"]) -> Members:
        """Clusters of one size; tokens are numbered within their row of n."""
        n_clusters, size = tokens.shape[0] * tokens.shape[1], tokens.shape[2]
        count = torch.full((n_clusters,), size, device=tokens.device)
        return cls(tokens.flatten(), torch.arange(n_clusters, device=tokens.device) * size, count)

    @classmethod
    def sort(cls, cluster: Int64[Tensor, "n_rows n"], n_clusters: int) -> Members:
        """Each token in one cluster of its row, in order of position."""
        n_rows, n = cluster.shape
        row = torch.arange(n_rows, device=cluster.device)[:, None]
        tokens = (cluster.argsort(dim=-1, stable=True) + row * n).flatten()
        count = (cluster + row * n_clusters).flatten().bincount(minlength=n_rows * n_clusters)
        return cls(tokens, count.cumsum(dim=0) - count, count)

    def take(self, clusters: Tensor) -> tuple[Tensor, Tensor]:
        """Members of some clusters, (n, largest), and whether there is one at each place."""
        place = torch.arange(int(self.count[clusters].max()), device=clusters.device)
        is_member = place < self.count[clusters, None]
        at = (self.start[clusters, None] + place).clamp_(max=len(self.tokens) - 1)
        return self.tokens[at], is_member


@dataclass(frozen=True)
class Clusters:
    """Who asks and who is read in each cluster of all rows (one for each sequence and head).

    Args:
        queries: members that ask; one in several clusters gets the average of their answers.
        keys: members that are read.
        real: whether a token is; the others neither ask nor are read.
        n: tokens in a row.
        causal: whether a query reads no later key.
    """

    queries: Members
    keys: Members
    real: Bool[Tensor, "n_tokens"]
    n: int
    causal: bool

    def batches(self) -> Iterator[_Batch]:
        """Clusters of about one size together, as many as the cache holds scores of."""
        n_queries, n_keys = self.queries.count, self.keys.count
        ids = ((n_queries > 0) & (n_keys > 0)).nonzero()[:, 0]
        ids = ids[torch.maximum(n_queries, n_keys)[ids].argsort()]
        sizes = list(zip(n_queries[ids].tolist(), n_keys[ids].tolist(), strict=True))
        start, most = 0, (0, 0)
        for end, size in enumerate(sizes):
            wider = (max(most[0], size[0]), max(most[1], size[1]))
            if start < end and (end + 1 - start) * wider[0] * wider[1] > SCORES_AT_ONCE:
                yield _Batch(self, ids[start:end])
                start, wider = end, size
            most = wider
        if sizes:
            yield _Batch(self, ids[start:])


class _Batch:
    """Some clusters, filled up to the size of the largest."""

    def __init__(self, clusters: Clusters, ids: Tensor) -> None:
        (ask, asks), (read, is_read) = clusters.queries.take(ids), clusters.keys.take(ids)
        self.shape = (*ask.shape, read.shape[1])
        self.ask, self.read = ask.flatten(), read.flatten()
        self.asks = (asks.flatten() & clusters.real[self.ask]).view(*ask.shape, 1)
        is_read = is_read.flatten() & clusters.real[self.read]
        self.masked = clusters.causal or not bool(is_read.all())
        # a query reads up to its own position, or to the last; who is not read stands behind
        self.until = ask % clusters.n if clusters.causal else torch.full_like(ask, clusters.n - 1)
        self.position = torch.where(is_read, self.read % clusters.n, clusters.n).view(read.shape)

    def queries(self, x: Tensor) -> Tensor:
        return x.index_select(0, self.ask).view(*self.shape[:2], x.shape[1])

    def keys(self, x: Tensor) -> Tensor:
        return x.index_select(0, self.read).view(self.shape[0], self.shape[2], x.shape[1])

    def add_to_queries(self, x: Tensor, rows: Tensor) -> None:
        x.index_add_(0, self.ask, rows.flatten(0, 1))

    def add_to_keys(self, x: Tensor, rows: Tensor) -> None:
        x.index_add_(0, self.read, rows.flatten(0, 1))

    def weights(self, q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Softmax of each query's scores (n, n_q, n_k), and whether it reads anything."""
        queries, keys = self.queries(q), self.keys(k).transpose(1, 2)
        if not self.masked:
            return torch.bmm(queries * scale, keys).softmax(dim=-1), self.asks
        ahead = self.until.to(q.dtype)[:, :, None] - self.position.to(q.dtype)[:, None]
        ahead = ahead.clamp_(-1, 0).mul_(FAR)  # 0, or where a key lies ahead -FAR
        scores = ahead.baddbmm_(queries, keys, alpha=scale)
        return scores.softmax(dim=-1), self.asks & (scores.amax(-1, keepdim=True) > -FAR / 2)


def attend_in_clusters(
    q: Float[Tensor, "n_tokens d_head"],
    k: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_v"],
    clusters: Clusters,
    scale: float,
) -> Float[Tensor, "n_tokens d_v"]:
    """Attention inside each cluster; a query in several gets their average, in none zeros.

    A cluster in which a query may read nothing is not counted. Costs Σ n_queries * n_keys over
    clusters, and O(n_tokens) memory but for the largest cluster, also backward.
    """
    return _InClusters.apply(q, k, v, clusters, scale)


class _InClusters(torch.autograd.Function):
    """Cluster by cluster, with the weights computed again in the backward pass."""

    @staticmethod
    def forward(ctx, q, k, v, clusters, scale):
        out, n_answers = torch.zeros_like(v), q.new_zeros(len(q), 1)
        with torch.autocast(q.device.type, enabled=False):
            for batch in clusters.batches():
                weights, answered = batch.weights(q, k, scale)
                answered = answered.to(q.dtype)
                batch.add_to_queries(out, (weights @ batch.keys(v)).mul_(answered))
                batch.add_to_queries(n_answers, answered)
        n_answers.clamp_(min=1)
        ctx.save_for_backward(q, k, v, n_answers)
        ctx.clusters, ctx.scale = clusters, scale
        return out.div_(n_answers)

    @staticmethod
    def backward(ctx, d_out):
        first_derivatives_only("routing_attention", "attention under the mask of each cluster")
        q, k, v, n_answers = ctx.saved_tensors
        d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        d_out = d_out / n_answers
        with torch.autocast(q.device.type, enabled=False):
            for batch in ctx.clusters.batches():
                weights, answered = batch.weights(q, k, ctx.scale)
                d_rows = batch.queries(d_out).mul_(answered)
                batch.add_to_keys(d_v, weights.transpose(1, 2) @ d_rows)
                d_scores = (d_rows @ batch.keys(v).transpose(1, 2)).mul_(weights)
                correction = d_scores.sum(dim=-1, keepdim=True)
                d_scores.addcmul_(weights, correction, value=-1).mul_(ctx.scale)
                batch.add_to_queries(d_q, d_scores @ batch.keys(k))
                batch.add_to_keys(d_k, d_scores.transpose(1, 2) @ batch.queries(q))
        return d_q, d_k, d_v, None, None
