"""The one engine: attention over groups, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import first_derivatives_only
from tinyattn.dense import check_scale, check_tensors
from tinyattn.edge_list import AttendEdges
from tinyattn.groups import Group, Groups, schedule
from tinyattn.padding import check_padding, real_only
from tinyattn.patterns import Pattern
from tinyattn.patterns.base import check_pattern
from tinyattn.places import Places
from tinyattn.products import beside, few, sum_of_products

CACHED_SCORES = 2**19  # scores computed at a time, so that they stay in the processor's cache
LOG2_E = math.log2(math.e)  # exp(x) = 2^(x LOG2_E): exp is many times slower at -inf, 2^ is not


def sparse_attention(
    q: Float[Tensor, "b h n_q d_head"],
    k: Float[Tensor, "b h n_k d_head"],
    v: Float[Tensor, "b h n_k d_v"],
    pattern: Pattern | Sequence[Pattern],
    *,
    key_padding: Bool[Tensor, "b n_k"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n_q d_v"]:
    """Attention that computes only what the pattern keeps; equal to dense attention under its mask.

    Costs what the schedule's pairs cost, forward and with gradients, and O(n) memory: the weights
    of a group are used and forgotten, and computed again in the backward pass.

    Args:
        q: queries.
        k: keys, at least as many; the last query stands at the last key.
        v: values.
        pattern: the rule, or one rule for each head.
        key_padding: True where a key is a real token. What stands elsewhere is never read, NaN or not.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given. One that is learned is
            multiplied into q instead, with scale=1.0.

    `torch.compile` leaves the call as it is: compiled code stops before it and goes on behind.

    Raises:
        ValueError: if shapes or devices do not fit, the number of patterns is not that of heads,
            or scale is not finite.
        TypeError: if the tensors do not share a float dtype, the pattern is no rule, or scale
            wants a gradient.
        NotImplementedError: for second derivatives.

    Source:
        Recomputation in the backward pass: Dao et al. 2022, "FlashAttention" (arXiv:2205.14135).

    Example:
        >>> from tinyattn import attention
        >>> from tinyattn.patterns import Global, Window
        >>> q, k, v = torch.randn(3, 1, 2, 50, 4)
        >>> longformer = Window(4) | Global(1)
        >>> dense = attention(q, k, v, longformer.mask(50))
        >>> torch.allclose(sparse_attention(q, k, v, longformer), dense, atol=1e-6)
        True
    """
    # taken apart here, not by a decorator: that would load the compiler with the package
    run = torch.compiler.disable(_attention) if torch.compiler.is_compiling() else _attention
    return run(q, k, v, pattern, key_padding, scale)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern | Sequence[Pattern],
    key_padding: Tensor | None,
    scale: float | None,
) -> Tensor:
    scale = check_qkv(q, k, v, key_padding, scale)
    if isinstance(pattern, (tuple, list)):
        return _per_head(q, k, v, tuple(pattern), key_padding, scale)
    groups = schedule(pattern, q.shape[2], k.shape[2])
    return attend(q, k, v, groups, key_padding=key_padding, scale=scale)


def attend(
    q: Float[Tensor, "b h n_q d_head"],
    k: Float[Tensor, "b h n_k d_head"],
    v: Float[Tensor, "b h n_k d_v"],
    groups: Groups,
    *,
    key_padding: Bool[Tensor, "b n_k"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h n_q d_v"]:
    """Attention over the pairs of a schedule: `sparse_attention` with the lowering done."""
    scale = check_qkv(q, k, v, key_padding, scale)
    if not isinstance(groups, Groups):
        raise TypeError(
            f"attend takes the groups of schedule(pattern, n), got {type(groups).__name__}; "
            "sparse_attention takes the pattern itself"
        )
    if q.is_meta:
        raise ValueError("q, k and v must hold numbers, got tensors on the device meta")
    b, h, n_q, d_head = q.shape
    if (n_q, k.shape[2]) != (groups.n, groups.n_k):
        raise ValueError(
            f"the schedule is for {groups.n} queries and {groups.n_k} keys, "
            f"got {n_q} and {k.shape[2]}"
        )
    scale = d_head**-0.5 if scale is None else scale
    wide = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    padding = None
    if key_padding is not None:
        padding = torch.zeros(key_padding.shape, dtype=wide, device=q.device)
        padding = padding.masked_fill(~key_padding, -math.inf).repeat_interleave(h, 0)[..., None]
    k, v = (real_only(x, key_padding) for x in (k, v))
    flat = [x.flatten(0, 1).to(wide) for x in (q, k, v)]  # (b * h, n, d)
    if groups.edges is None:
        out = _Attend.apply(*flat, padding, groups, scale)
    else:
        out = AttendEdges.apply(*flat, padding, groups.edges, scale)
    return out.to(q.dtype).view(b, h, n_q, v.shape[-1])


class _Attend(torch.autograd.Function):
    """softmax(q kᵀ * scale + mask) v, one group at a time, with the weights recomputed backward.

    The scores of a group are small enough to stay in the cache, so that three plain products
    beat a fused kernel that reads its operands from memory. Autograd over slices would write a
    gradient of the whole sequence for each of them: quadratic. Here gradients accumulate in place.
    """

    @staticmethod
    def forward(ctx, q, k, v, padding, groups, scale):
        of_scores = scale * LOG2_E if groups.split_rows else scale
        start = q.new_empty if groups.each_row_once else q.new_zeros
        out = start(*q.shape[:2], v.shape[-1])
        lse = q.new_full((*q.shape[:2], 1), -math.inf) if groups.split_rows else None
        with torch.autocast(q.device.type, enabled=False):  # the dtype was chosen by `attend`
            scratch = _Scratch(q)
            for group, heads in _pieces(groups, len(q)):
                queries, keys = group.queries.take(q[heads]), few(group.keys.views(k[heads]))
                scores = _scores(group, queries, keys, of_scores, _rows(padding, heads), scratch)
                values = group.keys.views(v[heads])
                if lse is None:
                    weights = _softmax(scores, group, padding)
                    group.queries.put_product(out[heads], weights, values)
                else:
                    _merge(group.queries, out[heads], lse[heads], scores, values)
        ctx.save_for_backward(q, k, v, padding, out, lse)
        ctx.groups, ctx.scale = groups, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        first_derivatives_only("sparse_attention", "attention(q, k, v, pattern.mask(n))")
        q, k, v, padding, out, lse = ctx.saved_tensors
        of_scores = ctx.scale if lse is None else ctx.scale * LOG2_E
        d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        with torch.autocast(q.device.type, enabled=False):
            scratch, more_scratch = _Scratch(q), _Scratch(q)
            for group, heads in _pieces(ctx.groups, len(q)):
                queries, keys = group.queries.take(q[heads]), few(group.keys.views(k[heads]))
                scores = _scores(group, queries, keys, of_scores, _rows(padding, heads), scratch)
                if lse is None:
                    weights = _softmax(scores, group, padding)
                else:
                    weights = scores.sub_(_finite(group.queries.take(lse[heads]))).exp2_()
                d_rows, rows = group.queries.take(d_out[heads]), group.queries.take(out[heads])
                correction = (d_rows * rows).sum(dim=-1, keepdim=True)  # Σ_j weight_ij d_weight_ij
                group.keys.add_product(d_v[heads], weights.transpose(1, 2), [d_rows])
                d_scores = more_scratch.product(d_rows, few(group.keys.views(v[heads])))
                d_scores.sub_(correction).mul_(weights)
                group.queries.add_product(d_q[heads], d_scores, keys, alpha=ctx.scale)
                group.keys.add_product(
                    d_k[heads], d_scores.transpose(1, 2), [queries], alpha=ctx.scale
                )
        return d_q, d_k, d_v, None, None, None


def _pieces(groups: Groups, n_heads: int) -> Iterator[tuple[Group, slice]]:
    """As much at a time as keeps its scores in the cache: heads of a group, or groups of a head."""
    for batch in groups.batches:
        at_once = max(1, CACHED_SCORES // batch.groups[0].n_pairs)
        if len(batch.groups) > n_heads:
            for head in range(n_heads):
                for start in range(0, len(batch.groups), at_once):
                    yield batch.part(start, start + at_once), slice(head, head + 1)
        else:
            for group in batch.groups:
                for start in range(0, n_heads, at_once):
                    yield group, slice(start, start + at_once)


def _rows(padding: Tensor | None, heads: slice) -> Tensor | None:
    return None if padding is None else padding[heads]


class _Scratch:
    """Memory for scores that is used again: fresh pages for each piece would cost more time."""

    def __init__(self, like: Tensor) -> None:
        self.flat = like.new_empty(0)

    def product(self, left: Tensor, right: Sequence[Tensor], scale: float = 1.0) -> Tensor:
        """scale * left @ rightᵀ, right in pieces; valid until the next product."""
        shape = (*left.shape[:2], sum(piece.shape[1] for piece in right))
        if self.flat.numel() < math.prod(shape):
            self.flat = self.flat.new_empty(math.prod(shape))
        out = self.flat[: math.prod(shape)].view(shape)
        beside(left, right, out, scale)
        return out


def _scores(
    group: Group,
    queries: Tensor,
    keys: Sequence[Tensor],
    scale: float,
    padding: Tensor | None,
    scratch: _Scratch,
) -> Tensor:
    """Masked scores of a group, (heads, n_queries, n_keys)."""
    scores = scratch.product(queries, keys, scale)
    for columns, mask in group.masks:
        scores[:, :, columns] += mask
    return scores if padding is None else scores.add_(group.keys.take(padding).transpose(1, 2))


def _softmax(scores: Tensor, group: Group, padding: Tensor | None) -> Tensor:
    """Softmax of each row, in place; a row of -inf becomes zeros."""
    if not group.has_empty_rows and padding is None:
        return torch.softmax(scores, dim=-1, out=scores)
    empty = scores.amax(dim=-1, keepdim=True) == -math.inf
    return torch.softmax(scores, dim=-1, out=scores).masked_fill_(empty, 0.0)


def _merge(
    queries: Places, out: Tensor, lse: Tensor, scores: Tensor, values: Sequence[Tensor]
) -> None:
    """Fold a group into rows that other groups share; scores are those of base 2.

    With lse = log2 Σ 2^scores of the keys so far, the old average keeps 2^(lse - new) of its
    weight and the new keys get 2^(scores - new), where new is the lse of both together.
    """
    old, top = queries.take(lse), _finite(scores.amax(dim=-1, keepdim=True))
    weights = scores.sub_(top).exp2_()
    new = torch.logaddexp2(old, top + weights.sum(dim=-1, keepdim=True).log2())
    kept, added = (old - _finite(new)).exp2_(), (top - _finite(new)).exp2_()
    rows = sum_of_products(weights, values).mul_(added).addcmul_(kept, queries.take(out))
    queries.put(out, rows)
    queries.put(lse, new)


def _finite(lse: Tensor) -> Tensor:
    """Zero where no key has been read, so that -inf minus it stays -inf."""
    return lse.masked_fill(lse == -math.inf, 0.0)


def _per_head(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    patterns: tuple[Pattern, ...],
    key_padding: Tensor | None,
    scale: float | None,
) -> Tensor:
    """One pattern for each head: heads with the same one run together."""
    if len(patterns) != q.shape[1]:
        raise ValueError(
            f"give one pattern for each of the {q.shape[1]} heads, got {len(patterns)}"
        )
    for pattern in patterns:
        check_pattern(pattern)
    if not patterns:
        return q @ k.transpose(-2, -1) @ v  # nothing, of the right shape
    out: list[Tensor] = [q] * len(patterns)
    for pattern in dict.fromkeys(patterns):
        heads = [head for head, other in enumerate(patterns) if other == pattern]
        groups = schedule(pattern, q.shape[2], k.shape[2])
        some = attend(
            q[:, heads], k[:, heads], v[:, heads], groups, key_padding=key_padding, scale=scale
        )
        for at, head in enumerate(heads):
            out[head] = some[:, at]
    return torch.stack(out, dim=1)


def check_qkv(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, scale: float | None
) -> float | None:
    """Refuse what attention over a pattern cannot take; the scale as a float, if there is one."""
    check_tensors(q=q, k=k, v=v)
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.dim() == k.dim() == v.dim() == 4 or q.shape[-1] == 0:
        raise ValueError(
            f"q, k and v must be (b, h, n, d_head) with d_head of 1 or more, got {shapes}"
        )
    fits = q.shape[:2] == k.shape[:2] == v.shape[:2] and q.shape[3] == k.shape[3]
    if not fits or k.shape[2] != v.shape[2]:
        raise ValueError(
            f"q, k and v must share b and h, q and k d_head, k and v n_k, got {shapes}"
        )
    if not q.is_floating_point() or not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"q, k and v must share one float dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if not q.device == k.device == v.device:
        raise ValueError(
            f"q, k and v must be on one device, got {q.device}, {k.device}, {v.device}"
        )
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise TypeError(
            "scale gets no gradient here: multiply q by what is learned, and give scale=1.0"
        )
    if scale is not None:
        check_scale(scale)
        scale = float(scale)
    if key_padding is not None:
        check_padding(key_padding, (q.shape[0], k.shape[2]), q.device, each="key")
    return scale
