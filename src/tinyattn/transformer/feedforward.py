"""The position-wise feed-forward layer, whole or in chunks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tinyattn.checks import whole_numbers


class FeedForward(nn.Module):
    """Two linear maps with a nonlinearity between, applied to each position by itself.

        FFN(x) = activation(x W₁ + b₁) W₂ + b₂

    Parameters: 2 * d_model * d_ff + d_ff + d_model. As positions do not interact, the sequence
    may be cut into chunks that go through one after the other: the same outputs up to rounding,
    with an inner activation of (n / n_chunks) * d_ff values at a time instead of n * d_ff. That
    saves memory only where no gradient is kept: autograd holds on to every chunk's inner values.

    Args:
        d_model: width of a token vector.
        d_ff: inner width.
        n_chunks: how many pieces the sequence is cut into. Pieces are equally long but for the
            last, so 6 tokens in 4 chunks make 3 pieces of 2.
        chunk_size: tokens in a piece; give this or n_chunks, not both.
        activation: the nonlinearity.

    Raises:
        ValueError: if a size is below 1, or both n_chunks and chunk_size are given.
        TypeError: if a size is no whole number.

    Source:
        Vaswani et al. 2017, section 3.3 (arXiv:1706.03762); Lin et al. 2022, equation 4. Chunks:
        Kitaev et al. 2020, "Reformer", section 3 (arXiv:2001.04451). Libraries disagree on what
        the number counts: `chunk_size_feed_forward` in transformers is a size, `ff_chunks` in
        reformer-pytorch is a number of chunks.

    Example:
        >>> whole, cut = FeedForward(4, 16), FeedForward(4, 16, n_chunks=3)
        >>> _ = cut.load_state_dict(whole.state_dict())
        >>> x = torch.randn(1, 7, 4)
        >>> torch.allclose(whole(x), cut(x), atol=1e-6)
        True
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        n_chunks: int = 1,
        *,
        chunk_size: int | None = None,
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        d_model, d_ff, n_chunks = whole_numbers(d_model=d_model, d_ff=d_ff, n_chunks=n_chunks)
        if d_model < 1 or d_ff < 1:
            raise ValueError(
                f"d_model and d_ff must be 1 or more, got d_model={d_model} and d_ff={d_ff}"
            )
        if n_chunks < 1:
            raise ValueError(f"n_chunks must be 1 or more, got {n_chunks}")
        if chunk_size is not None:
            (chunk_size,) = whole_numbers(chunk_size=chunk_size)
            if chunk_size < 1:
                raise ValueError(f"chunk_size must be 1 token or more, got {chunk_size}")
        if chunk_size is not None and n_chunks != 1:
            raise ValueError(
                "give n_chunks (how many) or chunk_size (tokens in each), not both, "
                f"got n_chunks={n_chunks} and chunk_size={chunk_size}"
            )
        self.n_chunks = n_chunks
        self.chunk_size = chunk_size
        self.activation = activation
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """Raises ValueError unless x is (b, n, d_model)."""
        if x.dim() != 3 or x.shape[-1] != self.expand.in_features:
            raise ValueError(
                f"x must be (b, n, d_model={self.expand.in_features}), got {tuple(x.shape)}"
            )
        size = self.chunk_size or -(-x.shape[1] // self.n_chunks)  # rounded up
        if size >= x.shape[1]:
            return self._position_wise(x)
        return torch.cat([self._position_wise(chunk) for chunk in x.split(size, dim=1)], dim=1)

    def _position_wise(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))
