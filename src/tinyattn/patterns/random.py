"""Keys drawn at random, once, from a seed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.checks import whole_numbers, whole_seed
from tinyattn.patterns.base import Pattern, check_pattern, in_int64, keep, merged, whole_blocks


@dataclass(frozen=True)
class Random(Pattern):
    """Each query reads r keys drawn at random; with blocks, each query block r key blocks.

    The draw is made once, from the seed, without replacement, and outside what `exclude` allows:
    a row with fewer than r keys left takes all of them. n queries cost r * n scores (times
    block_size with blocks). A few random links join everything in about log n hops.

    Token by token, the random keys of 64 neighbouring queries touch almost every block of keys;
    block by block, whole blocks stay untouched and are skipped.

    Args:
        n: tokens that the draw is made for.
        r: keys for each query, or key blocks for each query block.
        seed: of the draw; global random state is never touched.
        block_size: tokens in a block; 1 draws token by token.
        exclude: pattern whose pairs are not drawn again, such as a window that is joined in.
            With blocks, a block in which it allows any pair is not drawn.

    Raises:
        ValueError: if n, r or block_size is out of range, `exclude` has no meaning on n tokens,
            or the pattern is asked about more tokens than n.

    Source:
        Zaheer et al. 2020, section 2 (arXiv:2007.14062); Lin et al. 2022, section 4.1.1.1.

    Example:
        >>> Random(8, r=2, seed=0).mask(8).sum(dim=1)
        tensor([2, 2, 2, 2, 2, 2, 2, 2])
    """

    n: int
    r: int
    seed: int
    block_size: int = 1
    exclude: Pattern | None = None

    def __post_init__(self) -> None:
        n, r, block_size = whole_numbers(n=self.n, r=self.r, block_size=self.block_size)
        keep(self, n=n, r=r, seed=whole_seed(self.seed), block_size=block_size)
        if self.n < 1 or self.block_size < 1:
            raise ValueError(
                f"n and block_size must be 1 or more, got n={self.n}, block_size={self.block_size}"
            )
        in_int64("n, and block_size,", max(self.n, self.block_size))
        if not 0 <= self.r <= self.n_blocks:
            raise ValueError(
                f"r must be in 0 … {self.n_blocks}, the keys (or blocks) there are, got {self.r}"
            )
        if self.exclude is not None:
            check_pattern(self.exclude)
            self.exclude.check(self.n)

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.block_size)

    @cached_property
    def drawn(self) -> Integer[Tensor, "n_blocks r"]:
        """Key blocks of each query block, ascending; -1 fills rows in which fewer were left.

        The first r allowed and distinct ones of a row of independent draws are a uniform sample
        without replacement. Rows that run out of draws are sampled again from a full list.
        """
        generator = torch.Generator().manual_seed(self.seed)
        tried = torch.randint(self.n_blocks, (self.n_blocks, 2 * self.r + 8), generator=generator)
        usable = ~_repeated(tried) & ~self._excluded(torch.arange(self.n_blocks), tried)
        kept = usable & (usable.cumsum(dim=1) <= self.r)
        rows = torch.full((self.n_blocks, self.r), -1)
        enough = kept.sum(dim=1) == self.r
        rows[enough] = tried[enough][kept[enough]].view(int(enough.sum()), self.r)
        for block in (~enough).nonzero()[:, 0]:
            every = torch.randperm(self.n_blocks, generator=generator)
            free = every[~self._excluded(block[None], every[None])[0]][: self.r]
            rows[block, : len(free)] = free
        return rows.sort(dim=1).values

    def _excluded(self, blocks: Tensor, tried: Tensor) -> Tensor:
        """Whether `exclude` allows any pair of a query block and each key block tried with it."""
        out = torch.zeros(tried.shape, dtype=torch.bool)
        if self.exclude is None:
            return out
        lows, highs = tried * self.block_size, (tried + 1) * self.block_size
        reaches = [self.exclude.reach(self._block(block), self.n) for block in blocks.tolist()]
        for runs in zip_longest(*reaches, fillvalue=range(0)):  # the first run of each row, then …
            starts, stops = torch.tensor([[run.start, run.stop] for run in runs]).T[:, :, None]
            out |= (lows < stops) & (highs > starts)
        inside = torch.arange(min(self.block_size, self.n))
        hits = out.nonzero()  # reach may cover too much: look at the pairs, some blocks at a time
        for row, column in (some.T for some in hits.split(max(1, 2**20 // len(inside) ** 2))):
            i = blocks[row][:, None, None] * self.block_size + inside[:, None]
            j = tried[row, column][:, None, None] * self.block_size + inside
            there = (i < self.n) & (j < self.n)  # the last block may be short
            last = self.n - 1  # no rule is asked about a position that it does not know
            pairs = self.exclude.allowed(i.clamp(max=last), j.clamp(max=last)) & there
            out[row, column] = pairs.flatten(1).any(dim=1)
        return out

    def _block(self, block: int) -> range:
        return range(block * self.block_size, min((block + 1) * self.block_size, self.n))

    def check(self, n: int) -> None:
        if n > self.n:
            raise ValueError(f"the keys were drawn for n={self.n} tokens, got {n}; draw for {n}")

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        drawn, key = self.drawn.to(i.device)[i // self.block_size], j // self.block_size
        allowed = torch.zeros(
            torch.broadcast_shapes(i.shape, j.shape), dtype=torch.bool, device=i.device
        )
        for one in drawn.unbind(dim=-1):  # r times (..., n_q, n_k): with all r at once it is slower
            allowed = allowed | (one == key)
        return allowed

    def _count(self, n: int) -> int:
        sizes = torch.tensor(
            [
                max(0, min(n, (b + 1) * self.block_size, self.n) - b * self.block_size)
                for b in range(self.n_blocks)
            ]
        )
        keys = torch.where(self.drawn < 0, 0, sizes[self.drawn]).sum(dim=1)
        return int((keys * sizes).sum())

    @cached_property
    def _keys(self) -> list[list[int]]:
        """`drawn` without its filling, for asking about one block at a time."""
        return [[block for block in row if block >= 0] for row in self.drawn.tolist()]

    def _drawn_by(self, queries: range) -> list[list[int]]:
        return self._keys[queries[0] // self.block_size : queries[-1] // self.block_size + 1]

    def reach(self, queries: range, n_k: int) -> list[range]:
        blocks = {block for row in self._drawn_by(queries) for block in row}
        ranges = [self._block(block) for block in blocks]
        return merged([range(r.start, min(r.stop, n_k)) for r in ranges])

    def borders(self, n: int) -> list[int]:
        return whole_blocks(self.block_size, n) if self.block_size > 1 else []

    def footprint(self, queries: range, keys: range) -> Hashable | None:
        if self.block_size == 1:
            return None
        size = self.block_size
        first, last = keys[0] // size, keys[-1] // size
        rows = self._drawn_by(queries)
        links = tuple(tuple(b - first for b in row if first <= b <= last) for row in rows)
        return queries[0] % size, keys[0] % size, links


def _repeated(rows: Tensor) -> Tensor:
    """True where an entry stands earlier in its row already, in O(r log r) a row."""
    order = rows.argsort(dim=1, stable=True)
    ascending = rows.gather(1, order)
    same = torch.zeros_like(rows, dtype=torch.bool)
    same[:, 1:] = ascending[:, 1:] == ascending[:, :-1]
    return torch.zeros_like(same).scatter(1, order, same)
