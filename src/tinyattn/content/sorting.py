"""Who needs which block: the network whose scores Sinkhorn attention sorts by."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import whole_numbers, whole_seed
from tinyattn.content.permutations import check_iterations, gumbel, hardened, soft_permutation
from tinyattn.content.router import Router
from tinyattn.content.sinkhorn import real_blocks, sinkhorn_attention
from tinyattn.engine import check_qkv
from tinyattn.padding import check_padding, real_only


def block_sums(
    x: Float[Tensor, "b h n d"],
    block_size: int,
    *,
    causal: bool = False,
    key_padding: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b h n_blocks d"]:
    """One vector for each block: the sum of its tokens, as far as they are there and real.

    With `causal`, the sum of everything up to the first token of the block and no further: all
    that even the first of its queries may know.

    Source:
        Tay et al. 2020, section 3 (arXiv:2002.11296).

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])[None, None, :, None]
        >>> block_sums(x, 2).flatten(), block_sums(x, 2, causal=True).flatten()
        (tensor([3., 7., 5.]), tensor([ 1.,  6., 15.]))
    """
    (block_size,) = whole_numbers(block_size=block_size)
    _check_block_size(block_size)
    if key_padding is not None:
        check_padding(key_padding, (len(x), x.shape[2]), x.device)
    x = real_only(x, key_padding)
    if causal:
        return x.cumsum(dim=2)[:, :, ::block_size]
    missing = -x.shape[2] % block_size
    return F.pad(x, (0, 0, 0, missing)).unflatten(2, (-1, block_size)).sum(dim=3)


def _check_block_size(block_size: int) -> None:
    if block_size < 1:
        raise ValueError(f"block_size must be 1 or more, got {block_size}")


class SortingNetwork(nn.Module):
    """From the summary of a block to a score for each block that could be sorted next to it.

        scores_i = ReLU(summary_i W_1 + b_1) W_2 + b_2

    Each head has its own. Blocks are named by their numbers, so there are only n_blocks of them.

    Args:
        n_heads: heads, each with a network of its own.
        d_summary: width of a summary.
        n_blocks: the most blocks that a sequence may have.
        d_hidden: hidden width; 4 * n_blocks if not given.

    Source:
        Tay et al. 2020, section 3 (arXiv:2002.11296): one or two layers with ReLU.

    Example:
        >>> SortingNetwork(n_heads=2, d_summary=8, n_blocks=6)(torch.randn(1, 2, 5, 8)).shape
        torch.Size([1, 2, 5, 5])
    """

    def __init__(
        self, n_heads: int, d_summary: int, n_blocks: int, d_hidden: int | None = None
    ) -> None:
        super().__init__()
        n_heads, d_summary, n_blocks = whole_numbers(
            n_heads=n_heads, d_summary=d_summary, n_blocks=n_blocks
        )
        (d_hidden,) = whole_numbers(d_hidden=4 * n_blocks if d_hidden is None else d_hidden)
        sizes = {"n_heads": n_heads, "d_summary": d_summary, "n_blocks": n_blocks}
        for name, size in {**sizes, "d_hidden": d_hidden}.items():
            if size < 1:
                raise ValueError(f"{name} must be 1 or more, got {size}")
        self.expand = nn.Parameter(torch.empty(n_heads, d_summary, d_hidden))
        self.expand_bias = nn.Parameter(torch.zeros(n_heads, 1, d_hidden))
        self.contract = nn.Parameter(torch.empty(n_heads, d_hidden, n_blocks))
        self.contract_bias = nn.Parameter(torch.zeros(n_heads, 1, n_blocks))
        for matrix in (self.expand, self.contract):
            bound = 1 / math.sqrt(matrix.shape[1])
            nn.init.uniform_(matrix, -bound, bound)

    def forward(
        self, summaries: Float[Tensor, "b h n_blocks d_summary"]
    ) -> Float[Tensor, "b h n_blocks n_blocks"]:
        """Scores of the first n_blocks blocks for each of them.

        Raises:
            ValueError: if there are more blocks than the network knows.
        """
        n_blocks, known = summaries.shape[2], self.contract.shape[2]
        if n_blocks > known:
            raise ValueError(f"this sorting network knows {known} blocks, got {n_blocks}")
        hidden = (summaries @ self.expand + self.expand_bias).relu()
        return (hidden @ self.contract + self.contract_bias)[..., :n_blocks]


class SinkhornRouter(Router):
    """Sparse Sinkhorn attention in the place of a pattern: sums, network, sort, attention.

    A block is summarised by the sum of its queries and keys, side by side. In training mode the
    scores get Gumbel noise, drawn from the seed and the number of `update`s.

    Args:
        n_heads: heads, each of which sorts for itself.
        d_head: their width.
        block_size: tokens in a block.
        n_blocks: the most blocks that a sequence may have.
        n_iters: see `soft_permutation`.
        temperature: see `soft_permutation`.
        hard: whether a block takes the likeliest block as it is.
        causal: whether nothing depends on later tokens.
        noise: whether scores get noise in training.
        seed: of the noise.

    Source:
        Tay et al. 2020 (arXiv:2002.11296); they summarise the tokens before they are projected.

    Example:
        >>> from tinyattn import MultiHeadAttention
        >>> router = SinkhornRouter(2, 4, block_size=3, n_blocks=5)
        >>> MultiHeadAttention(8, 2, pattern=router)(torch.randn(1, 15, 8)).shape
        torch.Size([1, 15, 8])
    """

    def __init__(
        self,
        n_heads: int,
        d_head: int,
        *,
        block_size: int,
        n_blocks: int,
        n_iters: int = 8,
        temperature: float = 0.75,
        hard: bool = False,
        causal: bool = False,
        noise: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        d_head, block_size, n_iters = whole_numbers(
            d_head=d_head, block_size=block_size, n_iters=n_iters
        )
        seed = whole_seed(seed)
        _check_block_size(block_size)
        n_iters = check_iterations(n_iters, temperature)
        self.network = SortingNetwork(n_heads, 2 * d_head, n_blocks)
        self.block_size, self.causal, self.hard = block_size, causal, hard
        self.n_iters, self.temperature = n_iters, temperature
        self.noise, self.seed = noise, seed
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.long))

    def sort_scores(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b h n_blocks n_blocks"]:
        """How well each block (column) suits each block (row), with noise in training mode."""
        check_qkv(q, k, k, key_padding, None)
        self.check(q.shape[1], q.shape[3])
        tokens = torch.cat([q, k], dim=-1)
        options = {"causal": self.causal, "key_padding": key_padding}
        scores = self.network(block_sums(tokens, self.block_size, **options)).to(q.dtype)
        if not (self.training and self.noise):
            return scores
        drawn = (self.seed * 1_000_003 + int(self.n_updates)) % 2**64
        return gumbel(scores, torch.Generator().manual_seed(drawn))

    def sort(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b h n_blocks n_blocks"]:
        """S: of which blocks (columns) the one sorted next to each block (row) is mixed."""
        scores = self.sort_scores(q, k, key_padding)
        real = None
        if key_padding is not None:
            real = real_blocks(key_padding, scores.shape[2], self.block_size)
        options = {"n_iters": self.n_iters, "temperature": self.temperature}
        sort = soft_permutation(scores, causal=self.causal, real=real, **options)
        return hardened(sort) if self.hard else sort

    def attend(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        v: Float[Tensor, "b h n d_v"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n d_v"]:
        n = q.shape[2]
        scores = self.sort_scores(q, k, key_padding)
        missing = scores.shape[2] * self.block_size - n
        if missing:  # fill up the last block
            real = q.new_ones(len(q), n, dtype=torch.bool) if key_padding is None else key_padding
            key_padding = F.pad(real, (0, missing), value=False)
            q, k, v = (F.pad(x, (0, 0, 0, missing)) for x in (q, k, v))
        out = sinkhorn_attention(
            q,
            k,
            v,
            scores,
            n_iters=self.n_iters,
            temperature=self.temperature,
            hard=self.hard,
            causal=self.causal,
            key_padding=key_padding,
            scale=scale,
        )
        return out[:, :, :n]

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        """What `attend` multiplies each value by: its result for the unit vectors."""
        units = torch.eye(q.shape[2], dtype=q.dtype, device=q.device)
        units = units.expand(*q.shape[:2], -1, -1)
        return self.attend(q, k, units, key_padding=key_padding, scale=scale)

    def update(self) -> None:
        """Other noise from now on."""
        self.n_updates += 1

    def check(self, n_heads: int, d_head: int) -> None:
        h, d_summary, _ = self.network.expand.shape
        if (n_heads, 2 * d_head) != (h, d_summary):
            raise ValueError(
                f"this router is made for {h} heads of {d_summary // 2}, got {n_heads} of {d_head}"
            )
