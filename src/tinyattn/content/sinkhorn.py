"""Sparse Sinkhorn attention: blocks that are sorted, softly, next to those that need them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.content.block_pairs import BlockPairs
from tinyattn.content.permutations import hardened, soft_permutation, wide_dtype
from tinyattn.dense import attention
from tinyattn.engine import check_qkv


def sinkhorn_attention(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    sort_scores: Float[Tensor, "b h n_blocks n_blocks"],
    *,
    n_iters: int = 8,
    temperature: float = 0.75,
    hard: bool = False,
    causal: bool = False,
    key_padding: Bool[Tensor, "b n"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Each block attends to the block sorted next to it and to itself, in one softmax.

        S = soft_permutation(sort_scores),  out_i = attention(q_i, [Σ_j S_ij k_j ; k_i], [Σ_j S_ij v_j ; v_i])

    A sorted key is a mixture: token t of every block, in the shares of row i. With `hard` it is
    one token, and the result is attention under `matched_pattern`. Costs 2 * n * block_size scores
    and n_blocks * n * (d_head + d_v) multiply-adds for the mixtures.

    A block matched with itself has every key twice, which changes no weighted average. So a
    single block is dense attention.

    Args:
        q: queries.
        k: keys.
        v: values.
        sort_scores: how well block j (column) suits block i (row); n_blocks blocks of equal size,
            the last of which may be shorter.
        n_iters: see `soft_permutation`.
        temperature: see `soft_permutation`.
        hard: whether each block takes the likeliest block as it is.
        causal: whether a token reads nothing behind it. The scores of row i have to be made of
            tokens before block i, see `tinyattn.content.sorting`.
        key_padding: True where a key is a real token. A sorted key averages real tokens, and
            counts in the softmax as much as their shares sum to.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.

    Raises:
        ValueError: if shapes do not fit, blocks of equal size do not cover n tokens, or a number
            is out of range.
        TypeError: if the tensors do not share a float dtype.
        NotImplementedError: for second derivatives, if the blocks are full and no token is
            padding.

    Source:
        Tay et al. 2020, section 3 (arXiv:2002.11296). They leave open whether sorted and own block
        share a softmax; here they do. Lin et al. 2022, section 4.1.2.

    Example:
        >>> from tinyattn.patterns import MatchedBlocks
        >>> q, k, v = torch.randn(3, 1, 1, 6, 4)
        >>> swap = torch.tensor([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])[None, None]
        >>> hard = sinkhorn_attention(q, k, v, swap, hard=True)
        >>> mask = MatchedBlocks(2, (1, 0, 2)).mask(6)
        >>> torch.allclose(hard, attention(q, k, v, mask), atol=1e-6)
        True
    """
    scale = check_qkv(q, k, v, key_padding, scale)
    n_blocks, block_size = _blocks(q, k, sort_scores)
    real = None if key_padding is None else real_blocks(key_padding, n_blocks, block_size)
    options = {"n_iters": n_iters, "temperature": temperature, "causal": causal}
    sort = soft_permutation(sort_scores, real=real, **options)
    sort = hardened(sort) if hard else sort
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = wide_dtype(q.dtype)
    n = q.shape[2]
    if n == 0:
        return v * sort.sum()
    if key_padding is None and n == n_blocks * block_size:
        blocks = [x.to(wide).unflatten(2, (n_blocks, block_size)).flatten(0, 1) for x in (q, k, v)]
        out = BlockPairs.apply(*blocks, sort.to(wide).flatten(0, 1), causal, scale)
        return out.to(q.dtype).view(v.shape)
    return _padded(q, k, v, sort, block_size, key_padding, causal, scale).to(q.dtype)


def _padded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sort: Tensor,
    block_size: int,
    key_padding: Tensor | None,
    causal: bool,
    scale: float,
) -> Tensor:
    """The same where some tokens are no real ones: those behind n, and those of key_padding."""
    n, n_blocks, wide = q.shape[2], sort.shape[-1], wide_dtype(q.dtype)
    real = torch.zeros(len(q), n_blocks * block_size, dtype=torch.bool, device=q.device)
    real[:, :n] = True if key_padding is None else key_padding
    q, k, v = (_in_blocks(x.to(wide), n_blocks, block_size) for x in (q, k, v))
    real = real.view(len(q), 1, n_blocks, block_size, 1)
    k, v, sort = k.where(real, 0.0), v.where(real, 0.0), sort.to(wide)  # padding may be NaN
    share = _mixed(sort, real.to(wide).expand(*k.shape[:-1], 1))  # (b, h, n_blocks, size, 1)
    known = share > 0
    divisor = share.where(known, 1.0)
    keys, values = (torch.cat([_mixed(sort, x) / divisor, x], dim=3) for x in (k, v))
    own = torch.zeros_like(k[..., :1]).masked_fill(~real, -math.inf)
    bias = torch.cat([divisor.log().masked_fill(~known, -math.inf), own], dim=3).transpose(3, 4)
    mask = torch.ones(block_size, 2 * block_size, dtype=torch.bool, device=q.device)
    mask = mask.tril(block_size) if causal else mask
    out = attention(q, keys, values, mask, scale=scale, bias=bias)
    return out.flatten(2, 3)[:, :, :n]


def sortcut_attention(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    sort_scores: Float[Tensor, "b h n_blocks n_blocks"],
    *,
    n_kept: int,
    n_iters: int = 8,
    temperature: float = 0.75,
    hard: bool = False,
) -> Float[Tensor, "b h n d_v"]:
    """SortCut: sort the blocks, keep the first n_kept, and let every query read those.

    Costs n * n_kept * block_size scores: linear in n. Which blocks are kept depends on the whole
    sequence, so there is no causal form.

    Args:
        q: queries.
        k: keys.
        v: values.
        sort_scores: how well block j (column) suits place i (row) of the sorted sequence.
        n_kept: sorted blocks that are read.
        n_iters: see `soft_permutation`.
        temperature: see `soft_permutation`.
        hard: whether each place takes the likeliest block as it is.

    Raises:
        ValueError: if n_kept is no number of blocks, n_blocks does not divide n, or as in
            `sinkhorn_attention`.

    Source:
        Tay et al. 2020, section 3 (arXiv:2002.11296).

    Example:
        >>> q, k, v = torch.randn(3, 1, 1, 6, 4)
        >>> last_first = torch.tensor([[0.0, 0.0, 9.0], [0.0, 9.0, 0.0], [9.0, 0.0, 0.0]])
        >>> out = sortcut_attention(q, k, v, last_first[None, None], n_kept=1, hard=True)
        >>> torch.allclose(out, attention(q, k[:, :, 4:], v[:, :, 4:]), atol=1e-6)
        True
    """
    check_qkv(q, k, v, None, None)
    n_blocks, block_size = _blocks(q, k, sort_scores)
    (n_kept,) = whole_numbers(n_kept=n_kept)
    if not 1 <= n_kept <= n_blocks:
        raise ValueError(f"n_kept must be from 1 to n_blocks={n_blocks}, got {n_kept}")
    if q.shape[2] != n_blocks * block_size:
        raise ValueError(f"n_blocks must divide n, got n_blocks={n_blocks} and n={q.shape[2]}")
    sort = soft_permutation(sort_scores, n_iters=n_iters, temperature=temperature)
    sort = (hardened(sort) if hard else sort)[:, :, :n_kept]
    k, v = (_mixed(sort, _in_blocks(x, n_blocks, block_size)).flatten(2, 3) for x in (k, v))
    return attention(q, k, v)


def _mixed(sort: Tensor, blocks: Tensor) -> Tensor:
    """Σ_j sort_ij x_j for blocks x_j: (b, h, rows, block_size, d)."""
    return (sort @ blocks.flatten(3)).unflatten(3, blocks.shape[3:])


def _in_blocks(x: Tensor, n_blocks: int, block_size: int) -> Tensor:
    """(b, h, n, d) as (b, h, n_blocks, block_size, d), zeros behind the last token."""
    missing = n_blocks * block_size - x.shape[2]
    return torch.nn.functional.pad(x, (0, 0, 0, missing)).unflatten(2, (n_blocks, block_size))


def real_blocks(key_padding: Tensor, n_blocks: int, block_size: int) -> Tensor:
    """Which blocks hold a real token, (b, 1, n_blocks)."""
    missing = n_blocks * block_size - key_padding.shape[1]
    tokens = torch.nn.functional.pad(key_padding, (0, missing), value=False)
    return tokens.unflatten(1, (n_blocks, block_size)).any(dim=2)[:, None]


def _blocks(q: Tensor, k: Tensor, sort_scores: Tensor) -> tuple[int, int]:
    """How many blocks, and how long; the last one may be shorter and is not empty."""
    n = q.shape[2]
    if k.shape[2] != n:
        raise ValueError(f"q and k must be equally long to be sorted, got {n} and {k.shape[2]}")
    fits = sort_scores.dim() == 4 and sort_scores.shape[:2] == q.shape[:2]
    if not fits or sort_scores.shape[2] != sort_scores.shape[3]:
        raise ValueError(
            f"sort_scores must be (b, h, n_blocks, n_blocks) with b, h = {tuple(q.shape[:2])}, "
            f"got {tuple(sort_scores.shape)}"
        )
    if sort_scores.dtype != q.dtype:
        raise TypeError(f"sort_scores must be {q.dtype} as q is, got {sort_scores.dtype}")
    n_blocks = sort_scores.shape[2]
    block_size = math.ceil(n / max(1, n_blocks))
    needed = math.ceil(n / block_size) if n else 0
    if n_blocks != needed:
        raise ValueError(
            f"n={n} tokens cannot be shared by {n_blocks} blocks of equal size; "
            f"of {block_size} tokens they would be {needed}"
        )
    return n_blocks, block_size
