"""Masks as short texts, small enough that a page can carry a few hundred of them.

A mask is cut into runs of equal cells, row after row; the lengths of the runs, the first one of
forbidden cells, are written as bytes (seven bits each, the eighth says that more follow) and
those in base 64. In rules that look at j - i only, a cell is what its upper left neighbour is, or in the
first column mostly what stands above. So the runs are taken of the cells that differ from these
where that is shorter.
static/studio.js reads and writes the same texts.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool
from numpy import ndarray
from torch import Tensor

PLAIN, DIFFERENCES = "r", "d"  # what the runs are taken of, as first letter of the text


def pack(mask: Bool[Tensor, "n n"]) -> str:
    """A square mask as text.

    Example:
        >>> from tinyattn.patterns import Causal
        >>> pack(Causal().mask(64))
        'dAAH/Hw'
        >>> unpack('rAAMB', 2).int()
        tensor([[1, 1],
                [1, 0]], dtype=torch.int32)
    """
    if mask.dtype != torch.bool or mask.dim() != 2 or mask.shape[0] != mask.shape[1]:
        raise ValueError(
            f"a packed mask must be square and bool, got {tuple(mask.shape)} of {mask.dtype}"
        )
    cells = mask.cpu().numpy()
    differ = cells.copy()
    differ[1:, 1:] ^= cells[:-1, :-1]
    differ[1:, :1] ^= cells[:-1, :1]
    texts = [PLAIN + _text(_runs(cells)), DIFFERENCES + _text(_runs(differ))]
    return min(texts, key=len)


def unpack(text: str, n: int) -> Bool[Tensor, "n n"]:
    """The n by n mask of a text made by `pack`.

    Raises:
        ValueError: if the text is no mask of that size.
    """
    if not isinstance(text, str) or text[:1] not in (PLAIN, DIFFERENCES):
        raise ValueError(f"a packed mask starts with {PLAIN} or {DIFFERENCES}, got {text!r:.40}")
    lengths = _numbers(text[1:])
    if sum(lengths) != n * n:
        raise ValueError(f"a packed mask of n={n} has {n * n} cells, got {sum(lengths)}")
    values = np.arange(len(lengths)) % 2 == 1
    cells = np.repeat(values, np.array(lengths, dtype=int)).reshape(n, n)
    if text[0] == DIFFERENCES:
        for row in range(1, n):
            cells[row, 1:] ^= cells[row - 1, :-1]
            cells[row, :1] ^= cells[row - 1, :1]
    return torch.from_numpy(cells)


def _runs(cells: Bool[ndarray, "n n"]) -> list[int]:
    """Lengths of the runs of equal cells, the first of them forbidden (perhaps none)."""
    flat = cells.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    starts = [0, *changes.tolist(), flat.size]
    lengths = [stop - start for start, stop in pairwise(starts)]
    return [0, *lengths] if flat.size and flat[0] else lengths


def _text(lengths: list[int]) -> str:
    out = bytearray()
    for length in lengths:
        while length > 127:
            out.append(length & 127 | 128)
            length >>= 7
        out.append(length)
    return b64encode(bytes(out)).decode().rstrip("=")


def _numbers(text: str) -> list[int]:
    try:
        if "=" in text:
            raise Error("its padding is left out")
        packed = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except Error as error:
        raise ValueError(f"a packed mask is written in base 64: {error}") from None
    numbers, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number, shift = 0, 0
    if shift:
        raise ValueError("a packed mask ends in the middle of a number")
    return numbers
