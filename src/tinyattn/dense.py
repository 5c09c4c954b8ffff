"""Dense attention: the reference that every faster path in this package must equal."""

from __future__ import annotations

import math
from numbers import Real

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def attention(
    q: Float[Tensor, "... n_q d_head"],
    k: Float[Tensor, "... n_k d_head"],
    v: Float[Tensor, "... n_k d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... n_q d_v"]:
    """Scaled dot-product attention: each query's weighted average of the values.

        attention(q, k, v) = softmax(q kᵀ / √d_head + bias) v

    Costs n_q * n_k * (d_head + d_v) multiply-adds and holds n_q * n_k weights per head.

    Args:
        q: queries, usually (b, h, n_q, d_head); leading axes broadcast.
        k: keys.
        v: values, one for each key.
        mask: True where query i may read key j; broadcastable to (..., n_q, n_k). A query
            that may read nothing outputs zeros and sends no gradient back.
        scale: what q kᵀ is multiplied by; 1 / √d_head if not given.
        bias: added to the scaled scores, as position schemes do; -inf forbids like the mask.

    Raises:
        ValueError: if the shapes or devices do not fit each other, or scale is not finite.
        TypeError: if the mask is not a bool tensor, q, k and v do not share a float dtype, or
            scale is no number.

    Source:
        Vaswani et al. 2017, equation 1 (arXiv:1706.03762); Lin et al. 2022, equation 1
        (arXiv:2106.04554). Forbidden scores become -inf before the softmax. The softmax is
        taken in at least float32, so half-precision inputs lose nothing there.

    Example:
        >>> q = torch.tensor([[1.0, 0.0]])
        >>> k = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-9.0, 0.0]])
        >>> v = torch.tensor([[2.0], [4.0], [99.0]])
        >>> attention(q, k, v, torch.tensor([[True, True, False]]))
        tensor([[3.]])
    """
    _check_together(q=q, k=k, v=v)
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(
            "k and v must hold one row for each key, "
            f"got k of shape {tuple(k.shape)} and v of shape {tuple(v.shape)}"
        )
    return attention_weights(q, k, mask, scale=scale, bias=bias) @ v


def attention_weights(
    q: Float[Tensor, "... n_q d_head"],
    k: Float[Tensor, "... n_k d_head"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "... n_q n_k"]:
    """The matrix that `attention` multiplies v by: row i says how query i divides itself.

    Rows sum to 1, except those of queries that may read nothing: they are zero.
    Arguments and errors are those of `attention`.

    Example:
        >>> q = k = torch.eye(3)
        >>> attention_weights(q, k, torch.ones(3, 3, dtype=torch.bool).tril(), scale=0.0)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    _check_together(q=q, k=k)
    if q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise ValueError(
            "q and k must end in (n_q, d_head) and (n_k, d_head) with the same d_head of 1 or "
            f"more, got q of shape {tuple(q.shape)} and k of shape {tuple(k.shape)}"
        )
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    check_scale(scale)
    if isinstance(scale, Tensor):
        scale = scale.reshape(()).to(q.dtype)
    # q is scaled before the product: unscaled products of float16 pass 65,504 and turn infinite
    scores = (q * scale) @ k.transpose(-2, -1)  # (..., n_q, n_k)
    if bias is not None:
        check_tensors(bias=bias)
        if bias.dtype == torch.bool:
            raise TypeError("bias is added to the scores, got torch.bool; give it as the mask")
        _check_fits("bias", bias, scores.shape, scores.device)
        scores = scores + bias.to(scores.dtype)
    return masked_softmax(scores, mask)


def masked_softmax(
    scores: Float[Tensor, "... n_q n_k"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "... n_q n_k"]:
    """Softmax over the last axis among allowed entries; a row with none of them is zero.

    Filling with the smallest float instead of -inf would turn a row with nothing allowed into
    a uniform average over forbidden keys; -inf alone would turn it into NaN. Here such a row is
    softened over zeros, which is finite in both directions, and then cleared. Scores that are
    -inf already are forbidden as well.

    Example:
        >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
        tensor([[1., 0.],
                [0., 0.]])
    """
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floats, got {scores.dtype}")
    if mask is not None:
        check_mask(mask, scores.shape, scores.device)
        scores = scores.where(mask, -math.inf)
    if scores.shape[-1] == 0:
        return scores
    wide = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype
    nothing = scores.detach().amax(dim=-1, keepdim=True) == -math.inf  # (..., n_q, 1)
    if not nothing.any():  # as nearly always: fills are passes as long as the softmax itself
        return scores.softmax(dim=-1, dtype=wide).to(scores.dtype)
    weights = scores.masked_fill(nothing, 0.0).softmax(dim=-1, dtype=wide)
    return weights.masked_fill(nothing, 0.0).to(scores.dtype)


def check_mask(mask: Tensor, shape: torch.Size, device: torch.device) -> None:
    """Refuse a mask that is not bool, or does not broadcast to the scores' shape."""
    _check_bool(mask)
    _check_fits("mask", mask, shape, device)


def check_mask_of_heads(mask: Tensor, shape: torch.Size, device: torch.device) -> None:
    """Refuse a mask of heads that `check_mask` refuses, or that has not two axes or four.

    A third one could be meant for sequences, and would fall on the heads.
    """
    _check_bool(mask)
    if mask.dim() not in (2, 4):
        raise ValueError(
            "mask must be (n_q, n_k) or (b, 1 or h, n_q, n_k), "
            f"got {tuple(mask.shape)}; a mask for each sequence needs a head axis of 1"
        )
    check_mask(mask, shape, device)


def _check_bool(mask: object) -> None:
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"mask must be a bool tensor, got {type(mask).__name__}; "
            "the matrix of a pattern is pattern.mask(n), and torch.as_tensor makes one of an array"
        )
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be bool with True where a query may read, got {mask.dtype}; "
            "an additive mask goes in as mask == 0"
        )


def _check_fits(name: str, tensor: Tensor, shape: torch.Size, device: torch.device) -> None:
    sizes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    if tensor.dim() > len(shape) or any(size not in (1, wanted) for size, wanted in sizes):
        raise ValueError(
            f"{name} must broadcast to the scores (..., n_q, n_k) = {tuple(shape)}, "
            f"got {tuple(tensor.shape)}"
        )
    if tensor.device != device:
        raise ValueError(f"{name} must be on the device of q, {device}, got {tensor.device}")


def check_tensors(**values: object) -> None:
    """Refuse what looks like a tensor and is none, such as a list or NumPy's array."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a tensor, got {type(value).__name__}; torch.as_tensor makes one"
            )


def check_scale(scale: object) -> None:
    """Refuse a scale that is no number, or not finite."""
    if isinstance(scale, Tensor):
        one = scale.numel() == 1 and scale.dtype != torch.bool and not scale.is_complex()
    else:
        one = isinstance(scale, Real) and not isinstance(scale, bool)
    if not one:
        raise TypeError(f"scale must be a number, got {scale!r}")
    try:
        finite = math.isfinite(scale.detach() if isinstance(scale, Tensor) else scale)
    except OverflowError:  # an integer that no float can hold
        finite = False
    if not finite:
        raise ValueError(f"scale must be a finite number, got {scale!r:.40}")


def _check_together(**tensors: Tensor) -> None:
    """Refuse tensors that no matrix product would take together."""
    check_tensors(**tensors)
    names, q = ", ".join(tensors), tensors["q"]

    def listed(attribute: str) -> str:
        return ", ".join(f"{name} {getattr(t, attribute)}" for name, t in tensors.items())

    if not q.is_floating_point() or any(t.dtype != q.dtype for t in tensors.values()):
        raise TypeError(f"{names} must share one float dtype, got {listed('dtype')}")
    if any(t.device != q.device for t in tensors.values()):
        raise ValueError(f"{names} must be on one device, got {listed('device')}")
    shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())
    if any(t.dim() < 2 for t in tensors.values()):
        raise ValueError(f"{names} must have two axes or more, (..., n, d), got {shapes}")
    try:
        torch.broadcast_shapes(*(t.shape[:-2] for t in tensors.values()))
    except RuntimeError:
        raise ValueError(f"the leading axes of {names} must broadcast, got {shapes}") from None
