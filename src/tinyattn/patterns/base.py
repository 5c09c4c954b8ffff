"""What every pattern answers, and how two of them combine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.checks import whole_numbers


class Pattern:
    """A rule that says which keys a query may read.

    A pattern is a frozen dataclass that answers `allowed(i, j)` elementwise. Its matrix and its
    count come from that one answer. `a | b` allows what either allows, `a & b` what both do.
    """

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        """Whether the query at position `i` may read the key at `j`, on shapes that broadcast."""
        raise TypeError(f"{type(self).__name__} must define allowed(i, j)")

    def mask(self, n: int, n_k: int | None = None) -> Bool[Tensor, "n n_k"]:
        """The rule as a bool matrix of n queries (rows) by n_k keys (columns).

        The last query stands at the last key: row r is position r + n_k - n, so that a decoder
        which asks for one more token after n_k - 1 cached ones gets the row it needs.

        Raises:
            ValueError: if n is negative, or n_k is below n.
        """
        i, j = positions(n, n_k)
        allowed = self.allowed(i[:, None], j[None, :])
        return allowed.expand(len(i), len(j)).contiguous()

    def edges(self, n: int) -> int:
        """How many (query, key) pairs are allowed among n tokens."""
        return int(self.mask(n).sum())

    def __or__(self, other: Pattern) -> Pattern:
        return Union(self, other) if isinstance(other, Pattern) else NotImplemented

    def __and__(self, other: Pattern) -> Pattern:
        return Intersection(self, other) if isinstance(other, Pattern) else NotImplemented

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} is a rule and has no truth value; combine patterns with | and &, "
            "and ask allowed(i, j) or mask(n) for its answers"
        )


@dataclass(frozen=True, repr=False)
class Union(Pattern):
    """Allows what either of two patterns allows; a pair that both allow counts once."""

    left: Pattern
    right: Pattern

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return self.left.allowed(i, j) | self.right.allowed(i, j)

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, repr=False)
class Intersection(Pattern):
    """Allows what both of two patterns allow."""

    left: Pattern
    right: Pattern

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return self.left.allowed(i, j) & self.right.allowed(i, j)

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


def check_lengths(n: int, n_k: int) -> None:
    """Refuse numbers of queries and keys that no mask has."""
    whole_numbers(n=n, n_k=n_k)
    if n < 0 or n_k < n:
        raise ValueError(
            f"a mask needs 0 <= n <= n_k (queries stand at the last n keys), got n={n}, n_k={n_k}"
        )


def positions(n: int, n_k: int | None = None) -> tuple[Tensor, Tensor]:
    """Positions of n queries and n_k keys, the last query at the last key.

    Raises:
        ValueError: if n is negative, or n_k is below n.
    """
    n_k = n if n_k is None else n_k
    check_lengths(n, n_k)
    return torch.arange(n_k - n, n_k), torch.arange(n_k)
