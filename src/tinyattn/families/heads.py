"""Better heads: fewer keys and values than queries, and heads that talk."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.dense import attention, check_mask_of_heads, masked_softmax
from tinyattn.families.shapes import cast_with, check_dtypes, check_heads, check_sizes
from tinyattn.padding import check_padding, finite_padding, real_only


def grouped_attention(
    q: Float[Tensor, "b h n_q d_head"],
    k: Float[Tensor, "b h_kv n_k d_head"],
    v: Float[Tensor, "b h_kv n_k d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "b h n_q d_v"]:
    """Heads of queries in groups, each of which shares one head of keys and values.

    Heads 0 … h / h_kv - 1 read the first head of k and v, and so on. One head of k and v for all
    is multi-query attention. As many scores as with all heads; the keys and values, which are
    what a decoder keeps and reads for every new token, are h / h_kv times fewer.

    Exact if the heads of keys and values that a group would have are equal anyway (h_kv = h:
    always).

    Args:
        q: queries.
        k: keys; h_kv divides h.
        v: values.
        mask: True where a query may read, (n_q, n_k) or (b, 1 or h, n_q, n_k).

    Raises:
        ValueError: if shapes do not fit, or h_kv does not divide h.
        TypeError: if the tensors do not share a float dtype, or the mask is not bool.

    Source:
        Shazeer 2019, "multi-query" (arXiv:1911.02150); Ainslie et al. 2023, "grouped-query"
        (arXiv:2305.13245).

    Example:
        >>> q, k, v = torch.randn(1, 8, 5, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
        >>> repeated = [x.repeat_interleave(4, dim=1) for x in (k, v)]
        >>> torch.allclose(grouped_attention(q, k, v), attention(q, *repeated), atol=1e-6)
        True
    """
    if q.dim() != 4 or k.dim() != 4 or not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ValueError(
            "q must be (b, h, n_q, d_head) and k (b, h_kv, n_k, d_head) with h_kv a divisor of h, "
            f"got q {tuple(q.shape)} and k {tuple(k.shape)}"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"q and k must share b and d_head, got q {tuple(q.shape)} and k {tuple(k.shape)}"
        )
    check_heads(q[:, : k.shape[1]], k, v)
    if mask is not None:
        check_mask_of_heads(mask, torch.Size((*q.shape[:3], k.shape[2])), q.device)
    q = q.unflatten(1, (k.shape[1], -1))  # (b, h_kv, h / h_kv, n_q, d_head)
    if mask is not None and mask.dim() == 4:
        per_head = mask.shape[1] > 1
        mask = mask.unflatten(1, (k.shape[1], -1)) if per_head else mask[:, :, None]
    return attention(q, k[:, :, None], v[:, :, None], mask).flatten(1, 2)


class GroupedQueryAttention(nn.Module):
    """Self-attention with n_kv_heads heads of keys and values for n_heads of queries.

    Parameters: 2 * d_model² for queries and output, 2 * d_model² * n_kv_heads / n_heads for keys
    and values (and biases). A cache of it holds 2 * n * n_kv_heads * d_head numbers.

    Args:
        d_model: width of a token vector.
        n_heads: heads of queries; divides d_model.
        n_kv_heads: heads of keys and values; divides n_heads. 1 is multi-query attention.

    Example:
        >>> GroupedQueryAttention(16, n_heads=4, n_kv_heads=2)(torch.randn(1, 5, 16)).shape
        torch.Size([1, 5, 16])
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int) -> None:
        super().__init__()
        d_model, n_heads, n_kv_heads = check_sizes(
            d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads
        )
        if d_model % n_heads or n_heads % n_kv_heads:
            raise ValueError(
                "n_heads must divide d_model and n_kv_heads n_heads, "
                f"got d_model={d_model}, n_heads={n_heads}, n_kv_heads={n_kv_heads}"
            )
        self.d_head = d_model // n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, n_kv_heads * self.d_head)
        self.value = nn.Linear(d_model, n_kv_heads * self.d_head)
        self.out = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Float[Tensor, "b n d_model"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Attend from x to x.

        Args:
            x: token vectors.
            mask: (n, n) or (b, 1 or h, n, n), True where a query may read.
            key_padding: True where a token is real; what stands in the others reaches no real
                token and no gradient.

        Raises:
            ValueError: unless x is (b, n, d_model), and if mask or key_padding do not fit.
            TypeError: if mask or key_padding is not bool.
        """
        if x.dim() != 3 or x.shape[-1] != self.query.in_features:
            raise ValueError(
                f"x must be (b, n, d_model={self.query.in_features}), got {tuple(x.shape)}"
            )
        if key_padding is not None:
            check_padding(key_padding, x.shape[:2], x.device)
            x = finite_padding(x, key_padding)
        q, k, v = (
            f(x).unflatten(2, (-1, self.d_head)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        if key_padding is not None:
            if mask is not None:
                check_mask_of_heads(mask, torch.Size((*q.shape[:3], k.shape[2])), q.device)
            real = key_padding[:, None, None, :]
            mask = real if mask is None else mask & real
            # a weight of zero would not silence a product that has become infinite
            k, v = (real_only(x, key_padding) for x in (k, v))
        return self.out(grouped_attention(q, k, v, mask).transpose(1, 2).flatten(2))


def talking_heads_attention(
    q: Float[Tensor, "b h_k n_q d_head"],
    k: Float[Tensor, "b h_k n_k d_head"],
    v: Float[Tensor, "b h_v n_k d_v"],
    mix_scores: Float[Tensor, "h_k h"],
    mix_weights: Float[Tensor, "h h_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "b h_v n_q d_v"]:
    """Attention whose heads exchange scores before the softmax, and weights after it.

        scores_h = Σ_m mix_scores[m, h] · q_m k_mᵀ / √d_head,   weights_h = softmax(scores_h)
        out_m = Σ_h mix_weights[h, m] · weights_h v_m

    Costs n_q * n_k * h * (h_k + h_v) multiply-adds more than the h_k heads by themselves.

    Exact, as ordinary heads, if both mixtures are identities.

    Args:
        q: queries of h_k heads.
        k: keys of as many.
        v: values of h_v heads.
        mix_scores: from the h_k products to h rows of scores.
        mix_weights: from h rows of weights to the h_v heads of values.
        mask: True where a query may read, (n_q, n_k) or (b, 1 or h, n_q, n_k);
            applied between mixing and softmax, since a mixture of -inf and 0 · -inf is NaN.

    Raises:
        ValueError: if shapes do not fit.
        TypeError: if the tensors do not share a float dtype, or the mask is not bool.

    Source:
        Shazeer et al. 2020, "Talking-Heads Attention" (arXiv:2003.02436).

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4)
        >>> mixed = talking_heads_attention(q, k, v, torch.eye(2), torch.eye(2))
        >>> torch.allclose(mixed, attention(q, k, v), atol=1e-6)
        True
    """
    check_heads(q, k, k)
    check_heads(v, v, v)
    mix_scores, mix_weights = cast_with(q, mix_scores, mix_weights)
    check_dtypes(q=q, v=v, mix_scores=mix_scores, mix_weights=mix_weights)
    if v.shape[0] != k.shape[0] or v.shape[2] != k.shape[2]:
        raise ValueError(
            f"k and v must share b and n_k, got k {tuple(k.shape)} and v {tuple(v.shape)}"
        )
    h_k, h_v = k.shape[1], v.shape[1]
    fits = mix_scores.dim() == mix_weights.dim() == 2 and mix_scores.shape[1] == len(mix_weights)
    if not fits or len(mix_scores) != h_k or mix_weights.shape[1] != h_v:
        raise ValueError(
            f"mix_scores must be (h_k={h_k}, h) and mix_weights (h, h_v={h_v}), "
            f"got {tuple(mix_scores.shape)} and {tuple(mix_weights.shape)}"
        )
    # q is scaled before the product, as in `attention`: float16 ends at 65,504
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(2, 3)  # (b, h_k, n_q, n_k)
    if mask is not None:
        per_head = torch.Size((len(q), mix_scores.shape[1], q.shape[2], k.shape[2]))
        check_mask_of_heads(mask, per_head, q.device)
    weights = masked_softmax(torch.einsum("bmij,mh->bhij", scores, mix_scores), mask)
    return torch.einsum("bhij,hm->bmij", weights, mix_weights) @ v
