"""Dense attention: the reference that every faster path in this package must equal."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def attention(
    q: Float[Tensor, "... n_q d_head"],
    k: Float[Tensor, "... n_k d_head"],
    v: Float[Tensor, "... n_k d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... n_q d_v"]:
    """Scaled dot-product attention: each query's weighted average of the values.

        attention(q, k, v) = softmax(q kᵀ / √d_head + bias) v

    Costs n_q * n_k * (d_head + d_v) multiply-adds and holds n_q * n_k weights per head.

    Args:
        q: queries, usually (b, h, n_q, d_head); leading axes broadcast.
        k: keys.
        v: values, one for each key.
        mask: True where query i may read key j; broadcastable to (..., n_q, n_k). A query
            that may read nothing outputs zeros and sends no gradient back.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.
        bias: added to the scaled scores, as position schemes do.

    Raises:
        ValueError: if the shapes do not fit each other.
        TypeError: if the mask is not bool, or the tensors differ in dtype.

    Source:
        Vaswani et al. 2017, equation 1 (arXiv:1706.03762); Lin et al. 2022, equation 1
        (arXiv:2106.04554). Forbidden scores become -inf before the softmax. The softmax is
        taken in at least float32, so half-precision inputs lose nothing there.

    Example:
        >>> q = torch.tensor([[1.0, 0.0]])
        >>> k = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-9.0, 0.0]])
        >>> v = torch.tensor([[2.0], [4.0], [99.0]])
        >>> attention(q, k, v, torch.tensor([[True, True, False]]))
        tensor([[3.]])
    """
    if v.dim() < 2 or k.dim() < 2 or v.shape[-2] != k.shape[-2]:
        raise ValueError(
            "k and v must hold one row for each key, "
            f"got k of shape {tuple(k.shape)} and v of shape {tuple(v.shape)}"
        )
    if v.dtype != q.dtype:
        raise TypeError(f"q, k and v must share a dtype, got q {q.dtype} and v {v.dtype}")
    return attention_weights(q, k, mask, scale=scale, bias=bias) @ v


def attention_weights(
    q: Float[Tensor, "... n_q d_head"],
    k: Float[Tensor, "... n_k d_head"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... n_q n_k"]:
    """The matrix that `attention` multiplies v by: row i says how query i divides itself.

    Rows sum to 1, except those of queries that may read nothing: they are zero.
    Arguments and errors are those of `attention`.

    Example:
        >>> q = k = torch.eye(3)
        >>> attention_weights(q, k, torch.ones(3, 3, dtype=torch.bool).tril(), scale=0.0)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    if q.dim() < 2 or k.dim() < 2 or q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise ValueError(
            "q and k must end in (n_q, d_head) and (n_k, d_head) with the same d_head of 1 or "
            f"more, got q of shape {tuple(q.shape)} and k of shape {tuple(k.shape)}"
        )
    if q.dtype != k.dtype:
        raise TypeError(f"q, k and v must share a dtype, got q {q.dtype} and k {k.dtype}")
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    scores = q @ k.transpose(-2, -1) * scale  # (..., n_q, n_k)
    if bias is not None:
        scores = scores + bias
    return masked_softmax(scores, mask)


def masked_softmax(
    scores: Float[Tensor, "... n_q n_k"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "... n_q n_k"]:
    """Softmax over the last axis among allowed entries; a row with none of them is zero.

    Filling with the smallest float instead of -inf would turn a row with nothing allowed into
    a uniform average over forbidden keys; -inf alone would turn it into NaN. Here such a row is
    softened over zeros, which is finite in both directions, and then cleared.

    Example:
        >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
        tensor([[1., 0.],
                [0., 0.]])
    """
    wide = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype
    if mask is None:
        return scores.softmax(dim=-1, dtype=wide).to(scores.dtype)
    _check_mask(mask, scores)
    scores = scores.masked_fill(~mask, -math.inf)
    scores = scores.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    weights = scores.softmax(dim=-1, dtype=wide).to(scores.dtype)
    return weights.masked_fill(~mask, 0.0)


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be bool with True where a query may read, got {mask.dtype}; "
            "an additive mask goes in as mask == 0"
        )
    rows_and_columns = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
    if mask.dim() > scores.dim() or any(m not in (1, s) for m, s in rows_and_columns):
        raise ValueError(
            "mask must broadcast to the scores (..., n_q, n_k) = "
            f"{tuple(scores.shape)}, got {tuple(mask.shape)}"
        )
