"""Padding: which tokens are real, and nothing but finite numbers where none is."""

from __future__ import annotations

import torch
from torch import Tensor


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
        TypeError: if it is not bool.
    """
    if padding.dtype != torch.bool:
        raise TypeError(f"{name} must be bool with True for a real token, got {padding.dtype}")
    if padding.shape != shape:
        raise ValueError(
            f"{name} must have one entry for each {each}: (b, n) = {tuple(shape)}, "
            f"got {tuple(padding.shape)}"
        )
    if padding.device != device:
        raise ValueError(f"{name} must be on the device of x, {device}, got {padding.device}")


def finite_padding(x: Tensor, real: Tensor | None) -> Tensor:
    """x (b, n, d), with zero for NaN and infinities where `real` (b, n) is False; x itself without it.

    A weight of zero alone would not silence them: 0 · NaN is NaN, in the sum over values and in
    every gradient. Nothing else changes.

    Example:
        >>> finite_padding(torch.tensor([[[1.0], [torch.nan]]]), torch.tensor([[True, False]]))
        tensor([[[1.],
                 [0.]]])
    """
    return x if real is None else x.masked_fill(~(real[..., None] | x.isfinite()), 0.0)
