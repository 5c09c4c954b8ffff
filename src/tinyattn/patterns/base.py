"""What every pattern answers, and how two of them combine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import wraps

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.checks import whole_numbers

LARGEST = torch.iinfo(torch.int64).max  # that a position, and what it is compared with, may be
LONGEST_STEP = 2**62  # beyond all sequences, and held by int64 where a range is made of it
QUERIES_PER_GROUP = 64  # as many as make a good matrix product and share most of their keys


class Order:
    """Which queries are computed together, where neighbours along the sequence read other keys.

    The pixels of a tile are an example: they read the same keys and lie in several rows. An order
    is a frozen dataclass; rules with equal orders are lowered together. It never changes what a
    rule means.
    """

    def groups(self, n: int) -> list[list[range]]:
        """Positions 0 … n - 1, each once: groups of runs, the runs of a group sorted."""
        raise TypeError(f"{type(self).__name__} must define groups(n)")


def _in_int64(allowed: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The answer of a rule, asked with positions of any integer dtype."""

    @wraps(allowed)
    def answer(self: Pattern, i: Tensor, j: Tensor) -> Tensor:
        if i.dtype != torch.int64 or j.dtype != torch.int64:
            i, j = i.long(), j.long()
        return allowed(self, i, j)

    return answer


class Pattern:
    """A rule that says which keys a query may read.

    A pattern is a frozen dataclass. Its meaning is `allowed(i, j)`, elementwise: the matrix, the
    count, the picture and the fast path all come from that answer. `a | b` allows what either
    allows, `a & b` what both do.

    Positions are int64, and so are the numbers that they are compared with: each rule refuses
    parameters of 2^63 or more, and those whose sum or product is, with a ValueError.

    The other methods only say where to look, so that nobody builds n² booleans to run a sparse
    rule. Their defaults are always right and slow: look everywhere, promise nothing.
    """

    def __init_subclass__(cls) -> None:
        """Every rule reckons in int64: in fewer bits positions overflow, or are no index."""
        super().__init_subclass__()
        if "allowed" in vars(cls):
            cls.allowed = _in_int64(cls.allowed)

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
        self.check(len(j))
        allowed = self.allowed(i[:, None], j[None, :])
        return allowed.expand(len(i), len(j)).contiguous()

    def edges(self, n: int) -> int:
        """How many (query, key) pairs are allowed among n tokens."""
        n, _ = check_lengths(n, n)
        self.check(n)
        return self._count(n)

    def _count(self, n: int) -> int:
        """The count itself: pair by pair within reach, where a rule has no closed form."""
        total = 0
        for start in range(0, n, QUERIES_PER_GROUP):
            queries = range(start, min(start + QUERIES_PER_GROUP, n))
            i = torch.arange(queries.start, queries.stop)[:, None]
            for keys in self.reach(queries, n):
                j = torch.arange(keys.start, keys.stop, keys.step)
                total += int(self.allowed(i, j).expand(len(queries), len(keys)).sum())
        return total

    def check(self, n: int) -> None:
        """Raise ValueError if the rule has no meaning on n tokens."""

    # Where to look: hints for `tinyattn.groups.schedule`, none of which changes the meaning.

    def reach(self, queries: range, n_k: int) -> list[range]:
        """Key positions that cover everything these query positions may read.

        Covering too much costs time, covering too little would be wrong. The ranges are sorted
        and disjoint, and lie within 0 … n_k - 1.
        """
        return [range(n_k)]

    @property
    def step(self) -> int:
        """Queries that read the same keys stand this far apart; they are computed together."""
        return 1

    @property
    def order(self) -> Order | None:
        """The groups in which queries share their keys; None if those are neighbours."""
        return None

    @property
    def lookback(self) -> int | None:
        """How many positions back a query reads at most; None if there is no such bound."""
        return None

    def borders(self, n: int) -> list[int]:
        """Positions at which the reach changes abruptly, so that no group should straddle them."""
        return []

    def footprint(self, queries: range, keys: range) -> Hashable | None:
        """What the mask of these queries and keys depends on; None promises nothing.

        Where two pairs of ranges agree in their lengths and steps, equal footprints promise
        equal masks.
        """
        return None

    def parts(self) -> list[Pattern]:
        """Patterns whose union this is, the ones that can be scheduled each in its own way."""
        return [self]

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

    def check(self, n: int) -> None:
        self.left.check(n)
        self.right.check(n)

    def reach(self, queries: range, n_k: int) -> list[range]:
        return merged(self.left.reach(queries, n_k) + self.right.reach(queries, n_k))

    @property
    def lookback(self) -> int | None:
        left, right = self.left.lookback, self.right.lookback
        return None if left is None or right is None else max(left, right)

    def borders(self, n: int) -> list[int]:
        return self.left.borders(n) + self.right.borders(n)

    def footprint(self, queries: range, keys: range) -> Hashable | None:
        return _both(self, queries, keys)

    def parts(self) -> list[Pattern]:
        return self.left.parts() + self.right.parts()

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, repr=False)
class Intersection(Pattern):
    """Allows what both of two patterns allow."""

    left: Pattern
    right: Pattern

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return self.left.allowed(i, j) & self.right.allowed(i, j)

    def check(self, n: int) -> None:
        self.left.check(n)
        self.right.check(n)

    def reach(self, queries: range, n_k: int) -> list[range]:
        left, right = self.left.reach(queries, n_k), self.right.reach(queries, n_k)
        common = [_overlap(a, b) for a in left for b in right]
        return merged([keys for keys in common if len(keys)])

    @property
    def step(self) -> int:
        return self.left.step if self.left.step != 1 else self.right.step

    @property
    def order(self) -> Order | None:
        return self.right.order if self.left.order is None else self.left.order

    @property
    def lookback(self) -> int | None:
        bounds = [back for back in (self.left.lookback, self.right.lookback) if back is not None]
        return min(bounds, default=None)

    def borders(self, n: int) -> list[int]:
        return self.left.borders(n) + self.right.borders(n)

    def footprint(self, queries: range, keys: range) -> Hashable | None:
        return _both(self, queries, keys)

    def parts(self) -> list[Pattern]:
        pairs = [(a, b) for a in self.left.parts() for b in self.right.parts()]
        return [self] if len(pairs) == 1 else [Intersection(a, b) for a, b in pairs]

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


def check_pattern(pattern: object) -> None:
    """Refuse what is no rule, such as a matrix, or a class without its parameters."""
    if not isinstance(pattern, Pattern):
        raise TypeError(
            f"a pattern must be a rule such as Causal(), got {type(pattern).__name__}; "
            "Painted(mask) makes one of a matrix"
        )


def check_lengths(n: int, n_k: int) -> tuple[int, int]:
    """Numbers of queries and keys as Python's integers; those that no mask has are refused."""
    n, n_k = whole_numbers(n=n, n_k=n_k)
    if n < 0 or n_k < n:
        raise ValueError(
            f"a mask needs 0 <= n <= n_k (queries stand at the last n keys), got n={n}, n_k={n_k}"
        )
    return n, n_k


def positions(n: int, n_k: int | None = None) -> tuple[Tensor, Tensor]:
    """Positions of n queries and n_k keys, the last query at the last key.

    Raises:
        ValueError: if n is negative, or n_k is below n.
    """
    n, n_k = check_lengths(n, n if n_k is None else n_k)
    return torch.arange(n_k - n, n_k), torch.arange(n_k)


def merged(ranges: list[range]) -> list[range]:
    """The same positions as sorted, disjoint ranges.

    Ranges of one step and one residue are joined as they are. Others are covered by runs.
    """
    ranges = sorted((r for r in ranges if len(r)), key=lambda r: r.start)
    if len({(r.step, r.start % r.step) for r in ranges}) > 1:
        ranges = [range(r.start, r[-1] + 1) for r in ranges]
    out: list[range] = []
    for r in ranges:
        if out and r.start <= out[-1].stop:
            out[-1] = range(out[-1].start, max(out[-1].stop, r.stop), r.step)
        else:
            out.append(r)
    return out


def clipped(start: int, stop: int, n_k: int, step: int = 1) -> list[range]:
    """range(start, stop, step) without what lies outside 0 … n_k - 1, as a list of one or none."""
    start = start if start >= 0 else start % step
    keys = range(start, min(stop, n_k), min(step, LONGEST_STEP))
    return [keys] if len(keys) else []


def _overlap(a: range, b: range) -> range:
    """A range that covers what two ranges share."""
    if a.step == 1:
        a, b = b, a
    start, stop = max(a.start, b.start), min(a.stop, b.stop)
    start += (a.start - start) % a.step
    return range(start, stop, a.step)


def _both(pair: Union | Intersection, queries: range, keys: range) -> Hashable | None:
    left = pair.left.footprint(queries, keys)
    right = pair.right.footprint(queries, keys)
    return None if left is None or right is None else (left, right)


def whole_blocks(block_size: int, n: int) -> list[int]:
    """Borders of blocks, or of runs of blocks where one block is too small for a group."""
    return list(range(0, n, block_size * max(1, QUERIES_PER_GROUP // block_size)))


def at_least(name: str, value: int, least: int, unit: str = "") -> int:
    """The parameter as Python's integer; ValueError naming it if it is too small, or too large."""
    (value,) = whole_numbers(**{name: value})
    if value < least:
        raise ValueError(f"{name} must be {least} or more{' ' + unit if unit else ''}, got {value}")
    return in_int64(name, value)


def in_int64(name: str, value: int) -> int:
    """A number that positions are compared with; ValueError naming it if int64 does not hold it."""
    if value > LARGEST:
        raise ValueError(f"{name} must be below 2^63, as positions are int64, got {value}")
    return value


def keep(rule: object, **parameters: object) -> None:
    """Set fields of a frozen dataclass, once, to what was found to be right about them."""
    for name, value in parameters.items():
        object.__setattr__(rule, name, value)


def listed(name: str, values: Iterable[int], what: str) -> tuple[int, ...]:
    """A sequence as a tuple of Python's integers; TypeError naming it if it is none."""
    if isinstance(values, Tensor | str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a tuple of {what}, got {values!r}")
    numbers = [number for value in values for number in whole_numbers(**{name: value})]
    return tuple(in_int64(name, number) for number in numbers)


PerHead = Pattern | tuple[Pattern, ...]  # one rule for all heads, or one for each
