"""Linearised attention: a product of features instead of exp, and so three orders to compute in."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.families.shapes import (
    check_causal,
    check_dtypes,
    check_heads,
    check_sizes,
    widened,
    without_autocast,
)
from tinyattn.padding import real_only


def elu_features(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """elu(x) + 1, which is positive: x + 1 above zero, exp(x) below.

    Example:
        >>> elu_features(torch.tensor([-1.0, 0.0, 2.0]))
        tensor([0.3679, 1.0000, 3.0000])
    """
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def linear_attention(
    q: Float[Tensor, "b h n_q d_head"],
    k: Float[Tensor, "b h n_k d_head"],
    v: Float[Tensor, "b h n_k d_v"],
    *,
    causal: bool = False,
    key_padding: Bool[Tensor, "b n_k"] | None = None,
    chunk_size: int = 64,
) -> Float[Tensor, "b h n_q d_v"]:
    """Attention with weights φ(q_i) · φ(k_j) / Σ_j φ(q_i) · φ(k_j), computed keys first.

        out_i = φ(q_i) S / (φ(q_i) · u),  S = Σ_j φ(k_j) v_jᵀ,  u = Σ_j φ(k_j)

    S and u do not depend on the query, so that n_q queries share them: O((n_q + n_k) d_head d_v)
    and never a matrix of pairs. With `causal` the sums run up to j = i; chunks of the sequence
    are then taken one after the other, pairs within a chunk as a small matrix, all earlier ones
    as S and u: O(n (chunk_size + d_head) d_v).

    Exact as an attention of its own. It equals softmax attention where all keys are equal.

    Args:
        q: queries.
        k: keys.
        v: values.
        causal: whether a query reads its own and earlier positions only.
        key_padding: True where a key is a real token.
        chunk_size: tokens taken at a time if causal; changes rounding only.

    Raises:
        ValueError: if shapes do not fit, n_q is not n_k though causal, or chunk_size is below 1.
        TypeError: if the tensors do not share a float dtype.

    Source:
        Katharopoulos et al. 2020, equations 5, 7 and 9 to 12 (arXiv:2006.16236); Lin et al. 2022,
        equations 14 to 16. No constant is added to the denominator: a query whose features meet
        those of no key outputs zeros.

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 50, 4)
        >>> by_matrix = linear_attention_weights(q, k, causal=True) @ v
        >>> torch.allclose(linear_attention(q, k, v, causal=True), by_matrix, atol=1e-5)
        True
    """
    check_heads(q, k, v, key_padding)
    (chunk_size,) = check_sizes(chunk_size=chunk_size)
    if causal:
        check_causal(q, k)
    with without_autocast(q):
        return _keys_first(*widened(q, k, v), causal, key_padding, chunk_size).to(q.dtype)


def _keys_first(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, key_padding: Tensor | None, chunk_size: int
) -> Tensor:
    q, k, tops = _scaled_features(q, k, causal, key_padding)
    v = torch.cat([real_only(v, key_padding), v.new_ones(*v.shape[:3], 1)], dim=-1)  # one more: Σ
    if not causal:
        sums = k.transpose(2, 3) @ v  # (b, h, d_head, d_v + 1): S, and u beside it
        return _divided(q @ sums)
    sums, out = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]), []
    before = tops.new_zeros(*tops.shape[:2], 1, 1)
    for queries, keys, values, top in zip(
        *(x.split(chunk_size, dim=2) for x in (q, k, v, tops)), strict=True
    ):
        last = torch.cat([before, top], dim=2)[:, :, -1:]  # a sequence may be empty
        within = (queries @ keys.transpose(2, 3) * _shrunk(top.transpose(2, 3), top)).tril()
        out.append(within @ values + queries @ sums * _shrunk(before, top))
        new = (keys * _shrunk(top, last)).transpose(2, 3) @ values
        sums, before = sums * _shrunk(before, last) + new, last
    return _divided(torch.cat(out, dim=2))


def linear_attention_weights(
    q: Float[Tensor, "b h n_q d_head"],
    k: Float[Tensor, "b h n_k d_head"],
    *,
    causal: bool = False,
    key_padding: Bool[Tensor, "b n_k"] | None = None,
) -> Float[Tensor, "b h n_q n_k"]:
    """The matrix that linear attention never builds: O(n_q n_k), to look at and to compare with.

    Rows sum to 1, except those of queries that may read nothing: they are zero.
    """
    check_heads(q, k, k, key_padding)
    if causal:
        check_causal(q, k)
    dtype = q.dtype
    with without_autocast(q):
        q, k, tops = _scaled_features(*widened(q, k), causal, key_padding)
        weights = q @ k.transpose(2, 3)
        if causal:
            weights = weights * _shrunk(tops.transpose(2, 3), tops)
            weights = weights.tril()
        total = weights.sum(dim=-1, keepdim=True)
        return (weights / total.masked_fill(total == 0, 1.0)).to(dtype)


class LinearState:
    """Causal linear attention as a recurrence: all that it remembers is S and u.

    A state of d_head * (d_v + 1) numbers for each head, however long the past is, where a cache
    of keys and values grows by d_head + d_v numbers a token. Keys are taken as they are, where
    `linear_attention` measures them by the largest: one with all channels below about -100
    counts for nothing here.

    Source:
        Katharopoulos et al. 2020, section 3.4, "Transformers are RNNs".

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4)
        >>> state = LinearState()
        >>> steps = [state.step(q[:, :, i], k[:, :, i], v[:, :, i]) for i in range(5)]
        >>> whole = linear_attention(q, k, v, causal=True)
        >>> torch.allclose(torch.stack(steps, dim=2), whole, atol=1e-5)
        True
    """

    def __init__(self) -> None:
        self.s: Tensor | None = None
        self.u: Tensor | None = None

    def step(
        self,
        q: Float[Tensor, "b h d_head"],
        k: Float[Tensor, "b h d_head"],
        v: Float[Tensor, "b h d_v"],
    ) -> Float[Tensor, "b h d_v"]:
        """Take in one token and answer its query: O(d_head d_v).

        Raises:
            ValueError: if the token's heads do not fit each other or the state.
            TypeError: if the tensors do not share a float dtype, or it is not the state's.
        """
        if q.dim() != 3 or q.shape != k.shape or q.shape[:2] != v.shape[:2] or v.dim() != 3:
            raise ValueError(
                "q and k must be (b, h, d_head), v (b, h, d_v), "
                f"got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
            )
        check_dtypes(q=q, k=k, v=v)
        dtype = q.dtype
        q, k, v = widened(q, k, v)
        q = q - _top(q)  # a factor of both sums
        if self.s is not None and self.s.dtype != q.dtype:
            raise TypeError(f"the state is kept in {self.s.dtype}, got a token in {dtype}")
        q, k = elu_features(q), elu_features(k)
        new = k[..., :, None] * v[..., None, :]  # (b, h, d_head, d_v)
        if self.s is not None and self.s.shape != new.shape:
            raise ValueError(
                f"the state is (b, h, d_head, d_v) = {tuple(self.s.shape)}, "
                f"got a token for {tuple(new.shape)}; start another sequence with a new state"
            )
        self.s = new if self.s is None else self.s + new
        self.u = k if self.u is None else self.u + k
        total = (q * self.u).sum(dim=-1, keepdim=True)
        with without_autocast(q):
            out = (q[..., None, :] @ self.s)[..., 0, :]
        return (out / total.masked_fill(total == 0, 1.0)).to(dtype)


def _scaled_features(
    q: Tensor, k: Tensor, causal: bool, key_padding: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """φ(q) and φ(k) over factors e^top that cancel in the quotient, and those of the keys.

    Channels below -89 have features whose reciprocals overflow in float32, and one over their sum
    is part of every gradient. A query is divided by its own factor, keys by their largest one or,
    so that the future leaves no trace, by the largest up to their place.
    """
    tops = _top(k)  # (b, h, n_k, 1)
    if key_padding is not None:
        lowest = torch.finfo(k.dtype).min
        tops = tops.where(key_padding[:, None, :, None], lowest)
    if causal:
        tops = tops.cummax(dim=2).values
    elif k.shape[2]:
        tops = tops.amax(dim=2, keepdim=True)
    return elu_features(q - _top(q)), real_only(elu_features(k - tops), key_padding), tops


def _top(x: Tensor) -> Tensor:
    """The largest channel of each row where it is negative, so that φ(x - top) = φ(x) / e^top."""
    return x.detach().amax(dim=-1, keepdim=True).clamp(torch.finfo(x.dtype).min, 0.0)


def _shrunk(top: Tensor, later: Tensor) -> Tensor:
    """From one factor to a larger one; 1 where it is smaller, which `tril` leaves out."""
    return (top - later).clamp(max=0.0).exp()


def _divided(sums: Tensor) -> Tensor:
    """Weighted sums over the sum of their weights, which stands in the last channel."""
    total = sums[..., -1:]
    return sums[..., :-1] / total.masked_fill(total == 0, 1.0)
