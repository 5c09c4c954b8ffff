"""The content-based counterpart of a pattern: the tokens themselves decide who reads whom."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.dense import attention_weights
from tinyattn.engine import check_qkv, sparse_attention
from tinyattn.patterns import Pattern


class Router(nn.Module):
    """Decides from q and k which keys a query reads, anew for each sequence and each head.

    A pattern has a rule in place of its matrix; a router has `weights`, the matrix that `attend`
    multiplies the values by. It is the meaning, of n² numbers, for pictures and tests: whatever a
    router groups, averages or mixes, its result is linear in the values. `attend` is the same
    result at the cost of what is kept. A router fits wherever a pattern does in self-attention.

    A subclass defines `weights`, and `attend` where it is faster than the product. What it
    learns through gradients are its parameters; what it learns otherwise are buffers, which
    change in `update` and nowhere else.

    Attributes:
        causal: whether no query depends on a later token, in what it reads or in how that was
            chosen. A decoder needs it.
    """

    causal: bool = False

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        """All n² weights of the keys for each query; zero where a key is not read."""
        raise TypeError(f"{type(self).__name__} must define weights(q, k)")

    def attend(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        v: Float[Tensor, "b h n d_v"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n d_v"]:
        """weights(q, k) v, computed from what is kept.

        Args:
            q: queries.
            k: keys, as many.
            v: values.
            key_padding: True where a token is real; the others are never chosen.
            scale: what q kᵀ is multiplied by; 1 / √d_head if not given.
        """
        return self.weights(q, k, key_padding=key_padding, scale=scale) @ v

    def update(self) -> None:
        """Learn what gradients do not teach from the tokens of the last call in training mode."""

    def check(self, n_heads: int, d_head: int) -> None:
        """Raise ValueError if the router is not made for n_heads heads of this width."""


Rule = Pattern | Router  # decides by position, or by content
RulePerHead = Rule | tuple[Rule, ...]  # one for all heads, or one for each


def update_routers(model: nn.Module) -> None:
    """Call `update` of every router in a model: once for each training step, after it.

    Nothing else moves what routers learn outside the gradient: no hook runs in the backward
    pass, so that recomputing a forward pass, or accumulating gradients, counts nothing twice.

    Example:
        >>> from tinyattn import MultiHeadAttention
        >>> update_routers(MultiHeadAttention(8, 2))
    """
    for part in model.modules():
        if isinstance(part, Router):
            part.update()


def own_copy(rules: RulePerHead | None) -> RulePerHead | None:
    """The same rules with routers of their own: layers do not share what theirs learn."""
    if isinstance(rules, tuple):
        memo: dict = {}  # one router of several heads stays one
        return tuple(copy.deepcopy(r, memo) if isinstance(r, Router) else r for r in rules)
    return copy.deepcopy(rules) if isinstance(rules, Router) else rules


def has_router(rules: RulePerHead | None) -> bool:
    """Whether some head decides by content."""
    rules = rules if isinstance(rules, tuple) else (rules,)
    return any(isinstance(rule, Router) for rule in rules)


def check_routers(rules: RulePerHead | None, n_heads: int, d_head: int) -> None:
    """Refuse routers that are made for other heads than those they are given to."""
    if isinstance(rules, Router):
        rules.check(n_heads, d_head)
    elif isinstance(rules, tuple):
        for rule in dict.fromkeys(rules):
            if isinstance(rule, Router):
                rule.check(sum(other is rule for other in rules), d_head)


def routed_attention(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    rules: RulePerHead,
    *,
    key_padding: Bool[Tensor, "b n"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Self-attention whose heads follow routers, or patterns, each its own.

    Args:
        q: queries.
        k: keys, as many.
        v: values.
        rules: one pattern or router, or one for each head; heads with the same one run together.
        key_padding: True where a token is real.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.

    Raises:
        ValueError: if the number of rules is not that of heads, or shapes do not fit.
    """
    scale = check_qkv(q, k, v, key_padding, scale)
    if q.shape[1] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    out: list[Tensor] = [q] * q.shape[1]
    for rule, heads in _heads_of(rules, q.shape[1]):
        some = (x[:, heads] for x in (q, k, v))
        if isinstance(rule, Router):
            found = rule.attend(*some, key_padding=key_padding, scale=scale)
        else:
            found = sparse_attention(*some, rule, key_padding=key_padding, scale=scale)
        for at, head in enumerate(heads):
            out[head] = found[:, at]
    return torch.stack(out, dim=1)


def routed_weights(
    q: Float[Tensor, "b h n d_head"],
    k: Float[Tensor, "b h n d_head"],
    rules: RulePerHead,
    *,
    key_padding: Bool[Tensor, "b n"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n n"]:
    """All n² weights by which `routed_attention` multiplies the values."""
    scale = check_qkv(q, k, k, key_padding, scale)
    if q.shape[1] == 0:
        return q.new_zeros(*q.shape[:3], q.shape[2])
    out: list[Tensor] = [q] * q.shape[1]
    for rule, heads in _heads_of(rules, q.shape[1]):
        some = (x[:, heads] for x in (q, k))
        if isinstance(rule, Router):
            found = rule.weights(*some, key_padding=key_padding, scale=scale)
        else:
            mask = rule.mask(q.shape[2]).to(q.device)
            if key_padding is not None:
                mask = mask & key_padding[:, None, None, :]
            found = attention_weights(*some, mask, scale=scale)
        for at, head in enumerate(heads):
            out[head] = found[:, at]
    return torch.stack(out, dim=1)


def _heads_of(rules: RulePerHead, n_heads: int) -> list[tuple[Rule, list[int]]]:
    """Each rule with the heads that follow it."""
    rules = tuple(rules) if isinstance(rules, list) else rules
    if not isinstance(rules, tuple):
        return [(rules, list(range(n_heads)))]
    if len(rules) != n_heads:
        raise ValueError(f"give one rule for each of the {n_heads} heads, got {len(rules)}")
    return [
        (rule, [head for head, other in enumerate(rules) if other == rule])
        for rule in dict.fromkeys(rules)
    ]
