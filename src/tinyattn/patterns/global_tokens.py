"""Tokens that everyone reads, and that read everyone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.patterns.base import Pattern, at_least, clipped, in_int64, keep, listed, merged

FEW_RUNS = 8  # of global tokens; more are looked up in a table instead of compared one by one


@dataclass(frozen=True)
class Global(Pattern):
    """Some tokens read every token and are read by every token: 2 g n - g² pairs.

    Any two tokens are two hops apart, through a global one. Other tokens do not read themselves
    unless another rule lets them.

    Args:
        g: how many of the first tokens are global, or a tuple of their positions. One that a
            sequence does not reach, as while a decoder still generates, has no pairs there.
        reads: whether global tokens read everything; False leaves them read by everyone only,
            g keys in each row.

    Raises:
        ValueError: if `g` or a position is negative, or a position is listed twice.

    Source:
        Lin et al. 2022, section 4.1.1.1 (arXiv:2106.04554), the internal kind. The external kind
        puts g new tokens before the sequence: prepend them and use the same rule. Keys only is
        the reading of Child et al. 2019, "fixed" attention (arXiv:1904.10509).

    Example:
        >>> Global(1).mask(3).int()
        tensor([[1, 1, 1],
                [1, 0, 0],
                [1, 0, 0]], dtype=torch.int32)
    """

    g: int | tuple[int, ...]
    reads: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.g, tuple | list):
            g = listed("g", self.g, "positions")
            if any(position < 0 for position in g) or len(set(g)) < len(g):
                raise ValueError(f"g must hold distinct positions of 0 or more, got {g}")
            in_int64("g, counted from 1,", max(g, default=0) + 1)
            keep(self, g=tuple(sorted(g)))
        else:
            keep(self, g=at_least("g", self.g, 0, "tokens"))

    @cached_property
    def runs(self) -> list[range]:
        """The global positions as ranges."""
        if isinstance(self.g, tuple):
            return merged([range(position, position + 1) for position in self.g])
        return [range(self.g)]

    def _is_global(self, at: Tensor) -> Tensor:
        if len(self.runs) > FEW_RUNS:
            return torch.isin(at, self._table.to(at.device))
        inside = [(at >= run.start) & (at < run.stop) for run in self.runs]
        return reduce(torch.logical_or, inside, torch.zeros_like(at, dtype=torch.bool))

    @cached_property
    def _table(self) -> Integer[Tensor, "_"]:
        """The global positions, to look others up in."""
        return torch.tensor(self.g)

    @cached_property
    def _starts(self) -> list[int]:
        return [run.start for run in self.runs]

    def _runs_within(self, at: range) -> list[range]:
        """The runs that hold a position of start … stop - 1, found in O(log) of all."""
        first = max(bisect_right(self._starts, at.start) - 1, 0)
        some = self.runs[first : bisect_left(self._starts, at.stop)]
        return [run for run in some if run.start < at.stop and at.start < run.stop]

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        shape = torch.broadcast_shapes(i.shape, j.shape)
        read = self._is_global(j)
        return (read | self._is_global(i) if self.reads else read).expand(shape)

    def _count(self, n: int) -> int:
        g = sum(len(range(r.start, min(r.stop, n))) for r in self.runs)
        return 2 * g * n - g * g if self.reads else g * n

    def reach(self, queries: range, n_k: int) -> list[range]:
        if self.reads and self._runs_within(range(queries[0], queries[-1] + 1)):
            return [range(n_k)]
        return [keys for r in self.runs for keys in clipped(r.start, r.stop, n_k)]

    def borders(self, n: int) -> list[int]:
        return [border for r in self.runs for border in (r.start, r.stop)] if self.reads else []

    def footprint(self, queries: range, keys: range) -> Hashable:
        return tuple(
            tuple(
                (max(r.start, at.start) - at.start, min(r.stop, at.stop) - at.start)
                for r in self._runs_within(at)
            )
            for at in (queries, keys)
        )
