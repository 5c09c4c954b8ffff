"""Does a word of a question stand far behind it? A tree against a window, on real text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.data import language_reference, without_repeats
from tinyattn.patterns import Pattern, Window, bp_transformer
from tinyattn.training import seeded, train
from tinyattn.transformer import BPTransformer, EncoderLayer, Shaw, TransformerConfig
from tinyattn.transformer.embedding import Embedding
from tinyattn.transformer.generate import evaluating
from tinyattn.transformer.positions import Positions

UNKNOWN = 0
N_TEST = 2000


@dataclass(frozen=True)
class RecallConfig:
    """What is trained and for how long.

    Args:
        n: words of an example, the question's word first.
        n_far: words at the end among which it may stand.
        vocab_size: the commonest words that are told apart.
        k: nodes that a token of the tree takes on each side at each step from leaf to root.
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: layers.
        batch_size: examples in a step.
        steps: how many steps.
        lr: highest learning rate.
    """

    n: int = 32
    n_far: int = 4
    vocab_size: int = 64
    k: int = 1
    d_model: int = 32
    n_heads: int = 2
    n_layers: int = 3
    batch_size: int = 32
    steps: int = 1000
    lr: float = 5e-3

    @property
    def tree(self) -> Pattern:
        return bp_transformer(self.n, self.k)

    @property
    def window(self) -> Window:
        """The narrowest window that has no fewer pairs than the tree."""
        pairs = self.tree.edges(2 * self.n - 1)
        w = next(w for w in range(self.n) if Window(w).edges(self.n) >= pairs)
        return Window(w)


@lru_cache(maxsize=4)
def words(vocab_size: int) -> tuple[Int64[Tensor, "n_train"], Int64[Tensor, "n_test"]]:
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


class TreeClassifier(nn.Module):
    """Answers from the root of a tree."""

    def __init__(self, config: RecallConfig) -> None:
        super().__init__()
        self.model = BPTransformer(_sizes(config), config.n, config.k)
        self.classify = nn.Linear(config.d_model, 2)

    def forward(self, tokens: Int64[Tensor, "b n"]) -> Float[Tensor, "b 2"]:
        return self.classify(self.model(tokens)[1])


class WindowClassifier(nn.Module):
    """Answers from the mean of the tokens, which read windows; Shaw's vectors tell distances."""

    def __init__(self, config: RecallConfig) -> None:
        super().__init__()
        sizes = _sizes(config)
        self.embedding = Embedding(sizes.vocab_size, sizes, Positions())
        self.layers = nn.ModuleList(
            EncoderLayer(
                sizes, pattern=config.window, positions=Shaw(sizes.d_head, config.window.w)
            )
            for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(config.d_model)
        self.classify = nn.Linear(config.d_model, 2)

    def forward(self, tokens: Int64[Tensor, "b n"]) -> Float[Tensor, "b 2"]:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.classify(self.norm(x).mean(dim=1))


MODELS = {"tree": TreeClassifier, "window": WindowClassifier}


def _sizes(config: RecallConfig) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=2 * config.vocab_size,  # words of the text, and words as questions
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_ff=2 * config.d_model,
        n_layers=config.n_layers,
    )


def build(name: str, config: RecallConfig, seed: int) -> nn.Module:
    """The untrained model of a seed."""
    if name not in MODELS:
        raise ValueError(f"there is {', '.join(MODELS)}, got {name!r}")
    with seeded(seed):
        return MODELS[name](config)


def fit(model: nn.Module, config: RecallConfig, seed: int) -> list[float]:
    """Train on stretches of text and questions drawn at random."""
    ids, _ = words(config.vocab_size)

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        tokens, answers = examples(ids, config.batch_size, config, generator)
        return F.cross_entropy(model(tokens), answers)

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="recall")


def accuracy(model: nn.Module, config: RecallConfig) -> float:
    """Share of right answers about text that was not trained on; half are right by chance."""
    _, ids = words(config.vocab_size)
    tokens, answers = examples(ids, N_TEST, config, torch.Generator().manual_seed(0))
    with evaluating(model):
        said = torch.cat([model(batch).argmax(dim=-1) for batch in tokens.split(250)])
    return float((said == answers).double().mean())


def word_alone(config: RecallConfig) -> float:
    """The same share for the commoner answer to each word, whatever the text."""
    generator = torch.Generator().manual_seed(1)
    tokens, answers = examples(words(config.vocab_size)[0], 40_000, config, generator)
    yes = torch.zeros(2 * config.vocab_size).index_add_(0, tokens[:, 0], 2.0 * answers - 1)
    tokens, answers = examples(
        words(config.vocab_size)[1], N_TEST, config, torch.Generator().manual_seed(0)
    )
    return float(((yes[tokens[:, 0]] > 0) == answers).double().mean())
