"""Rules that look only at where the query and the key stand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.patterns.base import Pattern, check_lengths


@dataclass(frozen=True)
class Full(Pattern):
    """Every query reads every key: n² pairs, one hop from anywhere to anywhere.

    Example:
        >>> Full().edges(5)
        25
    """

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        shape = torch.broadcast_shapes(i.shape, j.shape)
        return torch.ones(shape, dtype=torch.bool, device=i.device)

    def edges(self, n: int) -> int:
        check_lengths(n, n)
        return n * n


@dataclass(frozen=True)
class Causal(Pattern):
    """A query reads its own position and those before it: n (n + 1) / 2 pairs.

    With fewer queries than keys the matrix is aligned at the bottom right, as decoding with a
    cache needs. `torch`'s `is_causal=True` aligns at the top left instead.

    Example:
        >>> Causal().mask(2, 4).int()
        tensor([[1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)
    """

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return j <= i

    def edges(self, n: int) -> int:
        check_lengths(n, n)
        return n * (n + 1) // 2
