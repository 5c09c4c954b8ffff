"""A word and the same word again: can a model find, by hashing, where each token stood before?

The task on which the Reformer was tried first. Words are random, so the first half cannot be
guessed and only the second half counts: there every token stood half a sequence earlier, and a
model that looks anywhere else is at chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
        piece: length of the pieces that are learned first, even; None for whole sequences only.
        piece_steps: steps on pieces before those on whole sequences.

    Raises:
        ValueError: if n or piece is odd or below 4, or a piece longer than the sequence.
    """

    n: int = 128
    vocab_size: int = 32
    chunk_size: int = 16
    d_model: int = 64
    batch_size: int = 8
    steps: int = 500
    lr: float = 1e-2
    n_test: int = 32
    piece: int | None = None
    piece_steps: int = 0

    def __post_init__(self) -> None:
        if self.n < 4 or self.n % 2:
            raise ValueError(f"n must be even and 4 or more, got {self.n}")
        if self.piece is not None and (not 4 <= self.piece <= self.n or self.piece % 2):
            raise ValueError(f"piece must be even and in 4 … n={self.n}, got {self.piece}")

    @property
    def n_buckets(self) -> int:
        return 2 * self.n // self.chunk_size

    @property
    def chance(self) -> float:
        return 1 / (self.vocab_size - 1)


LONGER = DuplicationConfig()
SHORTER = DuplicationConfig(n=64, chunk_size=8)
LONG = DuplicationConfig(n=512, steps=150, piece=128, piece_steps=1000, n_test=16)
LONGEST = DuplicationConfig(n=1024, steps=100, piece=128, piece_steps=1500, n_test=8)
AT_ONCE = DuplicationConfig(n=512, steps=600, n_test=16)  # without pieces


class Places(Learned):
    """Learned positions for sequences whose tokens stand at chosen places of a longer one.

    Attributes:
        at: the place of each token; 0, 1, 2, … if None.
    """

    at: Int64[Tensor, "n"] | None = None

    def embed(
        self, x: Float[Tensor, "b n d_model"], start: int = 0
    ) -> Float[Tensor, "b n d_model"]:
        if self.at is None:
            return super().embed(x, start)
        return x + self.table[self.at[start : start + x.shape[1]]]


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
    """Scores that one sequence costs: n², or n * 2 chunk_size in every round, as the paper counts.

    Causal chunks are shorter, which saves about as much as filling them up adds, or more.
    """
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
            positions=Places,
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


def hash_with(model: nn.Module, seed: int, n_buckets: int | None = None) -> None:
    """Give all LSH layers of a model the rotations of a seed, and perhaps a number of buckets."""
    for part in model.modules():
        if isinstance(part, LSHRouter):
            part.seed = seed
            part.n_buckets = n_buckets or part.n_buckets


def places_of_a_piece(config: DuplicationConfig, generator: torch.Generator) -> Int64[Tensor, "n"]:
    """Where a piece stands: as many places of both words, one half of the sequence apart.

    Pieces that would stand out at an end are moved inside, so that the places there are not rare.

    Example:
        >>> config = DuplicationConfig(n=12, piece=4)
        >>> places_of_a_piece(config, torch.Generator().manual_seed(0))
        tensor([ 3,  4,  9, 10])
    """
    own, half = config.piece // 2, config.n // 2
    first = torch.randint(-(own // 2), half - own // 2 + 1, (), generator=generator)
    word = first.clamp(0, half - own) + torch.arange(own)
    return torch.cat([word, word + half])


def fit(model: Decoder, config: DuplicationConfig, seed: int = SEED) -> list[float]:
    """Train on words, and with rotations, that are drawn afresh at each step; on pieces first.

    A piece is a short sequence whose tokens stand where they would in a long one. With fewer keys
    to confuse a pair of places with, a pair is found sooner, and a step costs less.
    """
    hash_seeds: Iterator[int] = iter(range(config.piece_steps + config.steps))
    places, piece = model.embedding.positions, replace(config, n=config.piece or config.n)

    def loss_of(size: DuplicationConfig, generator: torch.Generator) -> Float[Tensor, ""]:
        hash_with(model, next(hash_seeds), size.n_buckets)
        tokens = draw(size, size.batch_size, generator)
        logits, told = second_word(model, tokens)
        return F.cross_entropy(logits.flatten(0, 1), told.flatten())

    def loss_of_piece(generator: torch.Generator) -> Float[Tensor, ""]:
        places.at = places_of_a_piece(config, generator)
        return loss_of(piece, generator)

    losses: list[float] = []
    if config.piece_steps:
        losses = train(
            model, loss_of_piece, config.piece_steps, lr=config.lr, seed=seed, label="pieces"
        )
        places.at = None
    return losses + train(
        model, lambda generator: loss_of(config, generator), config.steps, lr=config.lr, seed=seed,
        label=NAME,
    )  # fmt: skip


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
        "pieces": config.piece_steps > 0,
        "n_scores": n_scores(config, everything[name]),
        **record(seed, losses, seconds, scores),
    }
