"""One frozen record of all that a Transformer's shape depends on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns.base import keep
from tinyattn.transformer.positions import Positions, Sinusoidal


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes and choices of a Transformer.

    Args:
        vocab_size: tokens the (source) embedding knows.
        target_vocab_size: tokens the decoder of a Seq2Seq knows; vocab_size if not given.
        d_model: width of a token vector.
        n_heads: heads in each attention; divides d_model.
        d_ff: inner width of the feed-forward layers.
        n_layers: layers in each stack.
        n_decoder_layers: layers in the decoder of a Seq2Seq; n_layers if not given.
        n_chunks: pieces in which the feed-forward layers take a sequence.
        max_len: positions in a table of learned positions.
        max_distance: distance at which Shaw's relative positions are clipped.
        norm_first: LayerNorm before each sub-layer (pre) or after each sum (post).
        layer_norm_eps: added to the variance under the root.
        dropout: share of each sub-layer's outputs set to zero in training.
        activation: nonlinearity of the feed-forward layers.
        positions: class of the position scheme.
        tie_embeddings: whether the decoder's output map is its embedding, transposed.

    Raises:
        ValueError: if a size is below 1, d_model not divisible by n_heads, dropout not in [0, 1),
            max_distance negative, or layer_norm_eps not above 0.
        TypeError: if a size is no whole number, dropout or layer_norm_eps no number, norm_first or
            tie_embeddings neither True nor False, or positions not a class of schemes.
    """

    vocab_size: int
    target_vocab_size: int | None = None
    d_model: int = 64
    n_heads: int = 4
    d_ff: int = 256
    n_layers: int = 2
    n_decoder_layers: int | None = None
    n_chunks: int = 1
    max_len: int = 512
    max_distance: int = 16
    norm_first: bool = True
    layer_norm_eps: float = 1e-5
    dropout: float = 0.0
    activation: Callable[[Tensor], Tensor] = torch.relu
    positions: type[Positions] = Sinusoidal
    tie_embeddings: bool = True

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "n_chunks", "max_len")
        optional = ("target_vocab_size", "n_decoder_layers")
        for name in (*sizes, "max_distance", *optional):
            if name not in optional or getattr(self, name) is not None:
                (value,) = whole_numbers(**{name: getattr(self, name)})
                keep(self, **{name: value})
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in optional:
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ValueError(f"{name} must be 1 or more if given, got {given}")
        if self.max_distance < 0:
            raise ValueError(f"max_distance must be 0 or more, got {self.max_distance}")
        if self.d_model % self.n_heads:
            raise ValueError(
                "d_model must be divisible by n_heads, "
                f"got d_model={self.d_model} and n_heads={self.n_heads}"
            )
        for name in ("dropout", "layer_norm_eps"):
            number = getattr(self, name)
            if not isinstance(number, Real) or isinstance(number, bool):
                raise TypeError(f"{name} must be a number, got {number!r}")
        for name in ("norm_first", "tie_embeddings"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        if not 0 < self.layer_norm_eps < math.inf:
            raise ValueError(
                f"layer_norm_eps must be above 0 and finite, got {self.layer_norm_eps}"
            )
        if not callable(self.activation):
            raise TypeError(
                f"activation must be a function such as torch.relu, got {self.activation!r}"
            )
        if not (isinstance(self.positions, type) and issubclass(self.positions, Positions)):
            raise TypeError(
                "positions must be a class of schemes such as Sinusoidal, which the model builds "
                f"at its own sizes, got {self.positions!r}"
            )

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads
