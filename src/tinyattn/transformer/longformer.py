"""Longformer's attention: a window for all, and projections of their own for global tokens."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import check_tokens, whole_numbers
from tinyattn.dense import attention
from tinyattn.engine import sparse_attention
from tinyattn.padding import check_padding, finite_padding, real_only
from tinyattn.patterns import Global, Window
from tinyattn.patterns.base import listed
from tinyattn.transformer.attention import MultiHeadAttention


class LongformerAttention(nn.Module):
    """Window attention in which a few global tokens read, and are read by, everyone.

    All tokens are projected by q, k and v for the window; a global token asks with its own query
    map, and reads keys and values made by their own maps. Ordinary tokens read global ones
    through the ordinary k and v. Costs O(n (w + g)) scores.

    Args:
        d_model: width of a token vector.
        n_heads: number of heads.
        w: keys read on each side.

    Source:
        Beltagy et al. 2020, section 3.1, "Linear projections for global attention"
        (arXiv:2004.05150). The global maps start as copies of the ordinary ones, as in their
        code. `attention_window` of the port in transformers is 2 * w here.

    Example:
        >>> layer = LongformerAttention(8, n_heads=2, w=2)
        >>> layer(torch.randn(1, 20, 8), global_positions=(0,)).shape
        torch.Size([1, 20, 8])
    """

    def __init__(self, d_model: int, n_heads: int, w: int) -> None:
        super().__init__()
        d_model, n_heads, w = whole_numbers(d_model=d_model, n_heads=n_heads, w=w)
        self.w = Window(w).w
        self.local = MultiHeadAttention(d_model, n_heads)
        self.query_global = nn.Linear(d_model, d_model)
        self.key_global = nn.Linear(d_model, d_model)
        self.value_global = nn.Linear(d_model, d_model)
        for name in ("query", "key", "value"):
            ordinary = getattr(self.local, name).state_dict()
            getattr(self, f"{name}_global").load_state_dict(ordinary)

    def forward(
        self,
        x: Float[Tensor, "b n d_model"],
        *,
        global_positions: tuple[int, ...] = (),
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Attend.

        Args:
            x: token vectors.
            global_positions: which tokens are global, in every sequence of the batch.
            key_padding: True where a token is real; nobody reads the others, NaN too.

        Raises:
            ValueError: if shapes do not fit, or a global position lies outside the sequence or
                on padding, or is negative or named twice.
            TypeError: if key_padding is not bool, or global_positions are no whole numbers in a
                tuple or list.
        """
        check_tokens(x, self.local.query.in_features)
        if key_padding is not None:
            check_padding(key_padding, x.shape[:2], x.device)
        if not isinstance(global_positions, (tuple, list)):
            raise TypeError(
                f"global_positions must be a tuple such as (0,), got {global_positions!r}"
            )
        n, split = x.shape[1], self.local.split_heads
        chosen = sorted(listed("global_positions", global_positions, "positions"))
        if len(set(chosen)) < len(chosen) or (chosen and chosen[0] < 0):
            raise ValueError(
                f"global_positions must be distinct, and 0 or more, got {global_positions}"
            )
        if chosen and chosen[-1] >= n:
            raise ValueError(f"global positions must be below n={n}, got {global_positions}")
        if key_padding is not None and not bool(key_padding[:, chosen].all()):
            raise ValueError(f"global tokens must be real, got padding among {global_positions}")
        x = finite_padding(x, key_padding)
        q, k, v = (split(f(x)) for f in (self.local.query, self.local.key, self.local.value))
        pattern = Window(self.w) | Global(tuple(chosen), reads=False)
        heads = sparse_attention(q, k, v, pattern, key_padding=key_padding)
        if chosen:
            at = torch.tensor(chosen, device=x.device)
            q, k, v = (
                split(self.query_global(x[:, at])),
                split(self.key_global(x)),
                split(self.value_global(x)),
            )
            # a weight of zero would not silence a product that has become infinite
            k, v = (real_only(x, key_padding) for x in (k, v))
            real = None if key_padding is None else key_padding[:, None, None, :]
            heads = heads.index_copy(2, at, attention(q, k, v, real))
        return self.local.join_heads(heads)
