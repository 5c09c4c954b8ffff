"""Groups that differ only in where they stand, computed as one batch of one sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tinyattn.places import Places
from tinyattn.products import sum_of_products

if TYPE_CHECKING:
    from tinyattn.groups import Group

MOST_RUNS = 4  # of keys; more than these few are copied one way or the other
MOST_SLICES = 16  # in which the rows of groups that share keys are added up


@dataclass
class Batch:
    """Groups alike: each stands a constant distance behind the one before.

    The inner blocks of a window are an example, the blocks of a block-local rule, and the classes
    of a stride, which lie between each other.

    Args:
        groups: one or more.
        apart: positions from one to the next, of the queries and then of each run of keys; keys
            that all of them read are 0 apart.
    """

    groups: list[Group]
    apart: list[int]

    def part(self, start: int, stop: int) -> Group:
        """Groups start … stop - 1 as one, whose places give one matrix for each of them."""
        first, times = self.groups[start], len(self.groups[start:stop])
        queries, *keys = map(Run, _runs(first), self.apart, [times] * len(self.apart))
        return replace(first, queries=Repeated([queries]), keys=Repeated(keys))

    def distance(self, group: Group) -> list[int] | None:
        """What is `apart` once this group is added, or None if it is not like the others."""
        last, times = self.groups[-1], len(self.groups) + 1
        same = last.masks is group.masks and last.has_empty_rows == group.has_empty_rows
        mine, its = _runs(last), _runs(group)
        if not same or not mine or list(map(_shape, mine)) != list(map(_shape, its)):
            return None
        apart = [b.start - a.start for a, b in zip(mine, its, strict=True)]
        if min(apart) < 0 or (self.apart and apart != self.apart):
            return None
        slices = [Run(run, step, times).n_slices for run, step in zip(its, apart, strict=True)]
        return apart if slices[0] == 1 and apart[0] and max(slices) <= MOST_SLICES else None


def batches(groups: Iterable[Group]) -> list[Batch]:
    """All groups, those together that are alike and follow each other."""
    out: list[Batch] = []
    for group in groups:
        apart = out[-1].distance(group) if out else None
        if apart is None:
            out.append(Batch([group], []))
        else:
            out[-1].groups.append(group)
            out[-1].apart = apart
    return out


def _runs(group: Group) -> list[range]:
    """The run of a group's queries, and those of its keys; none if they are more or an index."""
    queries, keys = group.queries.runs, group.keys.runs
    if group.keys.index is not None or len(queries) != 1 or len(keys) > MOST_RUNS:
        return []
    return [range(run.start, run.stop, run.step) for run in (*queries, *keys)]


def _shape(run: range) -> tuple[int, int]:
    return len(run), run.step


class Run:
    """A run that is repeated: a view (times, length, d) of one sequence (1, n, d)."""

    def __init__(self, run: range, apart: int, times: int) -> None:
        self.run, self.apart, self.times = run, apart, times
        self.disjoint = len(run)  # places in a row of which no two copies hold the same
        if apart < run[-1] + 1 - run.start and (times - 1) * apart >= run.step:
            self.disjoint = 0 if apart % run.step else apart // run.step

    @property
    def n_slices(self) -> int:
        """Slices of which no two copies hold the same place."""
        if self.apart == 0 or self.disjoint == len(self.run):
            return 1
        return -(-len(self.run) // self.disjoint) if self.disjoint else MOST_SLICES + 1

    def of(self, x: Tensor, start: int = 0, stop: int | None = None) -> Tensor:
        """The rows of x at places start … stop - 1 of every copy."""
        along, across = x.stride()[1:]
        run = self.run[start:stop]
        shape = (self.times, len(run), x.shape[2])
        strides = (self.apart * along, run.step * along, across)
        return x.as_strided(shape, strides, x.storage_offset() + run.start * along)

    def add_product(self, x: Tensor, left: Tensor, right: Sequence[Tensor], alpha: float) -> None:
        """Add alpha * left @ right to x: copies that hold the same row each add their own."""
        if self.apart == 0:
            (whole,) = right
            rows = left.transpose(0, 1).flatten(1)  # (length, times * m)
            self.of(x)[0].addmm_(rows, whole.flatten(0, 1), alpha=alpha)
            return
        product = sum_of_products(left, right)
        for at in range(0, len(self.run), self.disjoint):
            some = slice(at, at + self.disjoint)
            self.of(x, some.start, some.stop).add_(product[:, some], alpha=alpha)


class Repeated(Places):
    """Places of groups alike, in one sequence x (1, n, d): a matrix for each of the groups."""

    def __init__(self, runs: list[Run]) -> None:
        self.repeated = runs
        self.n = sum(len(run.run) for run in runs)

    def views(self, x: Tensor) -> list[Tensor]:
        """The rows of x at these places, a matrix of each run (times, length, d) after the other."""
        return [run.of(x) for run in self.repeated]

    def put(self, x: Tensor, rows: Tensor) -> None:
        """Write rows into x at these places, each of which is there once."""
        (run,) = self.repeated
        run.of(x).copy_(rows)

    def put_product(self, x: Tensor, left: Tensor, right: Sequence[Tensor]) -> None:
        """Write left @ right into x at these places."""
        place = self.repeated[0].of(x)
        if place.is_contiguous() and len(right) == 1:
            torch.bmm(left, right[0], out=place)
        else:
            place.copy_(sum_of_products(left, right))

    def add_product(
        self, x: Tensor, left: Tensor, right: Sequence[Tensor], *, alpha: float = 1.0
    ) -> None:
        """Add alpha * left @ right, one row for each of these places, to x there."""
        start = 0
        for run in self.repeated:
            stop = start + len(run.run)
            run.add_product(x, left[:, start:stop], right, alpha)
            start = stop
