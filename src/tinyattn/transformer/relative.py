"""Relative positions: Shaw's vectors, T5's bias, and rotary turns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tinyattn.checks import whole_numbers
from tinyattn.transformer.positions import Positions

if TYPE_CHECKING:
    from tinyattn.transformer.config import TransformerConfig


class Shaw(Positions):
    """A learned vector for each clipped distance, met by the query and added to the values.

        score(i, j) = q_i · (k_j + a_key[clip(j - i)]) / √d_head,  out_i += Σ_j weight_ij a_value[clip(j - i)]

    Distances beyond max_distance on either side share its vector: 2 * max_distance + 1 rows in
    each of two tables, which all heads of a layer share.

    Source:
        Shaw, Uszkoreit and Vaswani 2018, equations 3 to 5 (arXiv:1803.02155). Lin et al. 2022,
        equations 29 to 31, keep only the key part and count i - j.
    """

    shared = False
    in_scores = True

    def __init__(self, d_head: int, max_distance: int) -> None:
        super().__init__()
        d_head, max_distance = whole_numbers(d_head=d_head, max_distance=max_distance)
        if d_head < 1 or max_distance < 0:
            raise ValueError(
                "d_head must be 1 or more and max_distance 0 or more, "
                f"got d_head={d_head} and max_distance={max_distance}"
            )
        self.max_distance = max_distance
        rows = 2 * max_distance + 1
        self.a_key = nn.Parameter(torch.empty(rows, d_head).normal_(std=d_head**-0.5))
        self.a_value = nn.Parameter(torch.empty(rows, d_head).normal_(std=d_head**-0.5))

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> Shaw:
        return cls(config.d_head, config.max_distance)

    def score_bias(
        self,
        q: Float[Tensor, "b h n_q d_head"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
        scale: float,
    ) -> Float[Tensor, "b h n_q n_k"]:
        if q.shape[-1] != self.a_key.shape[-1]:
            raise ValueError(
                f"Shaw's vectors of d_head={self.a_key.shape[-1]} must meet heads of that width, "
                f"got {q.shape[-1]}"
            )
        by_row = (q * scale) @ self.a_key.T  # (b, h, n_q, 2 * max_distance + 1)
        return by_row.gather(-1, self._row(i, j).expand(*q.shape[:3], len(j)))

    def value_bias(
        self,
        weights: Float[Tensor, "b h n_q n_k"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
    ) -> Float[Tensor, "b h n_q d_head"]:
        by_row = weights.new_zeros(*weights.shape[:3], len(self.a_value))
        by_row = by_row.scatter_add(-1, self._row(i, j).expand_as(weights), weights)
        return by_row @ self.a_value

    def _row(self, i: Tensor, j: Tensor) -> Tensor:
        """Row of the tables for each pair, (n_q, n_k)."""
        distance = j[None, :] - i[:, None]
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance


class T5Bias(Positions):
    """One learned number for each head and bucket of distances, added to the score.

    The nearest distances have a bucket each, farther ones share buckets that widen
    logarithmically up to max_distance, and everything beyond shares the last one. A
    bidirectional model spends half of its buckets on each side; a causal one has only the past.
    n_buckets * n_heads parameters, shared by all layers.

    Source:
        Raffel et al. 2020, section 2.1 (arXiv:1910.10683), with the bucket borders of their code.
        T5 itself leaves out the factor 1 / √d_head: build the attention with scale=1.0 for that.
    """

    in_scores = True

    def __init__(
        self,
        n_heads: int,
        n_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        n_heads, n_buckets, max_distance = whole_numbers(
            n_heads=n_heads, n_buckets=n_buckets, max_distance=max_distance
        )
        one_side = n_buckets // 2 if bidirectional else n_buckets
        if n_heads < 1 or one_side < 2 or (bidirectional and n_buckets % 2):
            raise ValueError(
                "n_heads must be 1 or more, and each direction needs 2 buckets or more (an even "
                f"n_buckets if bidirectional), got n_heads={n_heads}, n_buckets={n_buckets}, "
                f"bidirectional={bidirectional}"
            )
        if max_distance <= one_side // 2:
            raise ValueError(
                f"max_distance must be above the {one_side // 2} distances that have a bucket "
                f"each, got {max_distance}"
            )
        self.n_buckets = n_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.table = nn.Parameter(torch.empty(n_buckets, n_heads).normal_())

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> T5Bias:
        return cls(config.n_heads, bidirectional=bidirectional)

    def bucket(self, distance: Int64[Tensor, "..."]) -> Int64[Tensor, "..."]:
        """Bucket of each j - i: 0 is the query itself.

        Example:
            >>> T5Bias(n_heads=1, bidirectional=False).bucket(torch.tensor([1, 0, -15, -16, -500]))
            tensor([ 0,  0, 15, 16, 31])
        """
        n_buckets, first = self.n_buckets, torch.zeros_like(distance)
        if self.bidirectional:
            n_buckets //= 2
            first = torch.where(distance > 0, n_buckets, 0)
            back = distance.abs()
        else:
            back = (-distance).clamp(min=0)
        exact = n_buckets // 2
        octaves = torch.log(back.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = exact + (octaves * (n_buckets - exact)).long()
        return first + torch.where(back < exact, back, far.clamp(max=n_buckets - 1))

    def score_bias(
        self,
        q: Float[Tensor, "b h n_q d_head"],
        i: Int64[Tensor, "n_q"],
        j: Int64[Tensor, "n_k"],
        scale: float,
    ) -> Float[Tensor, "h n_q n_k"]:
        if q.shape[1] != self.table.shape[1]:
            raise ValueError(
                f"T5's bias for n_heads={self.table.shape[1]} must meet as many heads, "
                f"got {q.shape[1]}"
            )
        return self.table[self.bucket(j[None, :] - i[:, None])].permute(2, 0, 1)


class RoPE(Positions):
    """Turns each pair of query and key channels by an angle proportional to the position.

        (x_2m, x_2m+1) at position t turns by t ω_m,  ω_m = base^(-2m / d_head)

    The product of a turned query and a turned key depends on their contents and on i - j only.
    No parameters, and the norms stay what they are.

    Source:
        Su et al. 2021, section 3.2 (arXiv:2104.09864), with neighbouring channels as pairs.
        The library transformers pairs channel m of its Llama with channel m + d_head / 2: another
        order of the channels, not interchangeable with trained weights. Lin et al. 2022, equation 38, has the sign of
        the offset turned around.
    """

    def __init__(self, d_head: int, base: float = 10_000.0) -> None:
        super().__init__()
        (d_head,) = whole_numbers(d_head=d_head)
        if d_head < 2 or d_head % 2:
            raise ValueError(
                "d_head must be even and 2 or more, RoPE turns pairs of channels, "
                f"got d_head={d_head}"
            )
        if not base > 0:
            raise ValueError(f"base must be above 0, got {base}")
        self.d_head = d_head
        self.base = base

    @classmethod
    def from_config(cls, config: TransformerConfig, *, bidirectional: bool = True) -> RoPE:
        return cls(config.d_head)

    def rotate(
        self, x: Float[Tensor, "b h n d_head"], positions: Int64[Tensor, "n"]
    ) -> Float[Tensor, "b h n d_head"]:
        if x.shape[-1] != self.d_head:
            raise ValueError(
                f"RoPE for d_head={self.d_head} must meet heads of that width, got {x.shape[-1]}"
            )
        channels = torch.arange(0, self.d_head, 2, dtype=torch.float64, device=x.device)
        angles = positions[:, None] * self.base ** (-channels / self.d_head)  # (n, d_head / 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return turned.flatten(-2)
