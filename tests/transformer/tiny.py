"""Models small enough for exact comparison, with no parameter left at a value that hides faults."""

from typing import TypeVar

import pytest
import torch
from torch import nn

from tinyattn.transformer import (
    Learned,
    MultiHeadAttention,
    Positions,
    RoPE,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerConfig,
)

from ..close import assert_same

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


def assert_read_by_a_sparse_layer(layer: MultiHeadAttention, x: torch.Tensor) -> None:
    """Where the pattern saves work, positions that add to scores still count.

    A layer that returns its weights computes all of them, and is what the other has to equal.
    """
    assert layer._pays(x.shape[1], x.shape[1])
    assert_same(layer(x), layer(x, return_weights=True)[0])
    plain = MultiHeadAttention(x.shape[-1], layer.n_heads, pattern=layer.pattern).double()
    plain.load_state_dict(layer.state_dict(), strict=False)
    assert not torch.allclose(layer(x), plain(x), atol=1e-3)


def assert_begins_with(std: float, *tables: nn.Parameter) -> None:
    """Drawn around zero with this deviation; the tables need some thousand numbers each."""
    for table in tables:
        x = table.detach().flatten()
        assert float(x.std()) == pytest.approx(std, rel=0.1)
        assert abs(float(x.mean())) < 0.1 * std


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
