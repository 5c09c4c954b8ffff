"""Products with a matrix that is kept in pieces, one below the other, and never put together.

With `out=`, since `torch.utils.flop_counter` does not see products in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

FEW = 3  # pieces; more are copied together, since each product of short ones costs a call


def beside(
    left: Float[Tensor, "b n d"], right: Sequence[Tensor], out: Tensor, alpha: float
) -> None:
    """Write alpha * left @ rightᵀ into out: the columns of each piece beside the others'."""
    start = 0
    for piece in right:
        some = out[:, :, start : start + piece.shape[1]]
        torch.baddbmm(some, left, piece.transpose(1, 2), beta=0, alpha=alpha, out=some)
        start += piece.shape[1]


def sum_of_products(
    left: Float[Tensor, "b n m"],
    right: Sequence[Tensor],
    out: Tensor | None = None,
    alpha: float = 1.0,
) -> Float[Tensor, "b n d"]:
    """left @ right; with alpha * left @ right added to out, where that is given."""
    start = 0
    for piece in right:
        some = left[:, :, start : start + piece.shape[1]]
        if out is None:
            out = torch.bmm(some, piece)
        else:
            torch.baddbmm(out, some, piece, alpha=alpha, out=out)
        start += piece.shape[1]
    assert out is not None, "no pieces"
    return out


def few(pieces: list[Tensor]) -> list[Tensor]:
    """The pieces, or one that holds them all."""
    return pieces if len(pieces) <= FEW else [torch.cat(pieces, dim=1)]
