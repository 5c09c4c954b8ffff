"""Refusing what a caller can get wrong, in one sentence each."""

from __future__ import annotations

import operator

import torch


def whole_numbers(**values: object) -> None:
    """Refuse sizes and counts that are no integers: 2.0 and True are none, numpy's integers are.

    Example:
        >>> whole_numbers(n=3, w=0)

    Raises:
        TypeError: naming the first value that is not a whole number.
    """
    for name, value in values.items():
        try:
            operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            whole = False
        else:
            whole = not isinstance(value, bool)
        if not whole:
            raise TypeError(f"{name} must be a whole number, got {value!r}")


def first_derivatives_only(name: str, instead: str) -> None:
    """Refuse, in a backward pass written by hand, to be differentiated once more.

    PyTorch would take what the pass computes for a constant and leave the second derivative out.

    Args:
        name: what has no second derivatives.
        instead: what has them, for the way out.

    Raises:
        NotImplementedError: if gradients are recorded, as create_graph=True does.

    Example:
        >>> with torch.no_grad():
        ...     first_derivatives_only("fast", "slow")
    """
    if torch.is_grad_enabled():
        raise NotImplementedError(
            f"{name} has no second derivatives (create_graph=True); {instead} has"
        )
