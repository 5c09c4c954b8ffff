"""Attention over the pairs of a rule one by one, where groups would compute many for each kept."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tinyattn.checks import first_derivatives_only

if TYPE_CHECKING:
    from tinyattn.groups import Group

EDGES_PAY = 10  # pairs of groups, which are products of matrices, that cost what one edge does


@dataclass(frozen=True)
class EdgeList:
    """The keys of every query, as many columns as the longest list has.

    Args:
        keys: positions that a query reads; shorter lists are filled up.
        mask: 0 at an edge and -inf where a list is filled up.
        n_k: keys in all.
    """

    keys: Int64[Tensor, "n width"]
    mask: Float[Tensor, "n width"]
    n_k: int

    @cached_property
    def matrix(self) -> Tensor:
        """A sparse matrix of zeros with an entry for each edge, one row after the other."""
        n, width = self.keys.shape
        starts = torch.arange(0, n * width + 1, width)
        with warnings.catch_warnings():  # compressed rows are a beta of torch
            warnings.simplefilter("ignore")
            return torch.sparse_csr_tensor(
                starts, self.keys.flatten(), torch.zeros(n * width), (n, self.n_k),
                check_invariants=False,
            )  # fmt: skip

    @cached_property
    def by_key(self) -> tuple[Tensor, Tensor, Tensor]:
        """Edges sorted by key: their places in `keys`, their queries, and where each key starts."""
        keys = self.keys.flatten()
        order = keys.argsort(stable=True)
        counts = keys.bincount(minlength=self.n_k)
        return order, order // self.keys.shape[1], counts.cumsum(0) - counts

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """left_i · right_j of every edge, (n, width)."""
        empty = self.matrix.to(left.dtype)
        return torch.sparse.sampled_addmm(empty, left, right.T).values().view(self.keys.shape)

    def into_queries(self, weights: Tensor, rows: Tensor) -> Tensor:
        """For each query the weighted sum of its keys' rows."""
        return F.embedding_bag(self.keys, rows, per_sample_weights=weights, mode="sum")

    def into_keys(self, weights: Tensor, rows: Tensor) -> Tensor:
        """For each key the weighted sum of the rows of those that read it."""
        order, queries, starts = self.by_key
        weights = weights.flatten()[order]
        return F.embedding_bag(queries, rows, starts, per_sample_weights=weights, mode="sum")


def edge_list(groups: Iterable[Group], n: int, n_k: int) -> EdgeList | None:
    """The allowed pairs of groups, or None if the groups are the cheaper way to compute them."""
    groups, longest = list(groups), {}
    if all(group.keys.index is None for group in groups):
        return None  # keys in a few runs are read faster than one by one
    for group in groups:
        alike = id(group.masks), group.keys.n  # where nothing is forbidden, all share one mask
        if alike not in longest:
            longest[alike] = _longest(group)
    width = max(longest.values())
    if EDGES_PAY * n * width >= sum(group.n_pairs for group in groups):
        return None
    keys = torch.arange(n)[:, None].expand(n, width).contiguous()  # filled up with itself
    mask = torch.full((n, width), -math.inf)
    every_query, every_key = torch.arange(n)[None, :, None], torch.arange(n_k)[None, :, None]
    for group in groups:
        row, column = group.allowed().nonzero(as_tuple=True)
        counts = row.bincount(minlength=group.queries.n)
        nth = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]  # in the list of its query
        query = group.queries.take(every_query).flatten()[row]
        keys[query, nth] = group.keys.take(every_key).flatten()[column]
        mask[query, nth] = 0.0
    return EdgeList(keys, mask, n_k)


def _longest(group: Group) -> int:
    return int(group.allowed().sum(dim=1).max())


class AttendEdges(torch.autograd.Function):
    """softmax(q kᵀ * scale + mask) v over a list of edges, with the weights recomputed backward."""

    @staticmethod
    def forward(ctx, q, k, v, padding, edges, scale):
        out = q.new_empty(*q.shape[:2], v.shape[-1])
        with torch.autocast(q.device.type, enabled=False):
            for head in range(len(q)):
                weights = _weights(q, k, padding, edges, scale, head)
                out[head] = edges.into_queries(weights, v[head].contiguous())
        ctx.save_for_backward(q, k, v, padding, out)
        ctx.edges, ctx.scale = edges, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        first_derivatives_only("sparse_attention", "attention(q, k, v, pattern.mask(n))")
        q, k, v, padding, out = ctx.saved_tensors
        edges, scale = ctx.edges, ctx.scale
        d_q, d_k, d_v = (torch.empty_like(x) for x in (q, k, v))
        correction = (d_out * out).sum(dim=-1, keepdim=True)  # Σ_j weight_ij d_weight_ij
        with torch.autocast(q.device.type, enabled=False):
            for head in range(len(q)):
                weights, d_rows = _weights(q, k, padding, edges, scale, head), d_out[head]
                d_v[head] = edges.into_keys(weights, d_rows.contiguous())
                d_scores = edges.products(d_rows, v[head]).sub_(correction[head])
                d_scores.mul_(weights).mul_(scale)
                d_q[head] = edges.into_queries(d_scores, k[head].contiguous())
                d_k[head] = edges.into_keys(d_scores, q[head].contiguous())
        return d_q, d_k, d_v, None, None, None


def _weights(
    q: Tensor, k: Tensor, padding: Tensor | None, edges: EdgeList, scale: float, head: int
) -> Tensor:
    """Softmax of each query's list, (n, width); a list without a key becomes zeros."""
    scores = edges.products(q[head], k[head]).mul_(scale).add_(edges.mask)
    if padding is not None:
        scores += padding[head, :, 0][edges.keys]
    empty = scores.amax(dim=-1, keepdim=True) == -math.inf
    return scores.softmax(dim=-1).masked_fill_(empty, 0.0)
