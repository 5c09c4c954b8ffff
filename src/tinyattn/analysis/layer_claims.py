"""What the chapter that compares layers says about growth, counted again."""

from __future__ import annotations

from collections.abc import Callable

from tinyattn.analysis.complexity import (
    attention_cost,
    convolution_cost,
    fully_connected_cost,
    kept_pairs,
    recurrence_cost,
)
from tinyattn.analysis.graphs import max_path_length
from tinyattn.analysis.ledger import Claim
from tinyattn.checks import whole_numbers
from tinyattn.patterns import Full, Pattern, Window

WIDTH = 64  # d_model where n grows
LENGTH = 16  # n where d_model grows
KERNEL = 4  # tokens that a kernel sees
SHORT = (65, 129, 257)  # where paths are followed: n - 1 is a power of two
POWERS = (4**3, 4**4, 4**5, 4**6)  # of the kernel's width


def layer_claims() -> list[Claim]:
    """Table 2, row by row, with the row for restricted attention that the survey leaves out.

    Example:
        >>> all(claim.holds for claim in layer_claims())
        True
    """
    count, where = Claim.of_count, {"where": "05_comparison"}
    in_width = {"of": "d_model", **where}
    return [
        count("fully connected, operations", 2, lambda n: fully_connected_cost(n, WIDTH).flops, **where),
        count("fully connected, by width", 2, lambda d: fully_connected_cost(LENGTH, d).flops, **in_width),
        count("fully connected, parameters by length", 2, lambda n: fully_connected_cost(n, WIDTH).parameters, **where),
        count("convolution, operations", 1, lambda n: convolution_cost(n, WIDTH, KERNEL).flops, **where),
        count("convolution, by width", 2, lambda d: convolution_cost(LENGTH, d, KERNEL).flops, **in_width),
        count("convolution, by kernel", 1, lambda width: convolution_cost(LENGTH, WIDTH, width).flops, of="kernel", **where),
        count("recurrence, operations", 1, lambda n: recurrence_cost(n, WIDTH).flops, **where),
        count("recurrence, by width", 2, lambda d: recurrence_cost(LENGTH, d).flops, **in_width),
        count("recurrence, steps in a row", 1, lambda n: recurrence_cost(n, WIDTH).steps, **where),
        count("self-attention, steps in a row", 0, lambda n: attention_cost(n, WIDTH).steps, **where),
        count("restricted attention, pairs", 1, lambda n: kept_pairs(Window(KERNEL), n), (2**12, 2**13, 2**14), **where),
        count("self-attention, longest path", 0, _path(Full()), SHORT, **where),
        count("contiguous convolutions, layers", 1, _path(Window(KERNEL)), SHORT, **where),
        count("dilated convolutions, layers by log4(n)", 0, lambda n: dilated_layers(n, 4) / _log(n, 4), POWERS, **where),
        count("recurrence, longest path", 1, _path(Window(1)), SHORT, **where),
    ]  # fmt: skip


def dilated_layers(n: int, width: int) -> int:
    """Causal layers with dilations 1, width, width², … until the last of n tokens knows all.

    Counted by collecting the offsets that are reached, one layer after the other.

    Raises:
        ValueError: if n is below 1 or width below 2.

    Example:
        >>> [dilated_layers(n, width=4) for n in (1, 2, 4, 5, 16, 17, 64)]
        [0, 1, 1, 2, 2, 3, 3]
    """
    n, width = whole_numbers(n=n, width=width)
    if n < 1 or width < 2:
        raise ValueError(f"n must be 1 or more and width 2 or more, got n={n} and width={width}")
    known, n_layers = {0}, 0
    while len(known) < n:  # offsets lie side by side from 0 on
        dilation = width**n_layers
        known = {back + m * dilation for back in known for m in range(width)}
        n_layers += 1
    return n_layers


def _path(pattern: Pattern) -> Callable[[int], float]:
    return lambda n: max_path_length(pattern, n)


def _log(n: int, base: int) -> int:
    """Of a power of the base, exactly."""
    return next(e for e in range(n) if base**e == n)
