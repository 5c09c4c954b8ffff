"""Soft permutations: matrices whose rows and columns sum to one, and what is chosen by them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns import Causal, MatchedBlocks, Pattern

FORBIDDEN = -1e30  # instead of -inf, whose differences are NaN; e to this power is 0


def soft_permutation(
    scores: Float[Tensor, "... n_blocks n_blocks"],
    *,
    n_iters: int = 8,
    temperature: float = 0.75,
    causal: bool = False,
    real: Bool[Tensor, "... n_blocks"] | None = None,
) -> Float[Tensor, "... n_blocks n_blocks"]:
    """A matrix whose rows and columns sum to one, or nearly so, from any matrix of scores.

        S = exp(scores / temperature), then n_iters times: S_ij /= Σ_i S_ij, S_ij /= Σ_j S_ij

    Row i says of which blocks the one that is sorted next to block i is mixed. Rows come last and
    are exact; columns become so as n_iters grows, the slower the lower the temperature. As the
    temperature falls, S approaches the permutation that collects most score. Computed with
    logarithms. Costs n_iters * n_blocks² exponentials.

    With `causal`, block i is mixed of blocks before it, and column sums run over rows up to i: a
    sum over all rows would tell early blocks what later ones ask for. Row 0 is zero, and there is
    no permutation to approach.

    Args:
        scores: how well block j (column) suits block i (row).
        n_iters: how often columns and rows are normalised.
        temperature: what scores are divided by.
        causal: whether only earlier blocks may be mixed.
        real: True where a block holds tokens; the others get rows and columns of zeros.

    Raises:
        ValueError: if the matrix is not square, or not finite, also over the temperature, n_iters
            below 1 or temperature not positive.
        TypeError: if scores are no floats or n_iters no whole number.

    Source:
        Sinkhorn 1964; Mena et al. 2018 (arXiv:1802.08665); Tay et al. 2020, section 3
        (arXiv:2002.11296), who normalise rows first.

    Example:
        >>> soft_permutation(torch.tensor([[2.0, 1.0], [1.0, 0.5]]), temperature=0.1, n_iters=50)
        tensor([[0.9241, 0.0759],
                [0.0759, 0.9241]])
    """
    n_iters = check_iterations(n_iters, temperature)
    _check_scores(scores)
    log_s = scores.to(wide_dtype(scores.dtype)) / temperature
    if not bool(torch.isfinite(log_s).all()):
        raise ValueError(f"scores over the temperature, {temperature}, must be finite")
    if not causal and real is None:
        for _ in range(n_iters):
            log_s = log_s - log_s.logsumexp(dim=-2, keepdim=True)
            log_s = log_s - log_s.logsumexp(dim=-1, keepdim=True)
        return log_s.exp().to(scores.dtype)
    never = torch.zeros_like(scores, dtype=torch.bool)
    if causal:
        never = torch.ones_like(never).triu()  # the own block is read anyway
    if real is not None:
        never = never | ~(real[..., None] & real[..., None, :])
    log_s = log_s.masked_fill(never, FORBIDDEN)
    for _ in range(n_iters):
        columns = log_s.logcumsumexp(-2) if causal else log_s.logsumexp(-2, keepdim=True)
        log_s = (log_s - columns).masked_fill(never, FORBIDDEN)
        log_s = (log_s - log_s.logsumexp(-1, keepdim=True)).masked_fill(never, FORBIDDEN)
    return log_s.exp().to(scores.dtype)


def gumbel(
    scores: Float[Tensor, "... n_blocks n_blocks"], generator: torch.Generator
) -> Float[Tensor, "... n_blocks n_blocks"]:
    """Scores with noise for training: one Gumbel number -log(-log u), u uniform, for each.

    Argmax of scores + noise draws from softmax(scores); the noise keeps a sort from settling
    before others were tried. Leave it out when the model is used.

    Source:
        Mena et al. 2018, section 4 (arXiv:1802.08665).
    """
    uniform = torch.rand(scores.shape, generator=generator, dtype=torch.float64)
    noise = -torch.log(-torch.log(uniform.clamp(min=1e-300)))
    return scores + noise.to(scores)


def hardened(
    sort: Float[Tensor, "... n_blocks n_blocks"],
) -> Float[Tensor, "... n_blocks n_blocks"]:
    """The largest entry of each row as 1, all others as 0; the gradient is that of `sort`.

    Straight through: forward a choice, backward as if nothing had been rounded. Rows of zeros
    stay so. Two rows may choose the same block as long as S is far from a permutation.

    Source:
        Bengio et al. 2013, section 4 (arXiv:1308.3432).

    Example:
        >>> hardened(torch.tensor([[0.6, 0.4], [0.3, 0.7]]))
        tensor([[1., 0.],
                [0., 1.]])
    """
    chosen = torch.zeros_like(sort).scatter(-1, sort.argmax(dim=-1, keepdim=True), 1.0)
    chosen = chosen.where(sort.sum(dim=-1, keepdim=True) > 0, 0.0)
    return chosen + (sort - sort.detach())


def matched_pattern(
    sort: Float[Tensor, "n_blocks n_blocks"], block_size: int, *, causal: bool = False
) -> Pattern:
    """What hard Sinkhorn attention with this S reads, as a rule: to draw, count, or run.

    Example:
        >>> matched_pattern(torch.tensor([[0.1, 0.9], [0.9, 0.1]]), block_size=4)
        MatchedBlocks(block_size=4, partners=(1, 0))
    """
    own = torch.arange(len(sort), device=sort.device)
    order = sort.argmax(dim=-1).where(sort.sum(dim=-1) > 0, own)
    pattern = MatchedBlocks(block_size, tuple(order.tolist()))
    return pattern & Causal() if causal else pattern


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What exponentials of these numbers are computed in: at least float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def check_iterations(n_iters: int, temperature: float) -> int:
    (n_iters,) = whole_numbers(n_iters=n_iters)
    if n_iters < 1 or not 0 < temperature < math.inf:
        raise ValueError(
            "n_iters must be 1 or more and temperature positive, "
            f"got n_iters={n_iters}, temperature={temperature}"
        )
    return n_iters


def _check_scores(scores: Tensor) -> None:
    if not scores.is_floating_point():
        raise TypeError(f"sort scores must be floats, got {scores.dtype}")
    if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2]:
        raise ValueError(
            f"sort scores must be square, one row and column a block, got {tuple(scores.shape)}"
        )
    if not bool(torch.isfinite(scores).all()):
        raise ValueError("sort scores must be finite, got infinite or NaN ones")
