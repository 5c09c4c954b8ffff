"""The exponent of growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fit:
    """values ≈ constant · nᵉˣᵖᵒⁿᵉⁿᵗ; `spread` is the standard error, None with two points."""

    exponent: float
    spread: float | None


def fit_exponent(n: Sequence[float], values: Sequence[float]) -> Fit:
    """Least squares of log values over log n.

    Raises:
        ValueError: if there are fewer than two different n, or a number is not positive.
    """
    if len(n) != len(values) or len(set(n)) < 2 or min(*n, *values) <= 0:
        raise ValueError(
            "a fit needs positive values at two different n or more, "
            f"got n={list(n)}, values={list(values)}"
        )
    x, y = [math.log(a) for a in n], [math.log(b) for b in values]
    x_mean, y_mean = math.fsum(x) / len(x), math.fsum(y) / len(y)
    around = math.fsum((a - x_mean) ** 2 for a in x)
    slope = math.fsum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / around
    if len(n) == 2:
        return Fit(slope, None)
    residual = math.fsum(
        (b - y_mean - slope * (a - x_mean)) ** 2 for a, b in zip(x, y, strict=True)
    )
    return Fit(slope, math.sqrt(residual / (len(n) - 2) / around))
