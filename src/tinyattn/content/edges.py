"""Attention over a list of edges: for graphs that fill no blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.engine import check_qkv


@dataclass(frozen=True)
class Edges:
    """Who reads whom, pair by pair, for each sequence and each head, or each sequence.

    Args:
        queries: positions that read, (b, 1 or h, n_edges).
        keys: positions that are read.
        valid: which entries stand for an edge; the others only fill up the tensor.
    """

    queries: Int64[Tensor, "b g n_edges"]
    keys: Int64[Tensor, "b g n_edges"]
    valid: Bool[Tensor, "b g n_edges"]

    def __post_init__(self) -> None:
        shapes = [tuple(x.shape) for x in (self.queries, self.keys, self.valid)]
        if len(set(shapes)) > 1 or len(shapes[0]) != 3:
            raise ValueError(
                "queries, keys and valid must have one shape (b, 1 or h, n_edges), "
                f"got {', '.join(map(str, shapes))}"
            )
        dtypes = [x.dtype for x in (self.queries, self.keys, self.valid)]
        if dtypes != [torch.int64, torch.int64, torch.bool]:
            raise TypeError(
                f"queries and keys must be int64 and valid bool, got {', '.join(map(str, dtypes))}"
            )

    def mask(self, n: int) -> Bool[Tensor, "b g n n"]:
        """The edges as a matrix, True where a query reads.

        Example:
            >>> one = torch.ones(1, 1, 1, dtype=torch.long)
            >>> Edges(one, 0 * one, one > 0).mask(2).int()[0, 0]
            tensor([[0, 0],
                    [1, 0]], dtype=torch.int32)
        """
        (n,) = whole_numbers(n=n)
        for name, at in (("queries", self.queries), ("keys", self.keys)):
            if ((at < 0) | (at >= n))[self.valid].any():
                raise ValueError(f"edges must join positions 0 … {n - 1}, got {name} beyond")
        mask = torch.zeros(*self.queries.shape[:2], n * n, dtype=torch.bool)
        mask = mask.to(self.queries.device)
        cells = (self.queries * n + self.keys).where(self.valid, n * n)  # one cell too many
        mask = torch.nn.functional.pad(mask, (0, 1)).scatter(-1, cells, True)
        return mask[..., :-1].unflatten(-1, (n, n))

    def with_own(self, real: Bool[Tensor, "b n"]) -> Edges:
        """These, and an edge from each real token to itself."""
        b, g = self.queries.shape[:2]
        own = torch.arange(real.shape[1], device=real.device).expand(b, g, -1)
        return Edges(
            torch.cat([self.queries, own], dim=-1),
            torch.cat([self.keys, own], dim=-1),
            torch.cat([self.valid, real[:, None].expand(b, g, -1)], dim=-1),
        )


def edge_attention(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    edges: Edges,
    *,
    scale: float | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Attention that computes one score for each edge, and nothing for any other pair.

    Softmax runs over the edges of a query, wherever they stand in the list. A query without edges
    outputs zeros. Costs n_edges * (d_head + d_v) multiply-adds, but each of them on rows that are
    fetched one by one: blocks of keys are read many times faster.

    Args:
        q: queries.
        k: keys.
        v: values.
        edges: for each head, or one list for all heads; no pair twice.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.

    Raises:
        ValueError: if shapes do not fit, an edge leaves the sequence, or a pair stands twice.
        TypeError: if q, k and v do not share a float dtype.

    Example:
        >>> from tinyattn import attention
        >>> q, k, v = torch.randn(3, 1, 1, 4, 2)
        >>> pairs = torch.tensor([[0, 1, 1, 3], [2, 0, 1, 0]])[:, None, None]
        >>> edges = Edges(*pairs, torch.ones(1, 1, 4, dtype=torch.bool))
        >>> expected = attention(q, k, v, edges.mask(4))
        >>> torch.allclose(edge_attention(q, k, v, edges), expected, atol=1e-6)
        True
    """
    scale = check_qkv(q, k, v, None, scale)
    if k.shape[2] != q.shape[2]:
        raise ValueError(
            f"edges join tokens of one sequence: q and k must have one n, "
            f"got {q.shape[2]} and {k.shape[2]}"
        )
    b, h, n, d_head = q.shape
    scale = d_head**-0.5 if scale is None else scale
    rows, columns = _places(edges, b, h, n)
    wide = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    q, k, flat_v = (x.flatten(0, 2).to(wide) for x in (q, k, v))
    scores = scale * (q[rows] * k[columns]).sum(dim=-1)  # (edges of all heads,)
    top = scores.new_full((b * h * n,), -math.inf)
    top = top.scatter_reduce(0, rows, scores.detach(), "amax")
    terms = (scores - top[rows]).exp()
    total = terms.new_zeros(b * h * n).index_add(0, rows, terms)
    weights = terms / total[rows]
    out = flat_v.new_zeros(b * h * n, v.shape[-1])
    out = out.index_add(0, rows, weights[:, None] * flat_v[columns])
    return out.to(v.dtype).view(v.shape)


def _places(edges: Edges, b: int, h: int, n: int) -> tuple[Tensor, Tensor]:
    """Rows of q and of k for every edge, where heads and sequences are laid end to end."""
    shape = edges.queries.shape
    if shape[0] != b or shape[1] not in (1, h):
        raise ValueError(
            f"edges must be (b, 1 or h, n_edges) with b={b}, h={h}, got {tuple(shape)}"
        )
    queries, keys, valid = (
        x.expand(b, h, shape[2]) for x in (edges.queries, edges.keys, edges.valid)
    )
    start = torch.arange(b * h, device=queries.device).view(b, h, 1).expand_as(queries) * n
    at, to = queries[valid], keys[valid]
    if len(at) and (int(torch.minimum(at, to).min()) < 0 or int(torch.maximum(at, to).max()) >= n):
        raise ValueError(f"edges must join positions 0 … {n - 1}")
    rows, columns = start[valid] + at, start[valid] + to
    if len((rows * n + to).unique()) != len(rows):
        raise ValueError("a pair stands twice among the edges; its key would count double")
    return rows, columns
