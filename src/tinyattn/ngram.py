"""The counting baseline: an interpolated n-gram model of characters, Witten-Bell smoothed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Tokens = Tensor | np.ndarray  # one text: 1-D, whole numbers below vocab_size


class WittenBell:
    """Predict a character from the `order - 1` before it by counting, order by order.

    With c(h w) occurrences of character w after history h, N = sum over w of c(h w) and T the
    number of *different* characters seen after h,

        p(w | h) = (c(h w) + T p(w | h')) / (N + T),

    where h' is h without its oldest character. A history that was followed by many different
    characters trusts its counts less and its shorter version more. An unseen history is
    skipped. Below order 1 stands the uniform distribution, so nothing gets probability 0.

    Counting and scoring cost O(order * n log n): the histories of each length are the rows of a
    sorted table, and a history is found from the one that is a character shorter.

    Args:
        order: characters that take part in a prediction, the predicted one included; 4 is a 4-gram.
        vocab_size: number of characters there are, seen or not.

    Source:
        Witten and Bell 1991, "The zero-frequency problem", method C; in the interpolated form of
        Chen and Goodman 1998, "An empirical study of smoothing techniques for language modeling",
        section 2.5, whose recursion ends in the uniform distribution as here. NLTK's
        `WittenBellInterpolated` ends it one order earlier, in unsmoothed unigram frequencies.

    Example:
        >>> model = WittenBell(order=2, vocab_size=2).fit(torch.tensor([0, 1, 0, 1, 0]))
        >>> model.next_probabilities(torch.tensor([0]))  # after 0: (c + 1 * p(w)) / (2 + 1)
        tensor([0.1905, 0.8095], dtype=torch.float64)
    """

    def __init__(self, order: int, vocab_size: int) -> None:
        if order < 1 or vocab_size < 1:
            raise ValueError(
                "order and vocab_size must be 1 or more, "
                f"got order={order}, vocab_size={vocab_size}"
            )
        self.order = order
        self.vocab_size = vocab_size
        self._levels: list[_Level] = []

    def fit(self, *pieces: Tokens) -> WittenBell:
        """Count in these pieces of text, replacing earlier counts; no history crosses a seam."""
        arrays = [self._checked(piece) for piece in pieces]
        ids = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
        if not len(ids):
            raise ValueError("fit needs at least one character, got none")
        reach = np.concatenate([np.arange(len(piece)) for piece in arrays])
        self._levels = []
        parent = np.zeros(len(ids), dtype=np.int64)  # the empty history
        n_parents = 1
        for m in range(1, self.order + 1):
            found = reach >= m - 1
            if not found.any():
                break  # every piece is shorter than m characters
            keys, row, count = np.unique(
                parent[found] * self.vocab_size + ids[found],
                return_inverse=True,
                return_counts=True,
            )
            history = keys // self.vocab_size
            self._levels.append(
                _Level(
                    keys,
                    count,
                    total=np.bincount(history, weights=count, minlength=n_parents),
                    kinds=np.bincount(history, minlength=n_parents),
                )
            )
            grams = np.zeros(len(ids), dtype=np.int64)
            grams[found] = row
            parent, n_parents = np.roll(grams, 1), len(keys)
        return self

    def probabilities(self, ids: Tokens) -> Float[np.ndarray, " n"]:
        """p(character | up to order - 1 characters before it) at every position of one text."""
        if not self._levels:
            raise ValueError("fit the model before asking for probabilities")
        return self._score(self._checked(ids)[None])[0]

    def bits_per_character(self, ids: Tokens, start: int = 0) -> float:
        """Mean of -log2 p over positions `start` onwards; those before it are only read."""
        if not 0 <= start < len(ids):
            raise ValueError(f"start must lie in 0 .. {len(ids) - 1}, got {start}")
        return float(-np.log2(self.probabilities(ids)[start:]).mean())

    def next_probabilities(self, history: Tokens) -> Float[Tensor, " vocab_size"]:
        """The distribution of the character that follows `history`; it sums to 1."""
        if not self._levels:
            raise ValueError("fit the model before asking for probabilities")
        read = self._checked(history)[max(0, len(history) - self.order + 1) :]
        rows = np.repeat(read[None], self.vocab_size, axis=0)
        candidates = np.arange(self.vocab_size)[:, None]
        return torch.from_numpy(self._score(np.concatenate([rows, candidates], axis=1))[:, -1])

    def _score(self, ids: np.ndarray) -> np.ndarray:
        """Probabilities of (b, n) characters, each row a text of its own."""
        p = np.full(ids.shape, 1 / self.vocab_size)
        parent = np.zeros(ids.shape, dtype=np.int64)  # -1 marks a history that was never seen
        for level in self._levels:
            seen = parent >= 0
            total = np.where(seen, level.total[parent], 0)
            kinds = np.where(seen, level.kinds[parent], 0)
            row = level.find(np.where(seen, parent * self.vocab_size + ids, -1))
            count = np.where(row >= 0, level.counts[row], 0)
            followed = total > 0
            p[followed] = ((count + kinds * p) / np.maximum(total + kinds, 1))[followed]
            parent = np.concatenate([np.full((len(ids), 1), -1), row[:, :-1]], axis=1)
        return p

    def _checked(self, ids: Tokens) -> np.ndarray:
        array = np.asarray(ids)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError(
                "a text must be a 1-D tensor or array of token numbers, "
                f"got {array.ndim}-D of dtype {array.dtype}"
            )
        if len(array) and not (array.min() >= 0 and array.max() < self.vocab_size):
            raise ValueError(
                f"tokens must lie in 0 .. {self.vocab_size - 1}, got {array.min()} .. {array.max()}"
            )
        return array.astype(np.int64)


class _Level(NamedTuple):
    """All m-grams of one length, sorted, and what follows each (m - 1)-gram.

    A key is (row of the (m - 1)-gram in the level above) * vocab_size + last character.
    """

    keys: np.ndarray  # (n_grams,)
    counts: np.ndarray  # (n_grams,)
    total: np.ndarray  # (n_histories,) N: occurrences with a next character
    kinds: np.ndarray  # (n_histories,) T: different next characters

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, -1 where there is none."""
        row = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[row] == keys, row, -1)
