"""Groups of queries and keys that are computed together, and how a rule is lowered to them."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise, zip_longest

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.edge_list import EDGES_PAY, EdgeList, edge_list
from tinyattn.patterns.base import QUERIES_PER_GROUP, Order, Pattern, check_pattern, merged
from tinyattn.places import Places, strips
from tinyattn.repeats import Batch, batches

MAX_RUNS = 16  # keys in more views than this are gathered by index instead of sliced
MAX_LOOKS = 128  # key runs that are compared with those of other groups; more take too long
WIDE_GAP = 64  # columns without anything forbidden that are worth two masks instead of one
COPIES_PAY = 4  # blocks of queries that share keys which must be copied before they are used
MOST_TOGETHER = 8  # blocks of queries in a group, if all of them read the same keys
PAIRS_TOGETHER = 2**19  # pairs in such a group
ASKED_AT_ONCE = 2**20  # pairs; a rule's numbers for them take megabytes, whatever n is


@dataclass(frozen=True)
class Group:
    """Some queries, the keys they are computed with, and what is forbidden between them.

    Args:
        queries: rows of q.
        keys: rows of k and v.
        masks: some columns, and what is added to their scores, 0 or -inf, (n_queries, n_columns);
            all pairs in other columns are allowed.
        has_empty_rows: whether some query may read none of these keys.
    """

    queries: Places
    keys: Places
    masks: tuple[tuple[slice, Float[Tensor, "n_queries _"]], ...]
    has_empty_rows: bool

    @property
    def n_pairs(self) -> int:
        """Pairs that are computed, allowed or not."""
        return self.queries.n * self.keys.n

    def allowed(self) -> Bool[Tensor, "n_queries n_keys"]:
        """Which pairs are allowed."""
        allowed = torch.ones(self.queries.n, self.keys.n, dtype=torch.bool)
        for columns, mask in self.masks:
            allowed[:, columns] = mask == 0
        return allowed

    @property
    def n_allowed(self) -> int:
        """Pairs of them that are allowed."""
        return self.n_pairs - sum(int((mask < 0).sum()) for _, mask in self.masks)


@dataclass(frozen=True)
class Groups:
    """A schedule: every allowed pair lies in exactly one group.

    Args:
        groups: what is computed, one after the other.
        n: queries.
        n_k: keys.
        split_rows: whether a query may stand in several groups, whose results are then merged.
    """

    groups: tuple[Group, ...]
    n: int
    n_k: int
    split_rows: bool

    @property
    def n_pairs(self) -> int:
        """Pairs that the groups hold, allowed or not."""
        return sum(group.n_pairs for group in self.groups)

    @property
    def n_computed(self) -> int:
        """Pairs that attention computes: those of the groups, or of the edges instead of them."""
        return self.n_pairs if self.edges is None else self.edges.keys.numel()

    @property
    def price(self) -> int:
        """What that costs, in pairs of groups: an edge is as dear as EDGES_PAY of them."""
        return self.n_pairs if self.edges is None else EDGES_PAY * self.edges.keys.numel()

    @cached_property
    def each_row_once(self) -> bool:
        """Whether every query stands in one group, so that its row is written exactly once."""
        return not self.split_rows and sum(group.queries.n for group in self.groups) == self.n

    @cached_property
    def edges(self) -> EdgeList | None:
        """The same pairs one by one, where that is the cheaper way."""
        return None if self.split_rows else edge_list(self.groups, self.n, self.n_k)

    @cached_property
    def batches(self) -> list[Batch]:
        """The groups, those that differ only in where they stand together."""
        return batches(self.groups)


def schedule(
    pattern: Pattern, n: int, n_k: int | None = None, *, block_size: int = QUERIES_PER_GROUP
) -> Groups:
    """Lower a rule to groups: block_size queries at a time, with the keys within their reach.

    Parts of a union whose queries share keys at different steps (a window: neighbours; a stride:
    every stride-th token; a tile: a part of some rows) are lowered one after the other, and a pair
    that an earlier part has is left out of the later ones. Costs O(pairs computed), never n².
    Cached by its arguments.

    Args:
        pattern: the rule.
        n: queries; the last one stands at the last key.
        n_k: keys; n if not given.
        block_size: queries in a group; more where that adds no keys, and in a tile, whose keys
            must be copied.

    Raises:
        ValueError: if n is negative, n_k below n, block_size below 1, or the rule has no meaning
            on n_k tokens.
        TypeError: if a number is no whole one, or the pattern no rule.

    Example:
        >>> from tinyattn.patterns import Window
        >>> schedule(Window(16), 1024).n_pairs, Window(16).edges(1024)
        (96256, 33520)
    """
    check_pattern(pattern)
    n_k = n if n_k is None else n_k
    n, n_k, block_size = whole_numbers(n=n, n_k=n_k, block_size=block_size)
    if n < 0 or n_k < n or block_size < 1:
        raise ValueError(
            "a schedule needs 0 <= n <= n_k and a block_size of 1 or more, "
            f"got n={n}, n_k={n_k}, block_size={block_size}"
        )
    return lowering(pattern, n, n_k, block_size)


@lru_cache(maxsize=64)
def lowering(pattern: Pattern, n: int, n_k: int, block_size: int = QUERIES_PER_GROUP) -> Groups:
    """`schedule` behind its checks: the cache takes 8.0 and True for the numbers they equal."""
    pattern.check(n_k)
    alike: dict[tuple[int, Order | None], list[Pattern]] = {}
    for part in pattern.parts():
        alike.setdefault((part.step, part.order), []).append(part)
    groups: list[Group] = []
    done: Pattern | None = None
    for step, order in sorted(alike, key=lambda key: (key[0], key[1] is not None)):
        part = reduce(lambda a, b: a | b, alike[step, order])
        cut = _cut_along(part, n, n_k, step, block_size)
        if order is not None:
            cut = _cut_in_order(order, n, n_k, COPIES_PAY * block_size)
        groups += _lower(part, done, n_k - n, n_k, cut)
        done = part if done is None else done | part
    return Groups(tuple(groups), n, n_k, split_rows=len(alike) > 1)


def _lower(
    part: Pattern, done: Pattern | None, first: int, n_k: int, cut: list[list[range]]
) -> list[Group]:
    """Groups of the pairs that `part` allows and `done` does not; row 0 is position `first`."""
    known: dict[Hashable, _Lowered] = {}
    groups = []
    for queries in cut:
        reach = _reach(part, queries, n_k)
        if not reach:
            continue
        if len(reach) <= MAX_RUNS or len(strips(reach)) <= MAX_RUNS:
            look = _look(part, done, queries, reach)
            lowered = known.get(look)
            if lowered is None:
                lowered = _Lowered(_evaluate(part, done, queries, _index(reach)), reach)
            if look is not None:
                known[look] = lowered
            keys = Places([run for run, used in zip(reach, lowered.used, strict=True) if used])
        else:
            index = _index(reach)
            ok = _evaluate(part, done, queries, index)
            used = ok.any(dim=0)
            lowered = _Lowered(ok[:, used], [])
            keys = Places([], index[used])
        if keys.n:
            rows = [range(run.start - first, run.stop - first, run.step) for run in queries]
            groups.append(Group(Places(rows), keys, lowered.masks, lowered.has_empty_rows))
    return groups


def _reach(part: Pattern, queries: list[range], n_k: int) -> list[range]:
    if len(queries) == 1:
        return part.reach(queries[0], n_k)
    reached: list[list[range]] = []
    for run in queries:
        keys = part.reach(run, n_k)
        if keys not in reached:  # the rows of a tile all reach the same
            reached.append(keys)
    return reached[0] if len(reached) == 1 else merged([keys for some in reached for keys in some])


class _Lowered:
    """What is forbidden among some queries and the key runs that any of them reads."""

    def __init__(self, ok: Tensor, reach: list[range]) -> None:
        if reach:  # as runs: leave out those that nobody reads
            pieces = ok.split([len(run) for run in reach], dim=1)
            self.used = [bool(piece.any()) for piece in pieces]
            kept = [piece for piece, used in zip(pieces, self.used, strict=True) if used]
            ok = torch.cat(kept, dim=1) if kept else ok[:, :0]
        self.has_empty_rows = not bool(ok.any(dim=1).all())
        self.masks = tuple(
            (columns, torch.zeros(part.shape).masked_fill(~part, -math.inf))
            for columns in _stretches((~ok).any(dim=0))
            for part in [ok[:, columns]]
        )


def _stretches(marked: Tensor) -> list[slice]:
    """Slices that hold every marked place and few others: a mask's ragged edges."""
    places = marked.nonzero()[:, 0]
    if not len(places):
        return []
    jumps = (places.diff() > WIDE_GAP).nonzero()[:, 0].tolist()
    first, last = [0, *(jump + 1 for jump in jumps)], [*jumps, len(places) - 1]
    return [slice(int(places[a]), int(places[b]) + 1) for a, b in zip(first, last, strict=True)]


def _evaluate(part: Pattern, done: Pattern | None, queries: list[range], keys: Tensor) -> Tensor:
    """Which pairs `part` allows and `done` does not, asked some columns at a time."""
    i = _index(queries)[:, None]
    answers = []
    for j in keys.split(max(1, ASKED_AT_ONCE // len(i))):
        ok = part.allowed(i, j)
        if done is not None:
            ok = ok & ~done.allowed(i, j)
        answers.append(ok.expand(len(i), len(j)))
    return torch.cat(answers, dim=1)


def _look(
    part: Pattern, done: Pattern | None, queries: list[range], reach: list[range]
) -> Hashable:
    """What the mask depends on: equal looks promise equal masks. None if nothing is promised."""
    if len(reach) > MAX_LOOKS:
        return None
    looks: list[Hashable] = []
    for run in queries:
        looks.append((len(run), run.step))
        for keys in reach:
            for rule in (part,) if done is None else (part, done):
                footprint = rule.footprint(run, keys)
                if footprint is None:
                    return None
                looks.append((footprint, len(keys), keys.step))
    return tuple(looks)


def _index(ranges: list[range]) -> Tensor:
    return torch.cat([torch.arange(r.start, r.stop, r.step) for r in ranges])


def _cut_along(part: Pattern, n: int, n_k: int, step: int, block_size: int) -> list[list[range]]:
    """Query positions in ranges of at most block_size, none of them across a border.

    More stay together if all read the same keys: such as a block, or a column of a picture.
    """
    first = n_k - n
    if step > 1:
        whole = [range(start, n_k, step) for start in range(first, min(first + step, n_k))]
    else:
        borders = sorted({b for b in part.borders(n_k) if first < b < n_k} | {first, n_k})
        whole = [range(start, stop) for start, stop in pairwise(borders)]
    cut: list[list[range]] = []
    for run in whole:
        size, keys = block_size, part.reach(run, n_k)
        if keys and keys == part.reach(run[:size], n_k):
            room = PAIRS_TOGETHER // sum(len(some) for some in keys)
            size = min(max(size, room), MOST_TOGETHER * size)
        cut.append([run[at : at + size] for at in range(0, len(run), size)])
    if step > 1:  # the first pieces of all classes, then the second ones: neighbours are alike
        cut = [[piece for piece in pieces if piece] for pieces in zip_longest(*cut)]
    return [[piece] for pieces in cut for piece in pieces]


def _cut_in_order(order: Order, n: int, n_k: int, most: int) -> list[list[range]]:
    """Query positions as an order groups them, in pieces of at most `most`."""
    pieces: list[list[range]] = []
    for group in order.groups(n_k):
        room = 0
        for run in group:
            run = range(max(run.start, n_k - n), run.stop)
            for at in range(run.start, run.stop, most):
                some = range(at, min(at + most, run.stop))
                if len(some) > room:
                    pieces.append([])
                    room = most
                pieces[-1].append(some)
                room -= len(some)
    return pieces
