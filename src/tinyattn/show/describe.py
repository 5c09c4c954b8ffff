"""Masks in words, exact enough that a reader could draw them."""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Bool
from numpy import ndarray

from tinyattn.patterns import Pattern


def as_mask(mask: object, n: int | None = None, n_k: int | None = None) -> Bool[ndarray, "n_q n_k"]:
    """A bool matrix from a matrix or from a pattern and its size.

    Raises:
        TypeError: if `mask` is neither a pattern nor a matrix of bools.
        ValueError: if a pattern comes without `n`, a matrix with one, or it is not 2-D.
    """
    if isinstance(mask, type) and issubclass(mask, Pattern):
        raise TypeError(f"a pattern must be a rule such as Causal(), got the class {mask.__name__}")
    if isinstance(mask, str) or mask is None:
        raise TypeError(f"a mask is a pattern or a bool matrix, got {mask!r:.80}")
    if isinstance(mask, Pattern):
        if n is None:
            raise ValueError(f"a pattern needs a size to be drawn: give n with {mask!r}")
        mask = mask.mask(n, n_k)
    elif n is not None or n_k is not None:
        raise ValueError("n and n_k go with a pattern; a mask has its own size")
    try:
        matrix = mask.detach().cpu().numpy() if isinstance(mask, torch.Tensor) else np.asarray(mask)
    except ValueError:
        raise ValueError(
            f"a mask is (n_q, n_k), got rows of unequal lengths: {mask!r:.80}"
        ) from None
    if matrix.dtype != bool:
        raise TypeError(
            f"a mask is bool (True = may read), got {matrix.dtype}; write mask != 0 if that is meant"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"a mask is (n_q, n_k) with both above 0, got shape {matrix.shape}")
    return matrix


def describe_mask(mask: object, n: int | None = None, n_k: int | None = None) -> str:
    """Say what a mask allows: size, count, keys per query, and its shape if it has one.

    The text stands in for a picture: use it as alt text of `draw_mask`.

    Args:
        mask: a bool matrix (n_q, n_k), or a pattern.
        n: number of queries, for a pattern.
        n_k: number of keys, for a pattern; `n` by default.

    Example:
        >>> from tinyattn.patterns import Causal
        >>> print(describe_mask(Causal(), 8))
        Causal() for 8 queries and 8 keys: 36 of 64 pairs allowed, density 56.2 %. Keys per \
query: 1 to 8, mean 4.5. A query reads its own position and every earlier one.
    """
    allowed = as_mask(mask, n, n_k)
    n_queries, n_keys = allowed.shape
    count = int(allowed.sum())
    per_row = allowed.sum(axis=1)
    name = repr(mask) if isinstance(mask, Pattern) else "A mask"
    keys = f"{per_row.min()} to {per_row.max()}, mean {per_row.mean():.3g}"
    if per_row.min() == per_row.max():
        keys = f"{per_row[0]} each"
    size = f"{_count(n_queries, 'query', 'queries')} and {_count(n_keys, 'key', 'keys')}"
    counted = f"{count} of {allowed.size} pairs allowed, density {100 * count / allowed.size:.3g} %"
    said = [f"{name} for {size}: {counted}", f"Keys per query: {keys}", *_shape(allowed)]
    return ". ".join(said) + "."


def _shape(allowed: Bool[ndarray, "n_q n_k"]) -> list[str]:
    """Sentences about full rows and columns, diagonals and the future."""
    if allowed.all():
        return ["Every query reads every key"]
    if not allowed.any():
        return ["No query reads anything"]
    n_queries, n_keys = allowed.shape
    if n_queries == 1:
        return [f"The query reads {_list('key', 'keys', allowed[0], verb=False)}"]
    rows, columns = allowed.all(axis=1), allowed.all(axis=0)
    said = []
    offsets = np.arange(n_keys) - np.arange(n_queries)[:, None] - (n_keys - n_queries)
    diagonals = _diagonals(allowed, offsets, np.ones_like(allowed))
    plain = diagonals is not None
    if not plain:
        if rows.any():
            said.append(f"{_list('Query', 'Queries', rows)} every key")
        if columns.any():
            said.append(f"Every query reads {_list('key', 'keys', columns, verb=False)}")
        rest = ~rows[:, None] & ~columns[None, :]
        diagonals = _diagonals(allowed, offsets, rest) if rows.any() or columns.any() else None
    if diagonals is not None:
        begin = "Apart from these, a query" if said else "A query"
        said.append(f"{begin} {_reads(diagonals, offsets)}")
    silent = ~allowed.any(axis=1)
    if silent.any():
        said.append(f"{_list('Query', 'Queries', silent)} nothing")
    if not plain and (offsets > 0).any() and not allowed[offsets > 0].any():
        said.append("No query reads a later position")
    return said


def _diagonals(
    allowed: Bool[ndarray, "n_q n_k"], offsets: ndarray, where: Bool[ndarray, "n_q n_k"]
) -> list[int] | None:
    """Offsets j - i that are allowed along their whole diagonal, or None if one is broken."""
    found = []
    for offset in np.unique(offsets[where]):
        diagonal = allowed[where & (offsets == offset)]
        if diagonal.all():
            found.append(int(offset))
        elif diagonal.any():
            return None
    return found


def _reads(diagonals: list[int], offsets: ndarray) -> str:
    """The sentence for a set of allowed offsets."""
    if diagonals == list(range(int(offsets.min()), 1)):
        return "reads its own position and every earlier one"
    if not diagonals:
        return "reads nothing"
    if diagonals == [0]:
        return "reads its own position only"
    if diagonals == list(range(diagonals[0], diagonals[-1] + 1)):
        first, last = diagonals[0], diagonals[-1]
        if first == -last:
            return f"reads itself and {_count(last, 'key', 'keys')} on each side"
        if last == 0:
            return f"reads itself and {_count(-first, 'key', 'keys')} before it"
    return f"reads the keys at distance {runs(diagonals)} from it (negative is before)"


def _list(one: str, many: str, which: ndarray, verb: bool = True) -> str:
    places = np.flatnonzero(which).tolist()
    if len(places) == 1:
        return f"{one} {places[0]}" + (" reads" if verb else "")
    return f"{many} {runs(places)}" + (" read" if verb else "")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def runs(numbers: Iterable[int]) -> str:
    """Sorted whole numbers with runs of three or more joined: `0 to 3, 7`.

    Example:
        >>> runs([0, 1, 2, 3, 7, 9, 10])
        '0 to 3, 7, 9, 10'
    """
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    parts: list[str] = []
    for group in groups:
        long = len(group) > 2
        parts += [f"{group[0]} to {group[-1]}"] if long else [str(number) for number in group]
    return ", ".join(parts)
