"""Attention of each block to a mixture of blocks and to itself, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from tinyattn.checks import first_derivatives_only

CACHED_SCORES = 2**18  # scores computed at a time, so that they stay in the processor's cache


class BlockPairs(torch.autograd.Function):
    """For block i: softmax(q_i [Σ_j sort_ij k_j ; k_i]ᵀ * scale) [Σ_j sort_ij v_j ; v_i].

    The engine for equal blocks, of which a few of one head fit one batched product and the cache.
    As there, weights are used, forgotten and computed again in the backward pass. Tensors are
    (heads, n_blocks, block_size, d), sort is (heads, n_blocks, n_blocks).
    """

    @staticmethod
    def forward(ctx, q, k, v, sort, causal, scale):
        out = torch.empty_like(q[..., :1].expand(*q.shape[:-1], v.shape[-1]))
        with torch.autocast(q.device.type, enabled=False):
            for head in range(len(q)):
                for rows in _stretches(q):
                    _, values, weights = _read(q, k, v, sort, head, rows, causal, scale)
                    torch.bmm(weights, values, out=out[head, rows])
        ctx.save_for_backward(q, k, v, sort, out)
        ctx.causal, ctx.scale = causal, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        first_derivatives_only("sinkhorn_attention", "attention on the concatenated blocks")
        q, k, v, sort, out = ctx.saved_tensors
        # not zeros_like, which keeps the strides of a view: `_back` needs rows that can be flattened
        d_q, d_k, d_v, d_sort = (x.new_zeros(x.shape) for x in (q, k, v, sort))
        with torch.autocast(q.device.type, enabled=False):
            for head in range(len(q)):
                for rows in _stretches(q):
                    read = _read(q, k, v, sort, head, rows, ctx.causal, ctx.scale)
                    keys, values, weights = read
                    d_rows = d_out[head, rows]
                    d_scores = d_rows @ values.transpose(1, 2)
                    d_scores -= (d_rows * out[head, rows]).sum(dim=-1, keepdim=True)
                    d_scores.mul_(weights).mul_(ctx.scale)
                    d_q[head, rows] = d_scores @ keys
                    d_keys = d_scores.transpose(1, 2) @ q[head, rows]
                    _back(d_keys, k[head], sort[head], d_k[head], d_sort[head], rows)
                    d_values = weights.transpose(1, 2) @ d_rows
                    _back(d_values, v[head], sort[head], d_v[head], d_sort[head], rows)
        return d_q, d_k, d_v, d_sort, None, None


def _stretches(q: Tensor) -> Iterator[slice]:
    """Blocks, as many at a time as keep their scores in the cache."""
    n_blocks, block_size = q.shape[1:3]
    at_once = max(1, CACHED_SCORES // (2 * block_size**2))
    for start in range(0, n_blocks, at_once):
        yield slice(start, start + at_once)


def _read(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sort: Tensor,
    head: int,
    rows: slice,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values of some blocks, mixture first, and the weights between 0 and 1."""
    keys, values = _pair(k[head], sort[head], rows), _pair(v[head], sort[head], rows)
    scores = (q[head, rows] * scale) @ keys.transpose(1, 2)  # (blocks, block_size, 2 * block_size)
    if causal:
        block_size = q.shape[2]
        later = torch.ones(block_size, block_size, dtype=torch.bool, device=q.device).triu(1)
        scores[:, :, block_size:].masked_fill_(later, -math.inf)
        if rows.start == 0:  # nothing stands before the first block
            scores[0, :, :block_size] = -math.inf
    return keys, values, scores.softmax(dim=-1)


def _pair(x: Tensor, sort: Tensor, rows: slice) -> Tensor:
    """[Σ_j sort_ij x_j ; x_i] for some blocks i."""
    n_blocks, block_size, d = x[rows].shape
    pair = x.new_empty(n_blocks, 2, block_size * d)
    torch.mm(sort[rows], x.flatten(1), out=pair[:, 0])  # in place: a copy would cost a fifth
    pair[:, 1] = x[rows].flatten(1)
    return pair.view(n_blocks, 2 * block_size, d)


def _back(
    d_pair: Tensor, x: Tensor, sort: Tensor, d_x: Tensor, d_sort: Tensor, rows: slice
) -> None:
    """Add to the gradients of x and sort what comes back through `_pair`."""
    block_size = x.shape[1]
    d_mixed = d_pair[:, :block_size].flatten(1)
    d_x.flatten(1).addmm_(sort[rows].T, d_mixed)
    d_x[rows] += d_pair[:, block_size:]
    d_sort[rows] += d_mixed @ x.flatten(1).T
