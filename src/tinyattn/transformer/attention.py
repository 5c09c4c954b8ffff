"""Multi-head attention, for self-, masked and cross-attention."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import check_tokens, whole_numbers
from tinyattn.content.router import (
    Router,
    RulePerHead,
    check_routers,
    has_router,
    routed_attention,
    routed_weights,
)
from tinyattn.dense import attention_weights, check_mask_of_heads
from tinyattn.engine import sparse_attention
from tinyattn.groups import schedule
from tinyattn.padding import check_padding, finite_padding, real_only
from tinyattn.patterns import Pattern
from tinyattn.patterns.base import QUERIES_PER_GROUP
from tinyattn.transformer.cache import KVCache, unchanged_if_refused
from tinyattn.transformer.positions import Positions


class MultiHeadAttention(nn.Module):
    """Attention in n_heads subspaces at once, mixed by one last linear map.

        head_h = attention(x W_h^Q, context W_h^K, context W_h^V),  out = concat(heads) W^O

    Without `context` the tokens of x read each other. Parameters: 4 * d_model² (+ 4 * d_model
    biases), whatever n_heads is.

    Args:
        d_model: width of a token vector.
        n_heads: number of heads; divides d_model unless d_head is given.
        pattern: which keys a query may read in self-attention, one rule or one for each head;
            all of them if not given. Where that leaves less than half of the work, only the
            pairs it keeps are computed. A router stands for a rule that reads the tokens: it
            takes no mask, no cache and no positions that add to scores.
        positions: scheme that turns q and k, or adds to scores and values.
        bias: whether the four linear maps have one.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.
        d_head: width of a head; d_model / n_heads if not given.

    Raises:
        ValueError: if a size is below 1, d_model is not divisible by n_heads, or a router is made
            for other heads, or meets positions that add to scores.
        TypeError: if a size is no whole number, or pattern or positions are something else.

    Source:
        Vaswani et al. 2017, section 3.2.2 (arXiv:1706.03762); Lin et al. 2022, equations 2 and 3.
        Divisibility is a habit of code, not a need of the formula: W^O takes any width.

    Example:
        >>> layer = MultiHeadAttention(d_model=8, n_heads=2)
        >>> layer(torch.randn(1, 5, 8), context=torch.randn(1, 3, 8)).shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        pattern: RulePerHead | None = None,
        positions: Positions | None = None,
        bias: bool = True,
        scale: float | None = None,
        d_head: int | None = None,
    ) -> None:
        super().__init__()
        d_model, n_heads = whole_numbers(d_model=d_model, n_heads=n_heads)
        if d_model < 1 or n_heads < 1:
            raise ValueError(
                f"d_model and n_heads must be 1 or more, got d_model={d_model}, n_heads={n_heads}"
            )
        if d_head is None:
            if d_model % n_heads:
                raise ValueError(
                    "d_model must be divisible by n_heads, "
                    f"got d_model={d_model} and n_heads={n_heads}; or give d_head"
                )
            d_head = d_model // n_heads
        (d_head,) = whole_numbers(d_head=d_head)
        if d_head < 1:
            raise ValueError(f"d_head must be 1 or more, got {d_head}")
        if isinstance(pattern, tuple) and len(pattern) != n_heads:
            raise ValueError(
                f"give one pattern for each of the {n_heads} heads, got {len(pattern)}"
            )
        rules = pattern if isinstance(pattern, tuple) else (pattern,)
        for rule in () if pattern is None else rules:
            if not isinstance(rule, (Pattern, Router)):
                raise TypeError(
                    f"pattern must be a rule such as Causal(), got {type(rule).__name__}; a tuple "
                    "has one for each head, and a matrix goes to forward as its mask"
                )
        check_routers(pattern, n_heads, d_head)
        if positions is not None and not isinstance(positions, Positions):
            raise TypeError(f"positions must be a scheme such as RoPE(d_head), got {positions!r}")
        if scale is not None and not math.isfinite(scale):
            raise ValueError(f"scale must be a finite number, got {scale}")
        if has_router(pattern) and positions is not None and positions.in_scores:
            raise ValueError(
                f"a router takes positions in the tokens or in q and k, such as RoPE, but "
                f"{type(positions).__name__} adds to the scores of all pairs"
            )
        self.n_heads = n_heads
        self.d_head = d_head
        self.pattern = pattern
        if isinstance(pattern, tuple) and has_router(pattern):
            routers = [rule for rule in dict.fromkeys(pattern) if isinstance(rule, Router)]
            self.routers = nn.ModuleList(routers)  # a tuple alone would not register them
        self.positions = Positions() if positions is None else positions
        self.scale = 1.0 / math.sqrt(d_head) if scale is None else scale
        self.query = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.key = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.value = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.out = nn.Linear(n_heads * d_head, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "b n_q d_model"],
        context: Float[Tensor, "b n_context d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        key_padding: Bool[Tensor, "b n_k"] | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "b n_q d_model"] | tuple[Tensor, Tensor]:
        """Attend from x to x, or from x to `context`.

        Args:
            x: token vectors that ask.
            context: token vectors that are read (cross-attention); x itself if not given.
            mask: (n_q, n_k) or (b, 1 or h, n_q, n_k), True where a query may read. With a cache,
                n_k are the keys that it still holds and the new ones.
            key_padding: True where a key is a real token, False where it fills up the batch;
                what stands there, NaN too, reaches no real token and no gradient. With a cache it
                has an entry for every token seen, also where a window has dropped its key.
            cache: self-attention appends its keys here and reads all that it holds;
                cross-attention fills it once and then reads it instead of `context`,
                which has to be the same each time.
            return_weights: also return the weights (b, h, n_q, n_k).

        Raises:
            ValueError: if shapes do not fit, a pattern or positions meet cross-attention, or a
                router meets a mask or a cache. A refused call leaves the cache as it was.
            TypeError: if mask or key_padding is not bool.
        """
        with unchanged_if_refused(cache):
            return self._attend(x, context, mask, key_padding, cache, return_weights)

    def _attend(
        self,
        x: Tensor,
        context: Tensor | None,
        mask: Tensor | None,
        key_padding: Tensor | None,
        cache: KVCache | None,
        return_weights: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_tokens(x, self.query.in_features)
        if context is not None:
            self._check_context(x, context)
        routed = has_router(self.pattern)
        if routed and (mask is not None or cache is not None):
            self._refuse_with_router("mask" if cache is None else "cache")
        if key_padding is not None:
            self._check_padding(key_padding, x, context, cache)
            if context is None:
                x = finite_padding(x, key_padding[:, key_padding.shape[1] - x.shape[1] :])
            else:
                context = finite_padding(context, key_padding)
        q = self.split_heads(self.query(x))
        if context is None:
            q, k, v, i, j = self._self_attend(x, q, cache)
        else:
            k, v = self._read_context(context, cache)
            i, j = self._places(q.shape[-2], q), self._places(k.shape[-2], q)
        if key_padding is not None:
            key_padding = key_padding[:, key_padding.shape[1] - len(j) :]  # of the keys at hand
            # a weight of zero would not silence a product that has become infinite
            k, v = (real_only(x, key_padding) for x in (k, v))
        if routed:
            return self._route(q, k, v, key_padding, return_weights)
        whole = mask is None and not return_weights and not self.positions.in_scores
        if (
            whole
            and self.pattern is not None
            and len(j)
            and int(j[0]) == 0
            and self._pays(len(i), len(j))
        ):
            heads = sparse_attention(
                q, k, v, self.pattern, key_padding=key_padding, scale=self.scale
            )
            return self.join_heads(heads)
        readable = self._readable(q, i, j, mask, key_padding)
        bias = self.positions.score_bias(q, i, j, self.scale)
        # dense.attention in two steps, since the weights themselves are needed
        weights = attention_weights(q, k, readable, scale=self.scale, bias=bias)
        heads = weights @ v  # (b, h, n_q, d_head)
        extra = self.positions.value_bias(weights, i, j)
        if extra is not None:
            heads = heads + extra
        out = self.join_heads(heads)
        return (out, weights) if return_weights else out

    def _route(
        self, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, return_weights: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
        options = {"key_padding": key_padding, "scale": self.scale}
        out = self.join_heads(routed_attention(q, k, v, self.pattern, **options))
        return (out, routed_weights(q, k, self.pattern, **options)) if return_weights else out

    def _refuse_with_router(self, what: str) -> None:
        why = {
            "mask": "chooses among all tokens of a sequence and takes no mask, only key_padding",
            "cache": "groups the tokens of a whole sequence and takes no cache; "
            "generate with use_cache=False",
        }
        raise ValueError(f"a router {why[what]}, got a {what} with {self.pattern!r}")

    def _pays(self, n_q: int, n_k: int) -> bool:
        """Whether what the patterns leave costs less than half of all pairs.

        A few queries, as in decoding, do not: lowering anew for every length would cost more.
        """
        if n_q < QUERIES_PER_GROUP:
            return False
        rules = self._rules()
        price = sum(schedule(rule, n_q, n_k).price for rule in rules)
        return 2 * price < len(rules) * n_q * n_k

    def _rules(self) -> tuple[Pattern, ...]:
        return self.pattern if isinstance(self.pattern, tuple) else (self.pattern,)

    def split_heads(self, x: Tensor) -> Tensor:
        """(b, n, n_heads * d_head) -> (b, h, n, d_head).

        The channels are split first and the axes swapped after: reshaping straight to
        (b, h, n, d_head) has the right shape and mixes the tokens.
        """
        return x.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2)

    def join_heads(self, heads: Tensor) -> Tensor:
        """(b, h, n, d_head) -> (b, n, d_model): the heads side by side, mixed by W^O."""
        return self.out(heads.transpose(1, 2).flatten(2))

    def _self_attend(
        self, x: Tensor, q: Tensor, cache: KVCache | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        n_cached = 0 if cache is None else len(cache)
        i = self._places(x.shape[1], x) + n_cached  # new tokens stand after the cached ones
        q = self.positions.rotate(q, i)
        k = self.positions.rotate(self.split_heads(self.key(x)), i)
        v = self.split_heads(self.value(x))
        if cache is None:
            return q, k, v, i, i
        j = self._places(cache.n_stored + x.shape[1], x) + cache.n_dropped
        k, v = cache.append(k, v)
        if self.pattern is not None:
            lookbacks = [rule.lookback for rule in self._rules()]
            if None not in lookbacks:
                cache.keep_last(max(lookbacks) + 1)
        return q, k, v, i, j

    def _check_context(self, x: Tensor, context: Tensor) -> None:
        if self.pattern is not None or type(self.positions) is not Positions:
            rule = self.positions if self.pattern is None else self.pattern
            raise ValueError(
                f"{rule!r} relates positions of one sequence; "
                "cross-attention takes a mask instead, and no positions"
            )
        if context.dim() != 3 or context.shape[-1] != self.key.in_features:
            raise ValueError(
                f"context must be (b, n_k, d_model={self.key.in_features}), "
                f"got {tuple(context.shape)}"
            )
        if context.shape[0] != x.shape[0]:
            raise ValueError(
                f"x and context must be batches of one size, got {x.shape[0]} and "
                f"{context.shape[0]} sequences"
            )

    def _read_context(self, context: Tensor, cache: KVCache | None) -> tuple[Tensor, Tensor]:
        if cache is not None and cache.k is not None and cache.v is not None:
            b, n_k = cache.k.shape[0], len(cache)
            if context.shape[:2] != (b, n_k):
                raise ValueError(
                    f"the cache holds a context of (b, n_k) = {(b, n_k)}, "
                    f"got another one of {tuple(context.shape[:2])}; start it with a new cache"
                )
            return cache.k, cache.v
        k, v = self.split_heads(self.key(context)), self.split_heads(self.value(context))
        return (k, v) if cache is None else cache.append(k, v)

    def _places(self, n: int, like: Tensor) -> Tensor:
        return torch.arange(n, device=like.device)

    def _check_padding(
        self, key_padding: Tensor, x: Tensor, context: Tensor | None, cache: KVCache | None
    ) -> None:
        """Refuse all but one entry for each key so far, those that a cache has seen included."""
        n_cached = 0 if cache is None or context is not None else len(cache)
        n_k = n_cached + (x if context is None else context).shape[1]
        each = "key, cached ones included"
        check_padding(key_padding, (x.shape[0], n_k), x.device, each=each)

    def _readable(
        self,
        q: Tensor,
        i: Tensor,
        j: Tensor,
        mask: Tensor | None,
        key_padding: Tensor | None,
    ) -> Tensor | None:
        """What pattern, mask and padding allow together, or None where everything is."""
        readable = None
        if self.pattern is not None:
            for rule in self._rules():
                rule.check(int(j[-1]) + 1 if len(j) else 0)
            rules = [rule.allowed(i[:, None], j[None, :]) for rule in self._rules()]
            readable = torch.stack(rules)  # (1 or h, n_q, n_k)
        if mask is not None:
            shape = torch.Size((len(q), self.n_heads, len(i), len(j)))
            check_mask_of_heads(mask, shape, q.device)
            readable = mask if readable is None else readable & mask
        if key_padding is not None:
            real = key_padding[:, None, None, :]
            readable = real if readable is None else readable & real
        return readable
