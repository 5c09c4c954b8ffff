"""Rules that look only at where the query and the key stand: the survey's atomic patterns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns.base import (
    LONGEST_STEP,
    Pattern,
    at_least,
    clipped,
    in_int64,
    keep,
    whole_blocks,
)


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

    def _count(self, n: int) -> int:
        return n * n

    def footprint(self, queries: range, keys: range) -> Hashable:
        return ()


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

    def _count(self, n: int) -> int:
        return n * (n + 1) // 2

    def reach(self, queries: range, n_k: int) -> list[range]:
        return clipped(0, queries[-1] + 1, n_k)

    def footprint(self, queries: range, keys: range) -> Hashable:
        if keys[-1] <= queries[0]:
            return "all"
        if keys[0] > queries[-1]:
            return "none"
        return _offset(queries, keys)


@dataclass(frozen=True)
class Window(Pattern):
    """A query reads the keys at most w positions away on either side: 2 * w + 1 of them.

    n queries cost n (2 w + 1) - w (w + 1) scores for n > w. Information travels w positions a
    layer, so ⌈(n - 1) / w⌉ layers join the two ends.

    Args:
        w: keys read on each side; 0 leaves the query its own key only.

    Raises:
        ValueError: if `w` is negative.

    Source:
        The band of Lin et al. 2022, section 4.1.1.1 (arXiv:2106.04554). Libraries that speak of
        a window size often count both sides: see `radius_from_window`.

    Example:
        >>> Window(1).mask(4).int()
        tensor([[1, 1, 0, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1],
                [0, 0, 1, 1]], dtype=torch.int32)
    """

    w: int

    def __post_init__(self) -> None:
        keep(self, w=at_least("w", self.w, 0, "keys per side"))

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return (j - i).abs() <= self.w

    def _count(self, n: int) -> int:
        w = min(self.w, max(n - 1, 0))
        return n * (2 * w + 1) - w * (w + 1)

    def reach(self, queries: range, n_k: int) -> list[range]:
        return clipped(queries[0] - self.w, queries[-1] + self.w + 1, n_k)

    @property
    def lookback(self) -> int:
        return self.w

    def footprint(self, queries: range, keys: range) -> Hashable:
        return _offset_within(self.w, queries, keys)


@dataclass(frozen=True)
class Dilated(Pattern):
    """Window with gaps: a query reads every `dilation`-th key on each side.

    Key j is allowed for query i when j - i = m * dilation for a whole number m with |m| <= w.
    Away from the ends a row holds 2 * w + 1 keys, so n queries cost O(n * w) scores while the
    reach is w * dilation positions. Alone it splits the sequence into `dilation` parts that never
    meet.

    Args:
        w: keys read on each side; 0 leaves the query its own key only.
        dilation: step between the keys read; 1 gives a plain window.

    Raises:
        ValueError: if `w` is negative or `dilation` is below 1.

    Source:
        Beltagy et al. 2020, "Longformer", section 3.1 (arXiv:2004.05150). Their
        window size counts both sides: it is 2 * w here.

    Example:
        >>> Dilated(w=1, dilation=2).mask(4).int()
        tensor([[1, 0, 1, 0],
                [0, 1, 0, 1],
                [1, 0, 1, 0],
                [0, 1, 0, 1]], dtype=torch.int32)
    """

    w: int
    dilation: int = 1

    def __post_init__(self) -> None:
        w = at_least("w", self.w, 0, "keys per side")
        keep(self, w=w, dilation=at_least("dilation", self.dilation, 1))
        in_int64("w * dilation", self.w * self.dilation)

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        offset = j - i
        in_reach = offset.abs() <= self.w * self.dilation
        return in_reach & (offset % self.dilation == 0)

    def _count(self, n: int) -> int:
        return sum(Window(self.w)._count(len(c)) for c in _residue_classes(n, self.dilation))

    def reach(self, queries: range, n_k: int) -> list[range]:
        far = self.w * self.dilation
        step = self.dilation if queries.step % self.dilation == 0 or len(queries) == 1 else 1
        return clipped(queries[0] - far, queries[-1] + far + 1, n_k, step)

    @property
    def step(self) -> int:
        return min(self.dilation, LONGEST_STEP)

    @property
    def lookback(self) -> int:
        return self.w * self.dilation

    def footprint(self, queries: range, keys: range) -> Hashable:
        return _offset_within(self.w * self.dilation, queries, keys)


@dataclass(frozen=True)
class Strided(Pattern):
    """A query reads every `stride`-th key, its own among them: about n² / stride pairs.

    Alone it splits the sequence into `stride` parts that never meet.

    Args:
        stride: step between the keys read.

    Raises:
        ValueError: if `stride` is below 1.

    Source:
        Child et al. 2019, section 4.3 (arXiv:1904.10509), there causal.

    Example:
        >>> Strided(3).edges(9)
        27
    """

    stride: int

    def __post_init__(self) -> None:
        keep(self, stride=at_least("stride", self.stride, 1))

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return (j - i) % self.stride == 0

    def _count(self, n: int) -> int:
        return sum(len(c) ** 2 for c in _residue_classes(n, self.stride))

    def reach(self, queries: range, n_k: int) -> list[range]:
        if queries.step % self.stride == 0 or len(queries) == 1:
            return clipped(queries[0] % self.stride, n_k, n_k, self.stride)
        return [range(n_k)]

    @property
    def step(self) -> int:
        return min(self.stride, LONGEST_STEP)

    def footprint(self, queries: range, keys: range) -> Hashable:
        return (keys[0] - queries[0]) % self.stride, queries.step, keys.step


@dataclass(frozen=True)
class BlockLocal(Pattern):
    """The sequence is cut into blocks; a query reads its own block, and neighbours if asked.

    n queries cost n * block_size scores for each block they read, when block_size divides n; the
    last block may be short. Without neighbours two blocks never meet.

    Args:
        block_size: tokens in a block.
        before: how many blocks before its own a query reads.
        after: how many behind.

    Raises:
        ValueError: if `block_size` is below 1, or `before` or `after` negative.

    Source:
        Lin et al. 2022, section 4.1.1.1 (arXiv:2106.04554): block local attention, and its memory
        blocks that differ from the query's.

    Example:
        >>> BlockLocal(2, before=1).mask(5).int()
        tensor([[1, 1, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [1, 1, 1, 1, 0],
                [1, 1, 1, 1, 0],
                [0, 0, 1, 1, 1]], dtype=torch.int32)
    """

    block_size: int
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        keep(
            self,
            block_size=at_least("block_size", self.block_size, 1),
            before=at_least("before", self.before, 0, "blocks"),
            after=at_least("after", self.after, 0, "blocks"),
        )

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        ahead = j // self.block_size - i // self.block_size
        return (ahead >= -self.before) & (ahead <= self.after)

    def _count(self, n: int) -> int:
        sizes = [
            len(range(at, min(at + self.block_size, n))) for at in range(0, n, self.block_size)
        ]
        keys = [sum(sizes[max(0, b - self.before) : b + self.after + 1]) for b in range(len(sizes))]
        return sum(rows * columns for rows, columns in zip(sizes, keys, strict=True))

    def reach(self, queries: range, n_k: int) -> list[range]:
        first = queries[0] // self.block_size - self.before
        last = queries[-1] // self.block_size + self.after
        return clipped(first * self.block_size, (last + 1) * self.block_size, n_k)

    @property
    def lookback(self) -> int:
        return (self.before + 1) * self.block_size - 1

    def borders(self, n: int) -> list[int]:
        return whole_blocks(self.block_size, n)

    def footprint(self, queries: range, keys: range) -> Hashable:
        size = self.block_size
        if keys[0] // size - queries[-1] // size > self.after:
            return "none"
        if queries[0] // size - keys[-1] // size > self.before:
            return "none"
        return queries[0] % size, *_offset(queries, keys)


def radius_from_window(window: int) -> int:
    """w for a library whose window counts the keys on both sides, the query's own not among them.

    Raises:
        ValueError: if `window` is negative or odd.

    Source:
        Longformer and its port in transformers: `attention_window=512` is w = 256, which is
        513 keys.

    Example:
        >>> radius_from_window(512)
        256
    """
    (window,) = whole_numbers(window=window)
    if window < 0 or window % 2:
        raise ValueError(
            f"a window that counts both sides must be even and 0 or more, got {window}"
        )
    return window // 2


def _offset(queries: range, keys: range) -> tuple[int, int, int]:
    """All that a rule on j - i can depend on."""
    return keys[0] - queries[0], queries.step, keys.step


def _offset_within(far: int, queries: range, keys: range) -> Hashable:
    """The same for a rule that allows no pair more than `far` positions apart."""
    apart = keys[0] - queries[-1] > far or queries[0] - keys[-1] > far
    return "none" if apart else _offset(queries, keys)


def _residue_classes(n: int, step: int) -> list[range]:
    return [range(first, n, step) for first in range(min(step, n))]
