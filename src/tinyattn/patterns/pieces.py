"""Rules that only some published models need."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns.base import Pattern, at_least, clipped, in_int64, keep, listed, merged


@dataclass(frozen=True)
class LastOfBlock(Pattern):
    """Every query reads the last c keys of every block.

    Args:
        block_size: tokens in a block.
        c: keys at the end of each, at most block_size.

    Raises:
        ValueError: if block_size is below 1, or c outside 1 … block_size.

    Example:
        >>> LastOfBlock(3, c=1).mask(1, 7).int()
        tensor([[0, 0, 1, 0, 0, 1, 0]], dtype=torch.int32)
    """

    block_size: int
    c: int

    def __post_init__(self) -> None:
        block_size, c = whole_numbers(block_size=self.block_size, c=self.c)
        keep(self, block_size=block_size, c=c)
        if self.block_size < 1 or not 1 <= self.c <= self.block_size:
            raise ValueError(
                "block_size must be 1 or more and c in 1 … block_size, "
                f"got block_size={self.block_size}, c={self.c}"
            )
        in_int64("block_size", self.block_size)

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        shape = torch.broadcast_shapes(i.shape, j.shape)
        return (j % self.block_size >= self.block_size - self.c).expand(shape)

    def _count(self, n: int) -> int:
        whole, rest = divmod(n, self.block_size)
        return n * (whole * self.c + max(0, rest - (self.block_size - self.c)))

    def reach(self, queries: range, n_k: int) -> list[range]:
        stops = range(self.block_size, n_k + self.c, self.block_size)
        return merged([keys for stop in stops for keys in clipped(stop - self.c, stop, n_k)])

    def footprint(self, queries: range, keys: range) -> Hashable:
        return keys.start % self.block_size


@dataclass(frozen=True)
class After(Pattern):
    """Tokens from position `start` on read each other; those before read and are read by nobody.

    Raises:
        ValueError: if `start` is negative.

    Example:
        >>> After(2).edges(5)
        9
    """

    start: int

    def __post_init__(self) -> None:
        keep(self, start=at_least("start", self.start, 0, "tokens"))

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return (i >= self.start) & (j >= self.start)

    def _count(self, n: int) -> int:
        return max(0, n - self.start) ** 2

    def reach(self, queries: range, n_k: int) -> list[range]:
        return clipped(self.start, n_k, n_k) if queries[-1] >= self.start else []

    def borders(self, n: int) -> list[int]:
        return [self.start]

    def footprint(self, queries: range, keys: range) -> Hashable:
        return tuple(max(0, self.start - at.start) for at in (queries, keys))


@dataclass(frozen=True)
class Summaries(Pattern):
    """Token s, one of the first, reads sentence s of the text that follows them.

    Args:
        sentences: tokens in each sentence.

    Raises:
        ValueError: if a length is negative.

    Example:
        >>> Summaries((2, 1)).mask(5).int()[:2]
        tensor([[0, 0, 1, 1, 0],
                [0, 0, 0, 0, 1]], dtype=torch.int32)
    """

    sentences: tuple[int, ...]

    def __post_init__(self) -> None:
        keep(self, sentences=listed("sentences", self.sentences, "lengths"))
        if any(length < 0 for length in self.sentences):
            raise ValueError(f"sentences must have 0 tokens or more, got {self.sentences}")
        in_int64("the number of tokens in sentences", self._bounds()[-1])

    def _bounds(self) -> list[int]:
        return list(accumulate(self.sentences, initial=len(self.sentences)))

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        bounds = j.new_tensor([*self._bounds(), self._bounds()[-1]])
        summary = i.clamp(max=len(self.sentences))
        return (bounds[summary] <= j) & (j < bounds[(summary + 1)])

    def _count(self, n: int) -> int:
        bounds = [min(b, n) for b in self._bounds()]
        return sum(stop - start for start, stop in pairwise(bounds))

    def reach(self, queries: range, n_k: int) -> list[range]:
        bounds = self._bounds()
        first, last = queries[0], min(queries[-1], len(self.sentences) - 1)
        return clipped(bounds[first], bounds[last + 1], n_k) if first <= last else []

    def borders(self, n: int) -> list[int]:
        return [len(self.sentences)]
