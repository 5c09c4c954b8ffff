"""Who belongs to a centroid: the tokens nearest to it, or as many as it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.content.hashing import first_largest
from tinyattn.dense import check_tensors
from tinyattn.padding import check_padding


def nearest(
    x: Float[Tensor, "b h n d_head"], centroids: Float[Tensor, "h n_clusters d_head"]
) -> Int64[Tensor, "b h n"]:
    """μ(x): for each vector the centroid at the smallest angle, the first of equals.

    Raises:
        ValueError: if there is not one centroid or more for each head of x, of its width.

    Example:
        >>> x = torch.tensor([[[[2.0, 0.1], [-1.0, 3.0]]]])
        >>> nearest(x, torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
        tensor([[[0, 1]]])
    """
    check_centroids(x, centroids)
    b, h, n, _ = x.shape
    out = torch.zeros(b, h, n, dtype=torch.long, device=x.device)
    for row, near in zip(out.flatten(0, 1), _nearness(x, centroids), strict=True):
        row.copy_(first_largest(near[None])[0])
    return out


def chosen(
    x: Float[Tensor, "b h n d_head"],
    centroids: Float[Tensor, "h n_clusters d_head"],
    size: int,
    *,
    key_padding: Bool[Tensor, "b n"] | None = None,
) -> Int64[Tensor, "b h n_clusters size"]:
    """For each centroid the `size` vectors at the smallest angles, in no special order.

    Tokens that are not real come in only where there are fewer real ones than `size`.

    Raises:
        ValueError: if shapes do not fit, or `size` is negative or more than the vectors there are.
        TypeError: if `size` is no whole number, or key_padding not bool.

    Example:
        >>> x = torch.tensor([[[[2.0, 0.1], [-1.0, 3.0], [0.0, 1.0]]]])
        >>> chosen(x, torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), size=1)
        tensor([[[[0],
                  [2]]]])
    """
    (size,) = whole_numbers(size=size)
    check_centroids(x, centroids)
    b, h, n, _ = x.shape
    if not 0 <= size <= n:
        raise ValueError(f"size must be in 0 … {n}, the vectors there are, got {size}")
    if key_padding is not None:
        check_padding(key_padding, (b, n), x.device)
    out = torch.zeros(b, h, centroids.shape[1], size, dtype=torch.long, device=x.device)
    rows = enumerate(zip(out.flatten(0, 1), _nearness(x, centroids, unit=True), strict=True))
    for at, (row, near) in rows:
        if key_padding is not None:
            near.masked_fill_(~key_padding[at // h], -math.inf)
        row.copy_(largest(near, size))
    return out


def check_centroids(x: Tensor, centroids: Tensor) -> None:
    """Refuse centroids that are not one or more for each head of x, of its width."""
    check_tensors(x=x, centroids=centroids)
    if x.dim() != 4 or centroids.dim() != 3:
        raise ValueError(
            "x must be (b, h, n, d_head) and centroids (h, n_clusters, d_head), "
            f"got {tuple(x.shape)} and {tuple(centroids.shape)}"
        )
    h, d_head = x.shape[1], x.shape[3]
    if centroids.shape[::2] != (h, d_head) or not centroids.shape[1]:
        raise ValueError(
            f"centroids must be (h, n_clusters, d_head) = ({h}, 1 or more, {d_head}), "
            f"got {tuple(centroids.shape)}"
        )


def largest(x: Float[Tensor, "rows n"], size: int) -> Int64[Tensor, "rows size"]:
    """Where the `size` largest numbers of each row are, in no special order.

    The row is split into strands. The `size` strands with the largest maxima hold them all: a
    number in another strand has `size` maxima that are no smaller. Both searches go through
    about √(n * size) numbers in place of n.
    """
    n = x.shape[-1]
    length = 1 << int(
        math.log2(max(1, n // max(1, size))) / 2
    )  # a power of two: it often divides n
    if length == 1:
        return x.topk(size, dim=-1, sorted=False).indices
    if n % length:  # what fills up is below all numbers, -inf among them
        lowest = torch.finfo(x.dtype).min
        x = F.pad(x.clamp(min=lowest), (0, -n % length), value=-math.inf)
    strands = x.unflatten(-1, (length, -1))
    best = strands.amax(dim=-2).topk(size, dim=-1, sorted=False).indices  # (rows, size)
    numbers = strands.gather(-1, best[:, None].expand(-1, length, -1)).flatten(-2)
    found = numbers.topk(size, dim=-1, sorted=False).indices
    return found // size * strands.shape[-1] + best.gather(-1, found % size)


def _nearness(x: Tensor, centroids: Tensor, unit: bool = False) -> Iterator[Tensor]:
    """For each sequence and head in turn, (n_clusters, n): cosines of angles, if `unit`.

    Otherwise each token's are multiplied by its length, which leaves its nearest the same.
    """
    h = x.shape[1]
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        wide = torch.promote_types(x.dtype, torch.float32)
        means = F.normalize(centroids.detach().to(wide), dim=-1)
        near = x.new_empty((means.shape[1], x.shape[2]), dtype=wide)  # written anew for each
        for at, vectors in enumerate(x.detach().flatten(0, 1).to(wide)):
            torch.mm(means[at % h], vectors.T, out=near)
            if unit:
                near /= vectors.norm(dim=-1).clamp_(min=torch.finfo(wide).tiny)
            yield near
