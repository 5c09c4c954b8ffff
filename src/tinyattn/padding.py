"""Padding: which tokens are real, and nothing that spreads where none is.

A weight of 0 does not keep a padded value out: 0 · NaN is NaN, and 0 · inf too, in a sum over values
and in every gradient.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.dense import check_tensors


def check_padding(
    padding: Tensor,
    shape: tuple[int, ...],
    device: torch.device,
    *,
    name: str = "key_padding",
    each: str = "token",
) -> None:
    """Refuse a padding that is not one bool for each token: `shape` is (b, n).

    Raises:
        ValueError: if shape or device are others.
        TypeError: if it is no tensor, or not bool.
    """
    check_tensors(**{name: padding})
    if padding.dtype != torch.bool:
        raise TypeError(f"{name} must be bool with True for a real token, got {padding.dtype}")
    if padding.shape != shape:
        raise ValueError(
            f"{name} must have one entry for each {each}: (b, n) = {tuple(shape)}, "
            f"got {tuple(padding.shape)}"
        )
    if padding.device != device:
        raise ValueError(
            f"{name} must be on the device of the tokens, {device}, got {padding.device}"
        )


def finite_padding(
    x: Float[Tensor, "b n d"], real: Bool[Tensor, "b n"] | None
) -> Float[Tensor, "b n d"]:
    """Token vectors with zeros for numbers too large where no token is real; x itself without `real`.

    Too large are NaN, infinities, and all beyond the fourth root of the dtype's largest number: scores and
    variances multiply two projections of a token, and where those overflow, 0 · inf in the
    backward pass of a softmax or a LayerNorm is NaN in the gradient of every weight. Smaller
    numbers stay, so that a layer still answers for those tokens as it always did. The dtype is
    that of the products: the narrower of x's own and autocast's.

    Example:
        >>> finite_padding(torch.tensor([[[1.0], [torch.nan]]]), torch.tensor([[True, False]]))
        tensor([[[1.],
                 [0.]]])
    """
    if real is None:
        return x
    largest = min(torch.finfo(dtype).max for dtype in _dtypes_of_products(x)) ** 0.25
    if (x.detach()[~real].abs() <= largest).all():  # as nearly always; False for NaN
        return x
    return x.masked_fill(~(real[..., None] | (x.abs() <= largest)), 0.0)


def _dtypes_of_products(x: Tensor) -> list[torch.dtype]:
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return [x.dtype, torch.get_autocast_dtype(device)]
    return [x.dtype]


def real_only(
    x: Float[Tensor, "b h n d"], key_padding: Bool[Tensor, "b n"] | None
) -> Float[Tensor, "b h n d"]:
    """Heads with zeros where no token is real, whatever stood there; x without key_padding.

    Example:
        >>> x = torch.tensor([1.0, float("nan")])[None, None, :, None]
        >>> real_only(x, torch.tensor([[True, False]])).flatten()
        tensor([1., 0.])
    """
    return x if key_padding is None else x.where(key_padding[:, None, :, None], 0.0)
