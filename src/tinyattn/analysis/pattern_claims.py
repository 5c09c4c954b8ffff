"""What the chapters on sparse attention say about growth, counted again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tinyattn.analysis.complexity import kept_pairs
from tinyattn.analysis.graphs import max_path_length
from tinyattn.analysis.ledger import Claim
from tinyattn.analysis.measure import Fit, fit_exponent
from tinyattn.patterns import (
    BlockLocal,
    Dilated,
    Global,
    Pattern,
    Random,
    Window,
    axial_columns,
    axial_rows,
    bigbird,
    bp_transformer,
    longformer,
    sparse_fixed,
    sparse_strided,
    star_transformer,
)

LONG = (2**9, 2**10, 2**11)  # where pairs are counted
SQUARE = (2**8, 2**10, 2**12)  # where a root is a whole number
SHORT = (64, 128, 256)  # where paths are followed


def pattern_claims() -> list[Claim]:
    """Those of the chapters on atomic, compound and extended patterns, and on hashing.

    A finite n shows the leading power with what is smaller beside it, so each tolerance is wide
    enough for that, and too narrow for the next power that anybody claims.

    Example:
        >>> all(claim.holds for claim in pattern_claims())
        True
    """
    count = Claim.of_count
    atoms, unions = {"where": "07_atomic"}, {"where": "08_compound", "tolerance": 0.05}
    shapes = {"where": "09_extended", "tolerance": 0.05}
    return [
        count("window, pairs", 1, _pairs(lambda n: Window(8)), LONG, **atoms),
        count("dilated window, pairs", 1, _pairs(lambda n: Dilated(8, 2)), LONG, tolerance=0.02, **atoms),
        count("global token, pairs", 1, _pairs(lambda n: Global(2)), LONG, **atoms),
        count("random keys, pairs", 1, _pairs(lambda n: Random(n, 4, seed=0)), LONG, **atoms),
        count("block local, pairs", 1, _pairs(lambda n: BlockLocal(32)), LONG, **atoms),
        count("window, longest path", 1, _path(lambda n: Window(4)), SHORT, tolerance=0.05, **atoms),
        count("global token, longest path", 0, _path(lambda n: Window(1) | Global(1)), SHORT, **atoms),
        count("Star-Transformer, pairs", 1, _pairs(lambda n: star_transformer()), LONG, **unions),
        count("Longformer, pairs", 1, _pairs(lambda n: longformer(16, 2)), LONG, **unions),
        count("BigBird, pairs", 1, _pairs(lambda n: bigbird(n, 8, 3, seed=0)), LONG, **unions),
        count("strided, fixed stride, pairs", 2, _pairs(lambda n: sparse_strided(4)), LONG, **unions),
        count("strided, stride √n, pairs", 1.5, _pairs(lambda n: sparse_strided(math.isqrt(n))), SQUARE, **unions),
        count("fixed, stride √n, pairs", 1.5, _pairs(lambda n: sparse_fixed(math.isqrt(n), 1)), SQUARE, **unions),
        count("tree, pairs by log2(n / k)", 1, lambda n: _tree_pairs(n, k=4) / math.log2(n / 4), LONG, **shapes),
        count("axial on a square, pairs", 1.5, _pairs(_axial), SQUARE, **shapes),
        count("LSH, scores, fixed chunk", 1, lambda n: 2 * 4 * n * 64, where="10_lsh"),
    ]  # fmt: skip


TIMED = {  # what the benchmark calls them
    "window, pairs": "window/tinyattn",
    "block local, pairs": "blocks/tinyattn",
    "Longformer, pairs": "longformer/tinyattn",
    "BigBird, pairs": "bigbird/tinyattn",
    "core of attention, operations": "dense/torch",
}


def measured(bench: Mapping[str, Any], case: str, mode: str = "forward") -> Fit | None:
    """How fast the seconds of one case grow, out of what `make bench` wrote; None if unknown.

    Args:
        bench: content of results/bench.json.
        case: such as "window/tinyattn".
        mode: "forward" or "gradients".

    Example:
        >>> cell = {"kind": "time", "case": "a", "mode": "forward"}
        >>> cells = [{**cell, "n": n, "seconds": n**2 / 1e6} for n in (1024, 2048, 4096)]
        >>> print(measured({"cells": cells}, "a"), measured({"cells": cells}, "b"))
        2.00 ± 0.00 None
    """
    points = sorted(
        (cell["n"], cell["seconds"])
        for cell in bench["cells"]
        if (cell["kind"], cell["case"], cell["mode"]) == ("time", case, mode) and "seconds" in cell
    )
    if len({n for n, _ in points}) < 2:
        return None
    return fit_exponent(*zip(*points, strict=True))


def with_times(claims: list[Claim], bench: Mapping[str, Any]) -> list[Claim]:
    """The claims, each with the measured growth of its benchmark where there is one."""
    return [
        replace(claim, measured=measured(bench, TIMED[claim.name]))
        if claim.name in TIMED
        else claim
        for claim in claims
    ]


def _pairs(pattern: Callable[[int], Pattern]) -> Callable[[int], int]:
    return lambda n: kept_pairs(pattern(n), n)


def _path(pattern: Callable[[int], Pattern]) -> Callable[[int], float]:
    return lambda n: max_path_length(pattern(n), n)


def _tree_pairs(n: int, k: int) -> int:
    """What tokens read of others: all pairs, without those of spans and of tokens with themselves."""
    return kept_pairs(bp_transformer(n, k), 2 * n - 1) - round(n * math.log2(n)) - n


def _axial(n: int) -> Pattern:
    side = math.isqrt(n)
    return axial_rows(side) | axial_columns(side)
