"""Blocks that are matched with other blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.patterns.base import Pattern, at_least, clipped, keep, listed, merged, whole_blocks


@dataclass(frozen=True)
class MatchedBlocks(Pattern):
    """Each block reads itself and one other block: what hard Sinkhorn attention computes.

    Query i is in block i // block_size, and its keys are those of that block and of block
    partners[i // block_size]. A block matched with itself reads nothing more. n queries cost at most
    2 * n * block_size scores, wherever the partners are. With `& Causal()` only earlier partners
    remain.

    Args:
        block_size: tokens in a block; the last one may be shorter.
        partners: for each block the one that it is matched with, usually a permutation.

    Raises:
        ValueError: if block_size is below 1, a partner is none of the blocks, or the pattern is
            asked about more tokens than its blocks hold.

    Source:
        Tay et al. 2020, "Sparse Sinkhorn Attention", section 3 (arXiv:2002.11296).

    Example:
        >>> MatchedBlocks(block_size=2, partners=(1, 0, 2)).mask(6).int()
        tensor([[1, 1, 1, 1, 0, 0],
                [1, 1, 1, 1, 0, 0],
                [1, 1, 1, 1, 0, 0],
                [1, 1, 1, 1, 0, 0],
                [0, 0, 0, 0, 1, 1],
                [0, 0, 0, 0, 1, 1]], dtype=torch.int32)
    """

    block_size: int
    partners: tuple[int, ...]

    def __post_init__(self) -> None:
        keep(
            self,
            block_size=at_least("block_size", self.block_size, 1),
            partners=listed("partners", self.partners, "blocks"),
        )
        for partner in self.partners:
            if not 0 <= partner < len(self.partners):
                raise ValueError(
                    f"a partner must be one of the blocks 0 … {len(self.partners) - 1}, got {partner}"
                )

    def check(self, n: int) -> None:
        if n > self.block_size * len(self.partners):
            raise ValueError(
                f"{len(self.partners)} blocks of {self.block_size} hold "
                f"{self.block_size * len(self.partners)} tokens, got n={n}"
            )

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        own, read = i // self.block_size, j // self.block_size
        partners = torch.tensor(self.partners, dtype=torch.long, device=i.device)
        return (read == own) | (read == partners[own])

    def reach(self, queries: range, n_k: int) -> list[range]:
        size = self.block_size
        blocks = range(queries.start // size, queries[-1] // size + 1)
        read = {block for own in blocks for block in (own, self.partners[own])}
        pieces = [clipped(block * size, (block + 1) * size, n_k) for block in read]
        return merged([keys for piece in pieces for keys in piece])

    def borders(self, n: int) -> list[int]:
        return whole_blocks(self.block_size, n)
