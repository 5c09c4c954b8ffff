"""The way out to PyTorch's FlexAttention."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tinyattn.patterns.base import Pattern, check_lengths, check_pattern


def mask_mod(
    pattern: Pattern, n: int, n_k: int | None = None
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The rule as a function that `torch.nn.attention.flex_attention.create_block_mask` takes.

    FlexAttention counts queries from 0; here the last query stands at the last key, as in
    `Pattern.mask`.

    Example:
        >>> from torch.nn.attention.flex_attention import create_mask
        >>> from tinyattn.patterns import Causal
        >>> create_mask(mask_mod(Causal(), 2, 3), 1, 1, 2, 3, device="cpu")[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    check_pattern(pattern)
    n, n_k = check_lengths(n, n if n_k is None else n_k)
    pattern.check(n_k)

    pattern.mask(0)  # whatever is drawn at random is drawn now: not while FlexAttention traces
    return lambda b, h, i, j: pattern.allowed(i + (n_k - n), j)
