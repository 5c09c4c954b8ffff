"""Refusing heads that do not fit each other, for all families at once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.padding import check_padding


def check_heads(q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None = None) -> None:
    """Refuse q, k and v unless they are (b, h, n, d) and share what they have to.

    Raises:
        ValueError: if shapes do not fit.
        TypeError: if the tensors do not share a float dtype, or key_padding is not bool.
    """
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.dim() == k.dim() == v.dim() == 4 or q.shape[-1] == 0:
        raise ValueError(
            f"q, k and v must be (b, h, n, d_head) with d_head of 1 or more, got {shapes}"
        )
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"q, k and v must share b and h, q and k d_head, k and v n_k, got {shapes}"
        )
    check_dtypes(q=q, k=k, v=v)
    if key_padding is not None:
        check_padding(key_padding, (k.shape[0], k.shape[2]), k.device, each="key")


def check_dtypes(**tensors: Tensor) -> None:
    """Refuse tensors that no product would take together, by name.

    Raises:
        TypeError: if they do not share a float dtype.
    """
    dtypes = [x.dtype for x in tensors.values()]
    if not dtypes[0].is_floating_point or len(set(dtypes)) > 1:
        *names, last = tensors
        raise TypeError(
            f"{', '.join(names)} and {last} must share one float dtype, "
            f"got {', '.join(str(dtype) for dtype in dtypes)}"
        )


def check_causal(q: Tensor, k: Tensor) -> None:
    """Refuse a causal rule between sequences of different lengths."""
    if q.shape[2] != k.shape[2]:
        raise ValueError(
            "a causal rule needs as many queries as keys, "
            f"got n_q={q.shape[2]} and n_k={k.shape[2]}"
        )


def check_sizes(**sizes: int) -> tuple[int, ...]:
    """Sizes as Python's integers; those that are no whole numbers, or below 1, are refused."""
    found = whole_numbers(**sizes)
    for name, size in zip(sizes, found, strict=True):
        if size < 1:
            raise ValueError(f"{name} must be 1 or more, got {size}")
    return found


def widened(*tensors: Tensor) -> list[Tensor]:
    """Half precision as float32: sums over a long sequence would lose their last terms in it."""
    half = tensors[0].dtype in (torch.float16, torch.bfloat16)
    return [x.float() if half else x for x in tensors]


def without_autocast(x: Tensor) -> AbstractContextManager:
    """Products in the dtypes that their factors have, so that what was widened stays wide."""
    device = x.device.type
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def cast_with(x: Tensor, *weights: Tensor) -> list[Tensor]:
    """Learned matrices in the dtype of x under autocast, as its products take them; else as is."""
    device = x.device.type
    on = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return [weight.to(x.dtype) if on else weight for weight in weights]
