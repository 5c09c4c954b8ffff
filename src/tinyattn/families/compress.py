"""Memory compression: fewer keys and values, each a mixture of the old ones."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.dense import attention
from tinyattn.families.shapes import (
    cast_with,
    check_dtypes,
    check_heads,
    check_sizes,
    without_autocast,
)
from tinyattn.padding import check_padding, finite_padding, real_only


def compressed_attention(
    q: Float[Tensor, "b h n_q d_head"],
    k: Float[Tensor, "b h n_k d_head"],
    v: Float[Tensor, "b h n_k d_v"],
    mix_keys: Float[Tensor, "*h n_memory n_k"],
    mix_values: Float[Tensor, "*h n_memory n_k"],
    *,
    key_padding: Bool[Tensor, "b n_k"] | None = None,
) -> Float[Tensor, "b h n_q d_v"]:
    """Attention to n_memory mixtures of the keys and values.

        out = attention(q, E k, F v)

    Costs n_memory * n_k * (d_head + d_v) multiply-adds to mix and n_q * n_memory * (d_head + d_v)
    to attend: linear in both lengths. Every mixture holds every token, so no causal form exists:
    a mixture that a query may read in part cannot be read in part.

    Exact if E = F is the identity or another permutation (n_memory = n_k).

    Args:
        q: queries.
        k: keys.
        v: values.
        mix_keys: E, one row for each slot of the memory; the same for all heads, or one a head.
        mix_values: F.
        key_padding: True where a key is a real token; the others are zero in every mixture,
            so that a sequence without any gets zeros.

    Raises:
        ValueError: if shapes do not fit.
        TypeError: if the tensors do not share a float dtype.

    Source:
        Wang et al. 2020, "Linformer", equation 7 (arXiv:2006.04768), whose k is n_memory here.

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 50, 4)
        >>> torch.allclose(
        ...     compressed_attention(q, k, v, torch.eye(50), torch.eye(50)),
        ...     attention(q, k, v), atol=1e-6,
        ... )
        True
    """
    check_heads(q, k, v, key_padding)
    mix_keys, mix_values = cast_with(q, mix_keys, mix_values)
    check_dtypes(q=q, mix_keys=mix_keys, mix_values=mix_values)
    h, n_k = k.shape[1:3]
    for name, mix in (("mix_keys", mix_keys), ("mix_values", mix_values)):
        if mix.dim() not in (2, 3) or mix.shape[-1] != n_k or mix.shape[:-2] not in ((), (h,)):
            raise ValueError(
                f"{name} must be (n_memory, n_k={n_k}), for all heads or each of {h}, "
                f"got {tuple(mix.shape)}"
            )
    if mix_keys.shape[-2] != mix_values.shape[-2]:
        raise ValueError(
            "mix_keys and mix_values must fill the same slots, "
            f"got {mix_keys.shape[-2]} and {mix_values.shape[-2]}"
        )
    if key_padding is not None:
        k, v = (real_only(x, key_padding) for x in (k, v))
    with without_autocast(q):  # or the mixtures alone would be in half precision
        return attention(q, mix_keys @ k, mix_values @ v)


class Linformer(nn.Module):
    """Multi-head self-attention over a memory of fixed size, learned for sequences of up to n.

    Parameters: those of `MultiHeadAttention`, and 2 * n_memory * n for the two mixtures, which
    all heads share. A shorter sequence uses their first columns; a longer one is refused.

    Args:
        d_model: width of a token vector.
        n_heads: number of heads; divides d_model.
        n: tokens of the longest sequence.
        n_memory: slots.

    Raises:
        ValueError: if a size is below 1, or n_heads does not divide d_model.

    Source:
        Wang et al. 2020, section 4, "headwise sharing" (arXiv:2006.04768).

    Example:
        >>> Linformer(8, n_heads=2, n=100, n_memory=10)(torch.randn(1, 80, 8)).shape
        torch.Size([1, 80, 8])
    """

    def __init__(self, d_model: int, n_heads: int, *, n: int, n_memory: int) -> None:
        super().__init__()
        d_model, n_heads, n, n_memory = check_sizes(
            d_model=d_model, n_heads=n_heads, n=n, n_memory=n_memory
        )
        if d_model % n_heads:
            raise ValueError(
                f"d_model must be divisible by n_heads, got d_model={d_model} and n_heads={n_heads}"
            )
        self.n_heads = n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.mix_keys = nn.Parameter(torch.randn(n_memory, n) * n**-0.5)
        self.mix_values = nn.Parameter(torch.randn(n_memory, n) * n**-0.5)

    def forward(
        self, x: Float[Tensor, "b n d_model"], *, key_padding: Bool[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n d_model"]:
        """NaN and numbers too large in padded tokens of x count as zero.

        Raises:
            ValueError: if x is not (b, n, d_model) or longer than the mixtures, or key_padding
                not (b, n).
            TypeError: if key_padding is not bool.
        """
        longest = self.mix_keys.shape[1]
        if x.dim() != 3 or x.shape[-1] != self.query.in_features or x.shape[1] > longest:
            raise ValueError(
                f"x must be (b, n, d_model={self.query.in_features}) with n up to {longest}, "
                f"got {tuple(x.shape)}"
            )
        if key_padding is not None:
            check_padding(key_padding, x.shape[:2], x.device)
            x = finite_padding(x, key_padding)
        q, k, v = (
            f(x).unflatten(2, (self.n_heads, -1)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        n = x.shape[1]
        heads = compressed_attention(
            q, k, v, self.mix_keys[:, :n], self.mix_values[:, :n], key_padding=key_padding
        )
        return self.out(heads.transpose(1, 2).flatten(2))
