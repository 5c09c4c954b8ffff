"""Attention with a prior: a belief about positions beside the scores, or instead of them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.dense import check_mask_of_heads, masked_softmax


def gaussian_prior(
    n: int, n_k: int | None = None, *, spread: float, offset: float = 0.0
) -> Float[Tensor, "n n_k"]:
    """The logarithm of a bell curve over keys, centred `offset` positions from each query.

        prior_ij = −(j − i − offset)² / (2 spread²)

    As the `bias` of `attention` it multiplies the weights by the curve, and the softmax divides
    by their new sum. As `attention` costs O(n²), so does this; it favours neighbours and saves
    nothing. An infinite spread is no prior at all: then attention is exact.

    Args:
        n: queries; the last one stands at the last key.
        n_k: keys; n if not given.
        spread: standard deviation of the curve, in positions.
        offset: where its middle lies; -1 is the token before.

    Raises:
        ValueError: if n is negative, n_k below n, spread not above 0, or offset not finite.

    Source:
        Yang et al. 2018, equation 6 (arXiv:1810.10182), who let a network choose middle and
        spread for each query, and Guo et al. 2019, "Gaussian Transformer", with one learned
        factor in place of 1 / (2 spread²). Lin et al. 2022, section 4.5.1.

    Example:
        >>> gaussian_prior(3, spread=1.0)
        tensor([[-0.0000, -0.5000, -2.0000],
                [-0.5000, -0.0000, -0.5000],
                [-2.0000, -0.5000, -0.0000]])
    """
    n_k = n if n_k is None else n_k
    n, n_k = whole_numbers(n=n, n_k=n_k)
    if not 0 <= n <= n_k:
        raise ValueError(f"a prior needs 0 <= n <= n_k, got n={n}, n_k={n_k}")
    if not spread > 0 or not math.isfinite(offset):
        raise ValueError(
            f"spread must be above 0 and offset finite, got spread={spread}, offset={offset}"
        )
    i, j = torch.arange(n)[:, None] + (n_k - n), torch.arange(n_k)
    away = ((j - i).double() - offset) / spread  # squared after it: spread² may be 0 or infinite
    return (-(away**2) / 2).to(torch.get_default_dtype())


def prior_attention(
    v: Float[Tensor, "b h n_k d_v"],
    prior: Float[Tensor, "*h n n_k"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Attention with a prior only: no queries, no keys, the same weights for every input.

        out = softmax(prior) v

    Saves two of four projections and the products q kᵀ; n * n_k weights remain. At the ends of
    a sequence the softmax shares out what the curve has beyond them.

    Args:
        v: values.
        prior: logarithms of weights, for all heads or one matrix for each.
        mask: True where a query may read, (n, n_k) or (b, 1 or h, n, n_k); a query that may read
            nothing outputs zeros.

    Raises:
        ValueError: if shapes do not fit.

    Source:
        You et al. 2020, "Hard-coded Gaussian attention" (arXiv:2005.00742): heads with a spread
        of 1 around the token before, the token itself and the one after. A prior of zeros with a
        causal mask is the average attention of Zhang et al. 2018 (arXiv:1805.00631).

    Example:
        >>> v = torch.arange(4.0)[None, None, :, None]
        >>> prior_attention(v, torch.zeros(4, 4), torch.ones(4, 4).tril() > 0).flatten()
        tensor([0.0000, 0.5000, 1.0000, 1.5000])
    """
    shapes = f"got v {tuple(v.shape)} and prior {tuple(prior.shape)}"
    if v.dim() != 4 or prior.dim() not in (2, 3) or prior.shape[-1] != v.shape[2]:
        raise ValueError(f"v must be (b, h, n_k, d_v) and prior (n, n_k) or (h, n, n_k), {shapes}")
    if prior.dim() == 3 and len(prior) != v.shape[1]:
        raise ValueError(f"a prior for each head needs as many as v has, {shapes}")
    b, h = v.shape[:2]
    prior = prior.to(v).expand(b, h, *prior.shape[-2:])
    if mask is not None:
        check_mask_of_heads(mask, prior.shape, v.device)
    return masked_softmax(prior, mask) @ v
