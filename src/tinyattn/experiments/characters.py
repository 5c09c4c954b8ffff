"""Decoder only: which character comes next in the reference manual of the Python language."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tinyattn.content import RulePerHead, update_routers
from tinyattn.data import Characters, language_reference, split_blocks, without_repeats
from tinyattn.ngram import WittenBell
from tinyattn.training import seeded, train
from tinyattn.transformer import Decoder, T5Bias, TransformerConfig
from tinyattn.transformer.generate import evaluating
from tinyattn.transformer.positions import Positions

ALPHABET = "".join(map(chr, range(32, 127))) + "\n" + Characters.UNKNOWN
CODEC = Characters(ALPHABET)
BLOCK = 2048  # characters that are trained on, or held out, together
CONTEXT = 16  # characters of a held-out block that are read before the first one is predicted


@dataclass(frozen=True)
class CharactersConfig:
    """What is trained and for how long.

    Args:
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: decoder layers.
        n: characters in a training example.
        batch_size: examples in a step.
        steps: how many steps.
        lr: highest learning rate.
    """

    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    n: int = 64
    batch_size: int = 16
    steps: int = 900
    lr: float = 1e-2


@lru_cache(maxsize=1)
def text() -> tuple[Int64[Tensor, "n"], list[slice], list[slice]]:
    """The manual without repeated paragraphs as token numbers; training and held-out slices."""
    ids = CODEC.encode(without_repeats(language_reference()))
    return ids, *split_blocks(len(ids), BLOCK)


def build(
    config: CharactersConfig,
    seed: int,
    positions: type[Positions] = T5Bias,
    pattern: RulePerHead | None = None,
) -> Decoder:
    """The untrained model of a seed; its parameters do not depend on the pattern."""
    with seeded(seed):
        return Decoder(
            TransformerConfig(
                vocab_size=len(CODEC),
                d_model=config.d_model,
                n_heads=config.n_heads,
                d_ff=4 * config.d_model,
                n_layers=config.n_layers,
                positions=positions,
                tie_embeddings=False,
            ),
            pattern=pattern,
        )


def fit(model: Decoder, config: CharactersConfig, seed: int) -> list[float]:
    """Train on stretches of text drawn at random, none of them across a held-out block."""
    ids, kept, _ = text()
    starts = torch.cat([torch.arange(s.start, max(s.start, s.stop - config.n)) for s in kept])

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        chosen = torch.randint(len(starts), (config.batch_size,), generator=generator)
        stretch = ids[starts[chosen][:, None] + torch.arange(config.n + 1)]
        logits = model(stretch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), stretch[:, 1:].flatten())

    return train(
        model,
        loss,
        config.steps,
        lr=config.lr,
        weight_decay=0.05,
        after_step=lambda: update_routers(model),
        seed=seed,
        label="characters",
    )


def bits_per_character(model: Decoder, n: int) -> float:
    """Mean of -log₂ p over the held-out blocks, each character after `CONTEXT` others or more.

    A block is read in overlapping stretches of n characters, so that every character but the
    first few of the block is predicted once, from between `CONTEXT` and n - 1 before it.

    Args:
        model: a decoder over `CODEC`.
        n: the longest stretch, the one that the model was trained on.
    """
    ids, _, held_out = text()
    by_length: dict[int, list[Tensor]] = {}
    for block in held_out:
        for stretch in _stretches(ids[block], n):
            by_length.setdefault(len(stretch), []).append(stretch)
    nats, count = 0.0, 0
    with evaluating(model):
        for equally_long in by_length.values():
            for batch in torch.stack(equally_long).split(64):
                log_p = model(batch[:, :-1]).log_softmax(dim=-1)[:, CONTEXT - 1 :]
                said = log_p.gather(-1, batch[:, CONTEXT:, None])
                nats, count = nats - float(said.sum()), count + said.numel()
    return nats / count / math.log(2)


def _stretches(block: Tensor, n: int) -> list[Tensor]:
    """Stretches of at most n + 1 characters, of which the first `CONTEXT` are only read."""
    starts = range(0, len(block) - CONTEXT, n + 1 - CONTEXT)
    return [block[start : start + n + 1] for start in starts]


def ngram_bits(order: int) -> float:
    """The same measure for an interpolated n-gram on the same characters."""
    ids, kept, held_out = text()
    model = WittenBell(order, len(CODEC)).fit(*[ids[s] for s in kept])
    counts = [s.stop - s.start - CONTEXT for s in held_out if s.stop - s.start > CONTEXT]
    blocks = [ids[s] for s in held_out if s.stop - s.start > CONTEXT]
    bits = [model.bits_per_character(block, CONTEXT) for block in blocks]
    return sum(b * c for b, c in zip(bits, counts, strict=True)) / sum(counts)
