"""The characters again, with stretches four times as long and positions inside q and k.

Chapters that ask what trained attention reads need scores that are products of a query and a key
and nothing else. RoPE turns q and k instead of adding to their scores, so what `heads` returns is
all that the model's attention depends on.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tinyattn.experiments import characters, records
from tinyattn.experiments.characters import CharactersConfig
from tinyattn.transformer import Decoder, MultiHeadAttention, RoPE
from tinyattn.transformer.generate import evaluating

NAME = "long_characters"
CONFIG = CharactersConfig(n_layers=3, n=256, batch_size=8, steps=2600, lr=5e-3)
SEED = 0


def build(config: CharactersConfig = CONFIG, seed: int = SEED) -> Decoder:
    """The untrained model of a seed."""
    return characters.build(config, seed, RoPE)


@lru_cache(maxsize=1)
def load() -> Decoder:
    """The trained model, from results/long_characters.npz."""
    return records.load_weights(NAME, build())


def held_out(n_stretches: int = 1, n: int = CONFIG.n) -> Int64[Tensor, "n_stretches n"]:
    """The first n tokens of each of the first held-out blocks, as `characters.CODEC` writes them.

    Raises:
        ValueError: if there are fewer blocks of n tokens.
    """
    ids, _, blocks = characters.text()
    enough = [ids[block.start : block.start + n] for block in blocks if len(ids[block]) >= n]
    if not 1 <= n_stretches <= len(enough):
        raise ValueError(
            f"n_stretches must be in 1 … {len(enough)}, the held-out blocks of {n} characters, "
            f"got {n_stretches}"
        )
    return torch.stack(enough[:n_stretches])


class Heads(NamedTuple):
    """What the attention of one layer computes with, for every head."""

    q: Float[Tensor, "b h n d_head"]
    k: Float[Tensor, "b h n d_head"]
    v: Float[Tensor, "b h n d_head"]


def heads(tokens: Int64[Tensor, "b n"] | None = None, model: Decoder | None = None) -> list[Heads]:
    """q, k and v of each layer, as they are when the model reads some text.

    q and k are turned by RoPE already, so `attention(*heads()[0], Causal().mask(n))` is what the
    first layer's heads output before W^O mixes them.

    Args:
        tokens: what is read; `held_out()` if not given.
        model: who reads; the trained model if not given.

    Raises:
        ValueError: if the model adds positions to the scores, as T5's bias does.

    Example:
        >>> model = build(CharactersConfig(d_model=8, n_heads=2, n_layers=3))
        >>> [q.shape for q, k, v in heads(held_out(n=5), model)]
        [torch.Size([1, 2, 5, 4]), torch.Size([1, 2, 5, 4]), torch.Size([1, 2, 5, 4])]
    """
    model = load() if model is None else model
    tokens = held_out() if tokens is None else tokens
    inputs: list[Tensor] = []
    layers: list[MultiHeadAttention] = [layer.attention for layer in model.layers]
    if any(layer.positions.in_scores for layer in layers):
        raise ValueError(
            "the scores of this model are more than q·k: its positions add to them, "
            f"got {type(layers[0].positions).__name__}"
        )
    hooks = [layer.register_forward_pre_hook(partial(_keep, inputs)) for layer in layers]
    try:
        with evaluating(model):
            model(tokens)
            return [_heads(layer, x) for layer, x in zip(layers, inputs, strict=True)]
    finally:
        for hook in hooks:
            hook.remove()


def _keep(inputs: list[Tensor], layer: MultiHeadAttention, args: tuple[Tensor, ...]) -> None:
    inputs.append(args[0])


def _heads(layer: MultiHeadAttention, x: Float[Tensor, "b n d_model"]) -> Heads:
    at = torch.arange(x.shape[1])
    q, k, v = (layer.split_heads(project(x)) for project in (layer.query, layer.key, layer.value))
    return Heads(layer.positions.rotate(q, at), layer.positions.rotate(k, at), v)
