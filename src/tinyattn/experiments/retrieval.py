"""Encoder only, under many patterns: values shown early in a sequence, asked for anywhere later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from tinyattn.analysis import path_lengths, receptive_field
from tinyattn.experiments.records import record, timed
from tinyattn.patterns import (
    BlockLocal,
    Dilated,
    Full,
    PerHead,
    Random,
    Window,
    bigbird,
    longformer,
    sparse_fixed,
    sparse_strided,
    star_transformer,
)
from tinyattn.training import seeded, train
from tinyattn.transformer import Encoder, TransformerConfig
from tinyattn.transformer.generate import evaluating

START = 0  # the first token; patterns with a global token make it theirs
NOT_ASKED = -100  # what cross_entropy skips


@dataclass(frozen=True)
class RetrievalConfig:
    """What is trained and for how long.

    Args:
        n: tokens in a sequence.
        n_names: names that are given a value in each sequence.
        n_values: values that a name can have.
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: encoder layers.
        batch_size: sequences in a step.
        steps: how many steps.
        lr: highest learning rate.
        n_test: sequences that are tested.
    """

    n: int = 128
    n_names: int = 4
    n_values: int = 8
    d_model: int = 32
    n_heads: int = 4
    n_layers: int = 2
    batch_size: int = 16
    steps: int = 400
    lr: float = 1e-2
    n_test: int = 1000

    @property
    def vocab_size(self) -> int:
        """The start, a question for each name, a statement for each name and value."""
        return 1 + self.n_names + self.n_names * self.n_values


ONE_NAME = RetrievalConfig(n_names=1, steps=250)
SEEDS = (0, 1)  # twenty trainings for each
BAR = 0.05  # with one name, how far a pattern may stay below what its paths allow
N_BINS = 16  # distances that are scored together: n / N_BINS of them


class Sequences(NamedTuple):
    """Sequences, and for each position what is asked there.

    Args:
        tokens: token numbers.
        answers: the value to say at a question, `NOT_ASKED` elsewhere.
        stated_at: where the value was stated.
    """

    tokens: Int64[Tensor, "b n"]
    answers: Int64[Tensor, "b n"]
    stated_at: Int64[Tensor, "b n"]


def patterns(config: RetrievalConfig) -> dict[str, PerHead]:
    """Every pattern, as near as it comes to 17 keys a row; star's size is its own."""
    n, half = config.n, config.n_heads // 2
    itself = Window(0)
    return {
        "full": Full(),
        "window": Window(8),
        "dilated heads": (Window(8),) * half + (Dilated(8, 4),) * (config.n_heads - half),
        "block local": BlockLocal(16),
        "random": itself | Random(n, r=16, seed=0, exclude=itself),
        "star": star_transformer(),
        "longformer": longformer(w=6, g=2),
        "bigbird": bigbird(n, block_size=2, r=2, seed=0),
        "strided": sparse_strided(12),
        "fixed": sparse_fixed(16, c=2),
    }


def draw(config: RetrievalConfig, b: int, generator: torch.Generator) -> Sequences:
    """Each name is stated once in the first half; all other tokens but the first ask for one.

    A question counts only behind the statement, so that causal patterns can compete.
    """
    n, n_names = config.n, config.n_names
    values = torch.randint(config.n_values, (b, n_names), generator=generator)
    places = 1 + torch.rand(b, n // 2 - 1, generator=generator).argsort(dim=1)[:, :n_names]
    asked = torch.randint(n_names, (b, n), generator=generator)
    tokens = 1 + asked
    statements = 1 + n_names + torch.arange(n_names) * config.n_values + values
    tokens = tokens.scatter(1, places, statements)
    tokens[:, 0] = START
    stated_at = places.gather(1, asked)
    counts = (tokens >= 1) & (tokens <= n_names) & (stated_at < torch.arange(n))
    answers = values.gather(1, asked).masked_fill(~counts, NOT_ASKED)
    return Sequences(tokens, answers, stated_at)


class Retriever(nn.Module):
    """An encoder whose every position says a value."""

    def __init__(self, config: RetrievalConfig, pattern: PerHead) -> None:
        super().__init__()
        sizes = TransformerConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            n_heads=config.n_heads,
            d_ff=4 * config.d_model,
            n_layers=config.n_layers,
        )
        self.encoder = Encoder(sizes, pattern=pattern)
        self.to_logits = nn.Linear(config.d_model, config.n_values)

    def forward(self, tokens: Int64[Tensor, "b n"]) -> Float[Tensor, "b n n_values"]:
        return self.to_logits(self.encoder(tokens))


def build(config: RetrievalConfig, pattern: PerHead, seed: int) -> Retriever:
    """The untrained model of a seed; the same parameters for every pattern."""
    with seeded(seed):
        return Retriever(config, pattern)


def fit(model: Retriever, config: RetrievalConfig, seed: int) -> list[float]:
    """Train on sequences drawn afresh at each step, the same ones for every pattern."""

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        drawn = draw(config, config.batch_size, generator)
        logits = model(drawn.tokens)
        return F.cross_entropy(
            logits.flatten(0, 1), drawn.answers.flatten(), ignore_index=NOT_ASKED
        )

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="retrieval")


def held_out(config: RetrievalConfig) -> Sequences:
    """Sequences of a seed that no training uses."""
    return draw(config, config.n_test, torch.Generator().manual_seed(2**31))


def joined(pattern: PerHead, n: int) -> Bool[Tensor, "n n"]:
    """The mask of a pattern, or of all heads together."""
    heads = pattern if isinstance(pattern, tuple) else (pattern,)
    return torch.stack([head.mask(n) for head in heads]).any(dim=0)


def edges(pattern: PerHead, n: int) -> float:
    """Pairs that are allowed, the mean over the heads."""
    heads = pattern if isinstance(pattern, tuple) else (pattern,)
    return sum(head.edges(n) for head in heads) / len(heads)


def longest_path(pattern: PerHead, n: int) -> int | None:
    """Layers after which every token can know of all earlier ones; None if there is no number."""
    longest = float(path_lengths(joined(pattern, n)).tril().max())
    return int(longest) if math.isfinite(longest) else None


def reachable(config: RetrievalConfig, pattern: PerHead, drawn: Sequences) -> Bool[Tensor, "b n"]:
    """Whether a path as long as the model has layers leads from the statement to the position."""
    reads = receptive_field(joined(pattern, config.n), config.n_layers)
    return reads[torch.arange(config.n).expand_as(drawn.stated_at), drawn.stated_at]


def ceiling(config: RetrievalConfig, pattern: PerHead, drawn: Sequences) -> float:
    """The best expected accuracy: right where a path exists, a guess elsewhere."""
    share = float(reachable(config, pattern, drawn)[drawn.answers != NOT_ASKED].double().mean())
    return share + (1 - share) / config.n_values


def answer(model: Retriever, tokens: Int64[Tensor, "b n"]) -> Int64[Tensor, "b n"]:
    """The likeliest value at every position."""
    with evaluating(model):
        return torch.cat([model(some).argmax(dim=-1) for some in tokens.split(100)])


def accuracy(model: Retriever, drawn: Sequences) -> float:
    """Share of the questions that are answered rightly."""
    asked = drawn.answers != NOT_ASKED
    return float((answer(model, drawn.tokens) == drawn.answers)[asked].double().mean())


def by_distance(right: Bool[Tensor, "b n"], drawn: Sequences) -> list[float]:
    """Share of True among the questions of each bin of distances from 0 to n - 1."""
    n = right.shape[1]
    asked = drawn.answers != NOT_ASKED
    bins = ((torch.arange(n) - drawn.stated_at) * N_BINS // n)[asked]
    counts = torch.bincount(bins, minlength=N_BINS)
    hits = torch.bincount(bins, weights=right[asked].double(), minlength=N_BINS)
    return (hits / counts.clamp(min=1)).tolist()


def run(config: RetrievalConfig, name: str, seed: int) -> dict:
    """Train one pattern with one seed; what is kept of it."""
    pattern = patterns(config)[name]
    model, drawn = build(config, pattern, seed), held_out(config)
    losses, seconds = timed(lambda: fit(model, config, seed))
    right = answer(model, drawn.tokens) == drawn.answers
    scores = {
        "accuracy": accuracy(model, drawn),
        "ceiling": ceiling(config, pattern, drawn),
    }
    return {
        "pattern": name,
        "n_names": config.n_names,
        **record(seed, losses, seconds, scores),
        "by_distance": [round(share, 4) for share in by_distance(right, drawn)],
    }


def described(config: RetrievalConfig) -> dict:
    """What can be said of the patterns before any training, and what guessing is worth."""
    return {
        "chance": 1 / config.n_values,
        "patterns": {
            name: {
                "rule": repr(pattern),
                "edges": edges(pattern, config.n),
                "longest_path": longest_path(pattern, config.n),
            }
            for name, pattern in patterns(config).items()
        },
    }
