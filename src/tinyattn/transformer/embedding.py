"""From tokens to vectors."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from tinyattn.transformer.config import TransformerConfig
from tinyattn.transformer.positions import Positions


def check_token_ids(tokens: Tensor, name: str = "tokens") -> None:
    """Refuse what is not (b, n) integers.

    Raises:
        ValueError: if there are not two axes.
        TypeError: if the numbers are not whole.
    """
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {tokens.dtype}")
    if tokens.dim() != 2:
        raise ValueError(f"{name} must be (b, n), got {tuple(tokens.shape)}")


class Embedding(nn.Module):
    """Vectors of tokens, times √d_model, with positions and dropout.

    Float input is taken as token vectors that are ready, such as the patches of a picture; only
    positions and dropout are added.

    Source:
        Vaswani et al. 2017, section 3.4. The table starts at standard deviation 1 / √d_model, so
        that scaled vectors, and scores of a tied output map, start near 1.
    """

    def __init__(self, vocab_size: int, config: TransformerConfig, positions: Positions) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, config.d_model)
        nn.init.normal_(self.table.weight, std=config.d_model**-0.5)
        self.positions = positions
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, tokens: Shaped[Tensor, "b n *d_model"], start: int = 0
    ) -> Float[Tensor, "b n width"]:
        """Raises ValueError for a token outside the vocabulary or vectors of another width,
        TypeError for what is neither integers nor floats."""
        vocab_size, d_model = self.table.weight.shape
        if tokens.is_floating_point():
            if tokens.dim() != 3 or tokens.shape[-1] != d_model:
                raise ValueError(
                    f"token vectors must be (b, n, d_model={d_model}), got {tuple(tokens.shape)}"
                )
            x = tokens
        else:
            if tokens.dtype == torch.bool or tokens.is_complex():
                raise TypeError(f"tokens must be integers or float vectors, got {tokens.dtype}")
            if tokens.dim() != 2:
                raise ValueError(f"tokens must be (b, n), got {tuple(tokens.shape)}")
            if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
                raise ValueError(
                    f"tokens must be in 0 … {vocab_size - 1} (vocab_size={vocab_size}), "
                    f"got {int(tokens.min())} … {int(tokens.max())}"
                )
            x = self.table(tokens.long()) * math.sqrt(d_model)
        return self.dropout(self.positions.embed(x, start))
