"""From which length on a pattern is faster than dense attention, read from a benchmark's results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ratios:
    """Time of one case over that of dense attention, at the lengths where both took turns.

    Args:
        case: "work/who does it", as the benchmark calls it.
        mode: "forward", or "gradients" for the forward pass and the gradients of q, k and v.
        n: lengths, ascending.
        to_dense: the ratio at each of them; below 1 the case is faster.

    Example:
        >>> Ratios("window/tinyattn", "forward", (1024, 2048, 4096), (1.5, 0.9, 0.4)).in_words()
        'faster from n = 2,048 on'
    """

    case: str
    mode: str
    n: tuple[int, ...]
    to_dense: tuple[float, ...]

    @property
    def pays_from(self) -> int | None:
        """The shortest measured length from which on every one is faster than dense, if any is.

        A single fast length between slow ones does not count.
        """
        first = None
        for n, ratio in zip(self.n, self.to_dense, strict=True):
            if ratio >= 1:
                first = None
            elif first is None:
                first = n
        return first

    def in_words(self) -> str:
        """What `pays_from` says, and between which lengths it was looked for."""
        if not self.n:
            return "not measured"
        measured = f"n = {self.n[0]:,}" + (f" to {self.n[-1]:,}" if len(self.n) > 1 else "")
        if self.pays_from is None:
            if min(self.to_dense) < 1:
                return f"faster at shorter lengths only, not at {self.n[-1]:,}"
            return f"faster at no measured length ({measured})"
        if self.pays_from == self.n[0]:
            return f"faster at every measured length ({measured})"
        return f"faster from n = {self.pays_from:,} on"


def ratios_to_dense(bench: Mapping[str, Any], case: str, mode: str = "forward") -> Ratios:
    """The curve of one case out of what `make bench` wrote; empty if it was not measured.

    Args:
        bench: content of results/bench.json.
        case: such as "window/tinyattn".
        mode: "forward" or "gradients".

    Raises:
        ValueError: if the mode is another one.

    Example:
        >>> cell = {"kind": "time", "case": "window/tinyattn", "mode": "forward", "n": 1024}
        >>> ratios_to_dense({"cells": [{**cell, "to_dense": 0.5}]}, "window/tinyattn").to_dense
        (0.5,)
    """
    if mode not in ("forward", "gradients"):
        raise ValueError(f'mode must be "forward" or "gradients", got {mode!r}')
    wanted = ("time", case, mode)
    points = sorted(
        (cell["n"], cell["to_dense"])
        for cell in bench["cells"]
        if (cell["kind"], cell["case"], cell["mode"]) == wanted and "to_dense" in cell
    )
    return Ratios(case, mode, tuple(n for n, _ in points), tuple(ratio for _, ratio in points))
