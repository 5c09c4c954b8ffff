"""The tree of BP-Transformer: a token reads its neighbours one by one and the rest in spans."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns.base import (
    QUERIES_PER_GROUP,
    Order,
    Pattern,
    at_least,
    clipped,
    in_int64,
    keep,
    merged,
)


def bp_transformer(n: int, k: int, *, causal: bool = False) -> Pattern:
    """Tokens and the spans of a binary tree over them: at most about 2 k n log(n / k) + n log n pairs.

    The tree stands in the sequence. Its leaves, the n tokens, come first, then the spans of two
    tokens, of four, and so on up to the root: 2 n - 1 nodes. An n between two powers of two is
    rounded up, and the text has to be padded to match.

    - A span reads the tokens below it, and a token reads itself.
    - A token reads, to its left and to its right, the k nearest tokens, then the next k spans of
      two, the next k of four, outwards to the ends. Where a span of the next size would overlap
      what has been read, its outer half stands in for the first of them.

    What a token reads tiles the whole sequence: each token once, by itself or in one span. So any
    token reaches any other in two hops, through a span of the other's. No token reads a span that
    it lies in.

    Args:
        n: tokens.
        k: nodes that a token takes on each side at each step from leaf to root.
        causal: whether a token reads to its left only. Spans read all of their tokens all the
            same; a token reads no span that ends behind it.

    Raises:
        ValueError: if n or k is below 1; when used on more than 2 n - 1 nodes.

    Source:
        Ye et al. 2019, section 3 (arXiv:1911.04070). Their code cuts spans short where n is no
        power of two, and then misses some tokens and reads others twice.

    Example:
        >>> bp_transformer(4, k=1).mask(7).int()
        tensor([[1, 1, 0, 0, 0, 1, 0],
                [1, 1, 1, 1, 0, 0, 0],
                [1, 1, 1, 1, 0, 0, 0],
                [0, 0, 1, 1, 1, 0, 0],
                [1, 1, 0, 0, 0, 0, 0],
                [0, 0, 1, 1, 0, 0, 0],
                [1, 1, 1, 1, 0, 0, 0]], dtype=torch.int32)
    """
    n = at_least("n", n, 1, "tokens")
    return BinaryTree(1 << (n - 1).bit_length(), k, causal)


@dataclass(frozen=True)
class BinaryTree(Pattern):
    """What `bp_transformer` returns; n is a power of two.

    Node `place` of a level covers tokens place * 2^level … (place + 1) * 2^level - 1. Reading
    outwards to the right, token i has arrived at node

        u(level) = 2 k + ⌊(i + 1 - k) / 2^level⌋

    of a level when it goes on to the next: u(0) = i + 1 + k, and u(level) = ⌊u(level - 1) / 2⌋ + k
    because k nodes were read there, the first of them a half one if u(level - 1) is odd. The left
    side is the right one of the sequence turned around.
    """

    n: int
    k: int
    causal: bool = False

    def __post_init__(self) -> None:
        (n,) = whole_numbers(n=self.n)
        keep(self, n=n, k=at_least("k", self.k, 1, "nodes"))
        if self.n < 1 or self.n & (self.n - 1):
            raise ValueError(f"n must be a power of two, got {self.n}; bp_transformer rounds up")
        in_int64("2 n, and 2 k,", 2 * max(self.n, self.k))

    @property
    def depth(self) -> int:
        """Levels above the tokens."""
        return self.n.bit_length() - 1

    @property
    def n_nodes(self) -> int:
        """Tokens and spans together."""
        return 2 * self.n - 1

    def first(self, level: int) -> int:
        """Position of the first node of a level, whose others follow."""
        return 2 * self.n - (2 * self.n >> level)

    def levels(self, n_k: int) -> list[range]:
        """The positions of each level among the first n_k."""
        starts = [self.first(level) for level in range(self.depth + 2)]
        return [range(min(start, n_k), min(stop, n_k)) for start, stop in pairwise(starts)]

    def level_and_place(
        self, at: Integer[Tensor, "..."]
    ) -> tuple[Int64[Tensor, "..."], Int64[Tensor, "..."]]:
        """Level of each node, and how many nodes of that level stand to its left.

        Example:
            >>> BinaryTree(4, k=1).level_and_place(torch.arange(7))
            (tensor([0, 0, 0, 0, 1, 1, 2]), tensor([0, 1, 2, 3, 0, 1, 0]))
        """
        from_the_root = self.n_nodes - at.long()  # 1 for the root, 2 and 3 below it, and so on
        _, bits = torch.frexp(from_the_root.double())
        level = self.depth + 1 - bits.long()
        return level, at.long() - (2 * self.n - (2 * self.n >> level))

    def check(self, n: int) -> None:
        if n > self.n_nodes:
            raise ValueError(
                f"a tree over n={self.n} tokens has {self.n_nodes} nodes, got {n}; "
                "build one for more tokens"
            )

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        level_i, place_i = self.level_and_place(i)
        level, place = self.level_and_place(j)
        is_token = i < self.n
        below = ~is_token & (level == 0) & (place >> level_i == place_i)
        around = (i == j) | self._outwards(self.n - 1 - i, level, self._turned(level, place))
        if not self.causal:
            around = around | self._outwards(i, level, place)
        return below | (is_token & around)

    def edge_types(
        self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."], clip: int
    ) -> Int64[Tensor, "..."]:
        """A number for what j is to i: (2 k + 1) * min(level, clip) + slot, -1 where i reads it not.

        The level is the one whose turn it was when j was read, a half span's own level plus one.
        Slots 0 … k - 1 count outwards to the left, k … 2 k - 1 to the right, and 2 k is a token
        for itself or for the span that it lies in.
        """
        i, j = torch.broadcast_tensors(i, j)
        level_i, _ = self.level_and_place(i)
        level, place = self.level_and_place(j)
        slot = torch.full_like(level, 2 * self.k)
        turn = level_i.clone()
        for origin, seen, offset in (
            (self.n - 1 - i, self._turned(level, place), 0),
            (i, place, self.k),
        ):
            here = (i < self.n) & self._outwards(origin, level, seen)
            half = seen == self._arrived(origin, level)  # stands in for a span of the next level
            before = self._arrived(origin, level - 1)
            start = torch.where(level == 0, origin + 1, before >> 1)  # the half one takes a slot
            at = torch.where(half, 0, seen - start)
            slot = torch.where(here, at + offset, slot)
            turn = torch.where(here, level + half.long(), turn)
        types = (2 * self.k + 1) * turn.clamp(max=clip) + slot
        return torch.where(self.allowed(i, j), types, -1)

    def _arrived(self, i: Tensor, level: Tensor) -> Tensor:
        """u(level): the first node to the right of all that has been read."""
        return 2 * self.k + ((i + 1 - self.k) >> level.clamp(min=0))

    def _bounds(self, i: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """The nodes of a level that token i reads on its right: first, and one behind the last."""
        before = self._arrived(i, level - 1)
        first = torch.where(level == 0, i + 1, (before + 1) >> 1)
        arrived = self._arrived(i, level)
        return first, arrived + arrived % 2  # the half one, if the next level begins with it

    def _outwards(self, i: Tensor, level: Tensor, place: Tensor) -> Tensor:
        first, stop = self._bounds(i, level)
        return (first <= place) & (place < stop)

    def _turned(self, level: Tensor, place: Tensor) -> Tensor:
        """The place of a node in the sequence turned around."""
        return (self.n >> level) - 1 - place

    def _count(self, n: int) -> int:
        if n < self.n_nodes:
            return super()._count(n)
        total = self.n * (self.depth + 1)  # a token for itself, and below each level's spans
        i = torch.arange(self.n)
        for level in range(self.depth):
            first, stop = self._bounds(i, torch.tensor(level))
            size = self.n >> level
            one_side = int((stop.clamp(max=size) - first.clamp(max=size)).sum())
            total += one_side if self.causal else 2 * one_side
        return total

    def reach(self, queries: range, n_k: int) -> list[range]:
        n_tokens = min(n_k, self.n)
        keys: list[range] = []
        if queries[0] < self.n:
            keys += self._around(queries[0], min(queries[-1], self.n - 1), n_k)
        for level in range(self._level(queries[0]), self._level(queries[-1]) + 1):
            nodes = range(self.first(level), self.first(level + 1))
            left = max(queries[0], nodes.start) - nodes.start
            right = min(queries[-1] + 1, nodes.stop) - nodes.start
            keys += clipped(left << level, right << level, n_tokens)
        return merged(keys)

    def _around(self, a: int, b: int, n_k: int) -> list[range]:
        """What any of the tokens a … b reads besides itself, level by level."""
        keys: list[range] = []
        for level in range(self.depth):
            start, size = self.first(level), self.n >> level
            right = range(self._first(a, level), min(self._stop(b, level), size))
            left = range(
                max(size - self._stop(self.n - 1 - a, level), 0),
                size - self._first(self.n - 1 - b, level),
            )
            for side in (left,) if self.causal else (left, right):
                keys += clipped(start + side.start, min(start + side.stop, start + size), n_k)
        return keys

    def _first(self, i: int, level: int) -> int:
        """`_bounds`, its first half, of one token."""
        if level == 0:
            return i + 1
        return (2 * self.k + ((i + 1 - self.k) >> (level - 1)) + 1) >> 1

    def _stop(self, i: int, level: int) -> int:
        """`_bounds`, its second half, of one token."""
        arrived = 2 * self.k + ((i + 1 - self.k) >> level)
        return arrived + arrived % 2

    def _level(self, at: int) -> int:
        return self.depth + 1 - (self.n_nodes - at).bit_length()

    @property
    def order(self) -> Branches:
        return Branches(self.n)

    def footprint(self, queries: range, keys: range) -> Hashable | None:
        """Spans look alike all along a level; tokens do not, as each has its own way up."""
        if queries[0] < self.n or keys[-1] >= self.n:
            return None
        level = self._level(queries[0])
        place = queries[0] - self.first(level)
        if queries[-1] >= self.first(level + 1):
            return None
        return level, keys[0] - (place << level)


@dataclass(frozen=True)
class Branches(Order):
    """Neighbouring tokens together; the small spans over the same tokens; each large span alone.

    Spans of one level that are neighbours read tokens that are not: computed together, each would
    pay for the others' tokens.
    """

    n: int

    def groups(self, n: int) -> list[list[range]]:
        tree = BinaryTree(self.n, 1)
        levels = tree.levels(n)
        size = min(QUERIES_PER_GROUP, self.n)
        shared = size.bit_length() - 1  # levels whose spans are at most as long as a group
        groups = [[range(at, min(at + size, n))] for at in range(0, len(levels[0]), size)]
        for start in range(0, self.n, size):
            spans = []
            for level in range(1, shared + 1):
                left, right = start >> level, (start + size) >> level
                first = tree.first(level)
                spans += clipped(first + left, first + right, n)
            groups.append(spans)
        return groups + [[range(at, at + 1)] for nodes in levels[shared + 1 :] for at in nodes]
