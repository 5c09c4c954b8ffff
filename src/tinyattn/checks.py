"""Refusing what a caller can get wrong, in one sentence each."""

from __future__ import annotations

import operator


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
