"""Encoder and decoder: dates as people write them become dates as computers write them."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tinyattn.data import DATE_FORMATS, Characters, date_pairs, split_days, write_date
from tinyattn.training import seeded, train
from tinyattn.transformer import Seq2Seq, TransformerConfig

PAD, START, STOP = "_", "<", ">"
WRITTEN = Characters(string.ascii_letters + string.digits + " ,.'/-" + PAD)
ISO = Characters(string.digits + "-" + START + STOP)
BAR = 0.95  # share of unseen days that must come out exactly right


@dataclass(frozen=True)
class DatesConfig:
    """What is trained and for how long.

    Args:
        d_model: width of a token vector.
        n_heads: heads in each attention.
        n_layers: layers of the encoder and of the decoder.
        batch_size: dates in a step.
        steps: how many steps.
        lr: highest learning rate.
        n_test_days: held-out days that are tested, each in every format.
    """

    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 1
    batch_size: int = 64
    steps: int = 700
    lr: float = 4e-3
    n_test_days: int = 60


def encode_written(texts: Sequence[str]) -> tuple[Int64[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """Token numbers of the texts, filled up to one length, and which of them are real."""
    n = max(len(text) for text in texts)
    tokens = WRITTEN.encode("".join(text.ljust(n, PAD) for text in texts)).view(len(texts), n)
    return tokens, tokens != WRITTEN.encode(PAD)


def encode_iso(days: Sequence[date]) -> Int64[Tensor, "b n"]:
    """<yyyy-mm-dd> as token numbers: what the decoder reads, and one place later must say."""
    return ISO.encode("".join(START + write_date(day) + STOP for day in days)).view(len(days), -1)


def build(config: DatesConfig, seed: int) -> Seq2Seq:
    """The untrained model of a seed."""
    with seeded(seed):
        return Seq2Seq(
            TransformerConfig(
                vocab_size=len(WRITTEN),
                target_vocab_size=len(ISO),
                d_model=config.d_model,
                n_heads=config.n_heads,
                d_ff=4 * config.d_model,
                n_layers=config.n_layers,
                tie_embeddings=False,
            )
        )


def fit(model: Seq2Seq, config: DatesConfig, seed: int) -> list[float]:
    """Train on the days that are not held out, each time in a format drawn at random."""
    days, _ = split_days()

    def loss(generator: torch.Generator) -> Float[Tensor, ""]:
        chosen = torch.randint(len(days), (config.batch_size,), generator=generator).tolist()
        formats = torch.randint(len(DATE_FORMATS), (config.batch_size,), generator=generator)
        batch = [days[number] for number in chosen]
        written = [
            write_date(day, DATE_FORMATS[number])
            for day, number in zip(batch, formats.tolist(), strict=True)
        ]
        source, real = encode_written(written)
        target = encode_iso(batch)
        logits = model(source, target[:, :-1], source_padding=real)
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())

    return train(model, loss, config.steps, lr=config.lr, seed=seed, label="dates")


def translate(model: Seq2Seq, texts: Sequence[str]) -> list[str]:
    """What the model makes of each text, up to its stop sign."""
    source, real = encode_written(texts)
    start, stop = ISO.encode(START + STOP).tolist()
    out = model.translate(source, start_token=start, stop_token=stop, n_new=12, source_padding=real)
    return [ISO.decode(row).split(STOP)[0] for row in out]


def test_pairs(config: DatesConfig) -> list[tuple[str, str]]:
    """(as written, ISO 8601) for days that no model was trained on, each in every format."""
    _, unseen = split_days()
    return date_pairs(unseen[: config.n_test_days])


def accuracy(model: Seq2Seq, pairs: Sequence[tuple[str, str]]) -> float:
    """Share of texts that are translated without a single wrong character."""
    answers = translate(model, [written for written, _ in pairs])
    return sum(a == iso for a, (_, iso) in zip(answers, pairs, strict=True)) / len(pairs)
