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


def whole_seed(seed: object) -> int:
    """A seed as Python's integer, refused here if `torch.Generator` would refuse it later.

    Example:
        >>> whole_seed(7)
        7

    Raises:
        TypeError: if it is not a whole number.
        ValueError: if it has more than 64 bits.
    """
    (whole,) = whole_numbers(seed=seed)
    if not -(2**63) <= whole < 2**64:
        raise ValueError(f"seed must be from -2⁶³ to 2⁶⁴ - 1, got {whole}")
    return whole


def check_tokens(x: object, d_model: int, *, name: str = "x") -> None:
    """Refuse what are not token vectors, (b, n, d_model).

    Example:
        >>> check_tokens(torch.zeros(2, 3, 8), d_model=8)

    Raises:
        TypeError: if x is no tensor.
        ValueError: if it has another shape.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.dim() != 3 or x.shape[-1] != d_model:
        raise ValueError(f"{name} must be (b, n, d_model={d_model}), got {tuple(x.shape)}")


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
