"""Models small enough for exact comparison, with no parameter left at a value that hides faults."""

from typing import TypeVar

import torch
from torch import nn

from tinyattn.transformer import (
    Learned,
    Positions,
    RoPE,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerConfig,
)

Module = TypeVar("Module", bound=nn.Module)

SCHEMES = [Positions, Sinusoidal, Learned, Shaw, T5Bias, RoPE]
RELATIVE = [Shaw, T5Bias, RoPE]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype)


def some_tokens(*shape: int, seed: int = 0, vocab_size: int = 11) -> torch.Tensor:
    return torch.randint(vocab_size, shape, generator=seeded(seed))


def small(**changes: object) -> TransformerConfig:
    sizes = {"vocab_size": 11, "d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 2}
    return TransformerConfig(**{**sizes, "max_len": 12, "max_distance": 2, **changes})


def scrambled(module: Module, seed: int = 0) -> Module:
    """In float64, with every parameter random: gains of 1 and biases of 0 would hide mistakes."""
    rng = seeded(seed)
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(centre + 0.4 * torch.randn(parameter.shape, generator=rng))
    return module


def compositions(n: int) -> list[list[int]]:
    """All ways to write n as an ordered sum: 3 = 3, 2 + 1, 1 + 2, 1 + 1 + 1."""
    if n == 0:
        return [[]]
    return [[first, *rest] for first in range(1, n + 1) for rest in compositions(n - first)]
