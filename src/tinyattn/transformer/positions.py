"""Telling attention where tokens stand: four places for it, and the absolute schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.checks import whole_numbers

if TYPE_CHECKING:
    from tinyattn.transformer.config import TransformerConfig


class Positions(nn.Module):
    """No position information, and the four places where a scheme may put some.

    A scheme overrides the places it uses: `embed` adds to token vectors (sinusoids, learned),
    `rotate` turns queries and keys (RoPE), `score_bias` adds to the scaled scores (Shaw, T5), and
    `value_bias` adds to what a query receives (Shaw).

    Left as it is, a self-attention layer cannot tell one order of its tokens from another.
    """

    shared = True  # one instance serves every layer; False gives each layer its own
    in_scores = False  # whether score_bias or value_bias is used, which needs every weight

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> Positions:
        """The scheme at the sizes of a model."""
        return cls()

    def embed(
        self, x: Float[Tensor, "b n d_model"], start: int = 0
    ) -> Float[Tensor, "b n d_model"]:
        """Token vectors x that stand at start, start + 1, …, with their positions added."""
        return x

    def rotate(
        self, x: Float[Tensor, "b h n d_head"], positions: Int64[Tensor, "n"]
    ) -> Float[Tensor, "b h n d_head"]:
        """Queries or keys at the given positions, turned."""
        return x

    def score_bias(
        self,
        q: Float[Tensor, "b h n_q d_head"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
        scale: float,
    ) -> Float[Tensor, "..."] | None:
        """What is added to the scaled score of query position i and key position j."""
        return None

    def value_bias(
        self,
        weights: Float[Tensor, "b h n_q n_k"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
    ) -> Float[Tensor, "b h n_q d_head"] | None:
        """What is added to the weighted average that query i receives."""
        return None


def sinusoidal_positions(
    n: int,
    d_model: int,
    *,
    start: int = 0,
    base: float = 10_000.0,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "n d_model"]:
    """Sines and cosines of each position at d_model / 2 frequencies, fast to slow.

        PE[t, 2m] = sin(t ω_m),  PE[t, 2m + 1] = cos(t ω_m),  ω_m = base^(-2m / d_model)

    A sine and its cosine share one frequency, so that moving k positions turns each pair by the
    angle k ω_m wherever it starts. An odd d_model drops the last cosine.

    Args:
        n: how many positions, from `start` on.
        d_model: width of a token vector.
        start: first position.
        base: the slowest pair has a wavelength of 2π * base ** (1 - 2 / d_model) positions, for an
            even d_model.
        dtype: of the result; torch's default if not given. Angles are always taken in float64.

    Raises:
        ValueError: if n or start is negative, d_model below 1, or base not above 0.
        TypeError: if n, d_model or start is no whole number.

    Source:
        Vaswani et al. 2017, section 3.5 (arXiv:1706.03762). Lin et al. 2022, equation 28, prints
        a frequency for each dimension; the pairs must share one. tensor2tensor puts all sines
        before all cosines, which is the same up to an order of the channels.

    Example:
        >>> sinusoidal_positions(2, 4).round(decimals=2)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8400, 0.5400, 0.0100, 1.0000]])
    """
    n, d_model, start = whole_numbers(n=n, d_model=d_model, start=start)
    if n < 0 or start < 0:
        raise ValueError(f"n and start must be 0 or more, got n={n} and start={start}")
    if d_model < 1:
        raise ValueError(f"d_model must be 1 or more, got {d_model}")
    if not base > 0:
        raise ValueError(f"base must be above 0, got {base}")
    t = torch.arange(start, start + n, dtype=torch.float64)
    frequencies = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = t[:, None] * frequencies  # (n, ceil(d_model / 2))
    table = torch.empty(n, d_model, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : d_model // 2]
    return table.to(torch.get_default_dtype() if dtype is None else dtype)


class Sinusoidal(Positions):
    """Adds `sinusoidal_positions` to the token vectors: no parameters, any length."""

    def embed(
        self, x: Float[Tensor, "b n d_model"], start: int = 0
    ) -> Float[Tensor, "b n d_model"]:
        table = sinusoidal_positions(x.shape[1], x.shape[2], start=start, dtype=x.dtype)
        return x + table.to(x.device)


class Learned(Positions):
    """Adds a learned vector for each of max_len positions: max_len * d_model parameters.

    It knows nothing of a position it was not trained on, so one past the table is refused.

    Source:
        Lin et al. 2022, section 5.1.1 (arXiv:2106.04554); initialised with standard deviation
        0.02, as in BERT and GPT-2.
    """

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        max_len, d_model = whole_numbers(max_len=max_len, d_model=d_model)
        if max_len < 1 or d_model < 1:
            raise ValueError(
                f"max_len and d_model must be 1 or more, got max_len={max_len}, d_model={d_model}"
            )
        self.table = nn.Parameter(torch.empty(max_len, d_model).normal_(std=0.02))

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> Learned:
        return cls(config.max_len, config.d_model)

    def embed(
        self, x: Float[Tensor, "b n d_model"], start: int = 0
    ) -> Float[Tensor, "b n d_model"]:
        (start,) = whole_numbers(start=start)
        stop, (max_len, d_model) = start + x.shape[1], self.table.shape
        if x.shape[-1] != d_model or start < 0:
            raise ValueError(
                f"learned positions need vectors of d_model={d_model} and a start of 0 or more, "
                f"got x of shape {tuple(x.shape)} and start={start}"
            )
        if stop > max_len:
            raise ValueError(
                f"learned positions end at max_len={max_len}, got tokens up to position {stop - 1}; "
                "raise max_len and train again, or use a scheme without a table"
            )
        return x + self.table[start:stop]
