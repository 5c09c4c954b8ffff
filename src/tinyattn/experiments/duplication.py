"""A word and the same word again: can a model find, by hashing, where each token stood before?

The task on which the Reformer was tried first. Words are random, so the first half cannot be
guessed and only the second half counts: there every token stood half a sequence earlier, and a
model that looks anywhere else is at chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from tinyattn.content import LSHRouter, Router, Rule
from tinyattn.dense import attention_weights
from tinyattn.experiments.records import record, timed
from tinyattn.training import seeded, train
from tinyattn.transformer import Decoder, Learned, TransformerConfig
from tinyattn.transformer.generate import evaluating

NAME = "duplication"
SEPARATOR = 0  # stands before each copy of the word
SEED = 0
ROUNDS = (1, 2, 4, 8)
BAR = 0.9  # accuracy with 8 rounds that runs with 2 rounds or more, and exact ones, must reach
HASH_SEEDS = range(2**20, 2**20 + 4)  # of the rotations that a test uses; no training does


@dataclass(frozen=True)
class DuplicationConfig:
    """The task, the model and its training; chunks hold two average buckets.

    Args:
        n: length of a sequence, even: separator, word, separator, word.
        vocab_size: the separator and the letters of words.
        chunk_size: sorted tokens in a chunk.
        d_model: width of a token vector, and of the only head.
        batch_size: sequences in a step.
        steps: how many steps.
        lr: highest learning rate.
        n_test: sequences that are tested.

    Raises:
        ValueError: if n is odd or below 4.
    """

    n: int = 128
    vocab_size: int = 32
    chunk_size: int = 16
    d_model: int = 64
    batch_size: int = 8
    steps: int = 500
    lr: float = 1e-2
    n_test: int = 32

    def __post_init__(self) -> None:
        if self.n < 4 or self.n % 2:
            raise ValueError(f"n must be even and 4 or more, got {self.n}")

    @property
    def n_buckets(self) -> int:
        return 2 * self.n // self.chunk_size

    @property
    def chance(self) -> float:
        return 1 / (self.vocab_size - 1)


LONGER = DuplicationConfig()
SHORTER = DuplicationConfig(n=64, chunk_size=8)


class SharedQK(Router):
    """What LSH attention approximates: all n² scores of queries with themselves as unit keys.

    Example:
        >>> SharedQK().weights(*torch.ones(2, 1, 1, 3, 4))[0, 0]
        tensor([[1.0000, 0.0000, 0.0000],
                [1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000]])
    """

    causal = True

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        """Each token reads all earlier ones; the first, which has none, reads itself."""
        if key_padding is not None:
            raise ValueError("words of this task have one length: key_padding must be None")
        mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril(-1)
        mask[:1, :1] = True
        return attention_weights(q, F.normalize(q, dim=-1), mask, scale=scale)


def lsh(config: DuplicationConfig, n_hashes: int) -> LSHRouter:
    """LSH attention of n_hashes rounds at the sizes of the task."""
    return LSHRouter(config.n_buckets, n_hashes, causal=True, chunk_size=config.chunk_size)


def rules(config: DuplicationConfig) -> dict[str, Rule | None]:
    """Everything that is trained: exact attention, exact with q as keys, and LSH."""
    rounds = {f"{r} rounds" if r > 1 else "1 round": lsh(config, r) for r in ROUNDS}
    return {"dense": None, "shared": SharedQK(), **rounds}


def n_scores(config: DuplicationConfig, rule: Rule | None) -> int:
    """Scores that are computed for one sequence: n², or n * 2 chunk_size in every round."""
    if isinstance(rule, LSHRouter):
        return rule.n_hashes * config.n * 2 * config.chunk_size
    return config.n**2


def draw(config: DuplicationConfig, b: int, generator: torch.Generator) -> Int64[Tensor, "b n"]:
    """Separator, word, separator, word.

    Example:
        >>> config = DuplicationConfig(n=8)
        >>> draw(config, 1, torch.Generator().manual_seed(0)).tolist()
        [[0, 19, 31, 16, 0, 19, 31, 16]]
    """
    word = torch.randint(1, config.vocab_size, (b, config.n // 2 - 1), generator=generator)
    half = F.pad(word, (1, 0), value=SEPARATOR)
    return torch.cat([half, half], dim=1)


def build(config: DuplicationConfig, rule: Rule | None, seed: int = SEED) -> Decoder:
    """The untrained model of a seed, one layer with one head; the same numbers for every rule.

    Positions are drawn as large as tokens. At the usual 0.02 it takes a multiple of the steps
    until some pair of places stands out.
    """
    with seeded(seed):
        sizes = TransformerConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            n_heads=1,
            d_ff=2 * config.d_model,
            n_layers=1,
            max_len=config.n,
            positions=Learned,
            tie_embeddings=False,
        )
        model = Decoder(sizes, pattern=rule)
        nn.init.normal_(model.embedding.positions.table)
    return model


def reading_by(model: Decoder, config: DuplicationConfig, rule: Rule | None) -> Decoder:
    """A model with the same parameters that reads by another rule."""
    other = build(config, rule)
    other.load_state_dict(model.state_dict())
    return other


def hash_with(model: nn.Module, seed: int) -> None:
    """Give all LSH layers of a model the rotations of a seed."""
    for part in model.modules():
        if isinstance(part, LSHRouter):
            part.seed = seed


def fit(model: Decoder, config: DuplicationConfig, seed: int = SEED) -> list[float]:
    """Train on words, and with rotations, that are drawn afresh at each step."""
    hash_seeds: Iterator[int] = iter(range(config.steps))

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        hash_with(model, next(hash_seeds))
        tokens = draw(config, config.batch_size, generator)
        logits, told = second_word(model, tokens)
        return F.cross_entropy(logits.flatten(0, 1), told.flatten())

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label=NAME)


def second_word(
    model: nn.Module, tokens: Int64[Tensor, "b n"]
) -> tuple[Float[Tensor, "b n_word vocab_size"], Int64[Tensor, "b n_word"]]:
    """Logits for each token of the second word, and these tokens."""
    start = tokens.shape[1] // 2  # where the second separator stands
    return model(tokens[:, :-1])[:, start:], tokens[:, start + 1 :]


def accuracy(model: Decoder, config: DuplicationConfig) -> float:
    """Share of the tokens of second words that are said rightly; the mean over HASH_SEEDS."""
    tokens = draw(config, config.n_test, torch.Generator().manual_seed(2**31))
    right = 0.0
    for seed in HASH_SEEDS:
        hash_with(model, seed)
        with evaluating(model):
            logits, told = second_word(model, tokens)
        right += float((logits.argmax(dim=-1) == told).double().mean())
    return right / len(HASH_SEEDS)


def run(config: DuplicationConfig, name: str, seed: int = SEED) -> dict:
    """Train one rule; what is kept of it. A shared q and k is also tested by the other rules."""
    everything = rules(config)
    model = build(config, everything[name], seed)
    losses, seconds = timed(lambda: fit(model, config, seed))
    scores = {"accuracy": accuracy(model, config)}
    if name != "dense":
        others = {key: rule for key, rule in everything.items() if key != "dense"}
        for key, rule in others.items():
            scores[key] = accuracy(reading_by(model, config, rule), config)
    return {
        "trained": name,
        "n": config.n,
        "n_scores": n_scores(config, everything[name]),
        **record(seed, losses, seconds, scores),
    }
