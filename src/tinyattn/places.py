"""Positions along the sequence that are computed together, as few views of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tinyattn.products import sum_of_products


class Places:
    """Positions along the sequence: a few runs, which are views of a tensor, or an index.

    Equal runs at equal distances, such as the rows of a tile, are one view together.
    """

    def __init__(self, runs: list[range], index: Tensor | None = None) -> None:
        self.runs = [slice(run.start, run.stop, run.step) for run in runs]
        self.strips = strips(runs)
        self.index = index
        self.n = sum(len(run) for run in runs) if index is None else len(index)

    def take(self, x: Tensor) -> Tensor:
        """The rows of x (b, n, d) at these places."""
        views = self.views(x)
        return views[0] if len(views) == 1 else torch.cat(views, dim=1)

    def views(self, x: Tensor) -> list[Tensor]:
        """The same rows as matrices one after the other, of which few or none have to be copied."""
        if self.index is not None:
            return [x.index_select(1, self.index)]
        pieces = [strip.of(x) for strip in self.strips]
        return [piece if piece.dim() == 3 else piece.flatten(1, 2) for piece in pieces]

    def put(self, x: Tensor, rows: Tensor) -> None:
        """Write rows into x at these places."""
        for _, place, piece in self._pieces(x, rows):
            place.copy_(piece.unflatten(1, place.shape[1:-1]))

    def put_product(self, x: Tensor, left: Tensor, right: Sequence[Tensor]) -> None:
        """Write left @ right into x at these places; right is matrices one after the other."""
        self.put(x, sum_of_products(left, right))

    def add_product(
        self, x: Tensor, left: Tensor, right: Sequence[Tensor], *, alpha: float = 1.0
    ) -> None:
        """Add alpha * left @ right, one row for each of these places, to x there."""
        if self.index is not None:
            x.index_add_(1, self.index, sum_of_products(left, right), alpha=alpha)
            return
        for strip, place, rows in self._pieces(x, left):
            if strip.n_runs == 1:
                sum_of_products(rows, right, place, alpha)
            else:
                product = sum_of_products(rows, right)
                place.add_(product.unflatten(1, place.shape[1:3]), alpha=alpha)

    def _pieces(self, x: Tensor, rows: Tensor) -> Iterator[tuple[Strip, Tensor, Tensor]]:
        """Views of x, and the rows that belong there."""
        start = 0
        for strip in self.strips:
            stop = start + strip.n_runs * len(strip.first)
            yield strip, strip.of(x), rows[:, start:stop]
            start = stop


@dataclass(frozen=True)
class Strip:
    """Runs of one length, one after the other at one distance.

    Args:
        first: the first of them.
        n_runs: how many.
        apart: positions from the start of one to the start of the next.
    """

    first: range
    n_runs: int = 1
    apart: int = 0

    def of(self, x: Tensor) -> Tensor:
        """A view of the rows of x (b, n, d): (b, length, d), or (b, n_runs, length, d) of many."""
        start, stop, step = self.first.start, self.first.stop, self.first.step
        if self.n_runs == 1:
            return x[:, start:stop:step]
        rows = x[:, start : stop + (self.n_runs - 1) * self.apart]
        windows = rows.unfold(1, stop - start, self.apart)  # (b, n_runs, d, stop - start)
        return windows.transpose(2, 3)[:, :, ::step]


def strips(runs: list[range]) -> list[Strip]:
    """Runs as few views: three or more that are equal and equally far apart are one."""
    strips: list[Strip] = []
    at = 0
    while at < len(runs):
        first, n_runs = runs[at], 1
        apart = runs[at + 1].start - first.start if at + 1 < len(runs) else 0
        like = (len(first), first.step)
        while at + n_runs < len(runs):
            run = runs[at + n_runs]
            if (len(run), run.step) != like or run.start != first.start + n_runs * apart:
                break
            n_runs += 1
        if n_runs < 3:
            strips.append(Strip(first))
            at += 1
        else:
            first = range(first.start, first[-1] + 1, first.step)
            strips.append(Strip(first, n_runs, apart))
            at += n_runs
    return strips
