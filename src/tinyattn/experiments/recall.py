"""Does a word of a question stand far behind it? A tree against a window, on real text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Int64
from torch import Tensor

from tinyattn.data import language_reference, without_repeats
from tinyattn.patterns import Pattern, Window, bp_transformer

UNKNOWN = 0
N_TEST = 2000


@dataclass(frozen=True)
class RecallConfig:
    """What is trained and for how long.

    Args:
        n: words of an example, the question's word first.
        n_far: words at the end among which it may stand.
        vocab_size: the commonest words that are told apart.
        k: nodes of each size that a token of the tree reads on each side.
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: layers.
        batch_size: examples in a step.
        steps: how many steps.
        lr: highest learning rate.
    """

    n: int = 32
    n_far: int = 8
    vocab_size: int = 128
    k: int = 1
    d_model: int = 48
    n_heads: int = 4
    n_layers: int = 3
    batch_size: int = 32
    steps: int = 800
    lr: float = 3e-3

    @property
    def tree(self) -> Pattern:
        return bp_transformer(self.n, self.k)

    @property
    def window(self) -> Window:
        """The widest window with no more pairs than the tree, and one more key on each side."""
        pairs = self.tree.edges(2 * self.n - 1)
        w = next(w for w in range(self.n) if Window(w).edges(self.n) >= pairs)
        return Window(w)


@lru_cache(maxsize=4)
def words(vocab_size: int) -> tuple[Int64[Tensor, "n"], Int64[Tensor, "n"]]:
    """The manual as numbers of words: what is trained on, and the last tenth, which is not."""
    text = re.findall(r"[a-z_]+", without_repeats(language_reference()).lower())
    common = [word for word, _ in Counter(text).most_common(vocab_size - 1)]
    number = {word: at for at, word in enumerate(common, start=UNKNOWN + 1)}
    ids = torch.tensor([number.get(word, UNKNOWN) for word in text])
    cut = len(ids) * 9 // 10
    return ids[:cut], ids[cut:]


def examples(
    ids: Int64[Tensor, "n_text"], count: int, config: RecallConfig, generator: torch.Generator
) -> tuple[Int64[Tensor, "count n"], Int64[Tensor, "count"]]:
    """A question, a stretch of text behind it, and whether its word is among the last n_far.

    The question is a word outside the vocabulary of the text: its number plus vocab_size. Every
    second answer is no, to a question that was asked about another stretch, so that the word
    alone says little about the answer. Words that are not told apart are not asked for.
    """
    length = config.n - 1
    starts = torch.randint(len(ids) - length, (4 * count,), generator=generator)
    text = ids[starts[:, None] + torch.arange(length)]
    far = text[:, -config.n_far :]
    chosen = torch.randint(config.n_far, (4 * count, 1), generator=generator)
    asked = far.gather(1, chosen)[:, 0]
    elsewhere = asked[torch.randperm(4 * count, generator=generator)]
    in_vain = torch.arange(4 * count) % 2 == 1
    asked = torch.where(in_vain, elsewhere, asked)
    found = (far == asked[:, None]).any(dim=1)
    fair = ((asked != UNKNOWN) & (found != in_vain)).nonzero()[:, 0]
    yes, no = (fair[found[fair] == answer][: count // 2] for answer in (True, False))
    kept = torch.cat([yes, no])
    return torch.cat([asked[kept, None] + config.vocab_size, text[kept]], dim=1), found[kept].long()
