"""Zeros where there is no token."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor


def real_only(
    x: Float[Tensor, "b h n d"], key_padding: Bool[Tensor, "b n"] | None
) -> Float[Tensor, "b h n d"]:
    """x with zeros where no token is real, whatever stood there; x itself without key_padding.

    A weight of 0 does not keep a padded value out: 0 * NaN is NaN, and 0 * inf too.

    Example:
        >>> import torch
        >>> x = torch.tensor([1.0, float("nan")])[None, None, :, None]
        >>> real_only(x, torch.tensor([[True, False]])).flatten()
        tensor([1., 0.])
    """
    return x if key_padding is None else x.where(key_padding[:, None, :, None], 0.0)
