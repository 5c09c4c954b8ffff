"""Refusing what a caller can get wrong, in one sentence each."""

from __future__ import annotations

import operator

import torch


def whole_numbers(**values: object) -> tuple[int, ...]:
    """Sizes and counts as Python's integers, in the order in which they were given.

    2.0, True and tensors are refused. NumPy's integers are taken, but not kept: theirs overflow,
    and many of them can be no seed.

    Example:
        >>> import numpy as np
        >>> whole_numbers(n=3, w=np.int8(0))
        (3, 0)

    Raises:
        TypeError: naming the first value that is not a whole number.
    """
    found = []
    for name, value in values.items():
        try:
            found.append(operator.index(value))  # type: ignore[arg-type]
        except TypeError:
            whole = False
        else:
            whole = not isinstance(value, bool | torch.Tensor)
        if not whole:
            raise TypeError(f"{name} must be a whole number, got {value!r}")
    return tuple(found)


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
