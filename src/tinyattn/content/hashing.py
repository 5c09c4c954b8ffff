"""Angular hashing: vectors that point the same way fall into the same bucket, most of the time."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tinyattn.checks import whole_numbers, whole_seed

HASHED_AT_ONCE = 2**17  # numbers, so that they stay in the processor's cache


def lsh_buckets(
    x: Float[Tensor, "b h n d_head"], *, n_buckets: int, n_hashes: int = 1, seed: int = 0
) -> Int64[Tensor, "b h n_hashes n"]:
    """The bucket of each vector in each round of hashing.

        h(x) = argmax([x R ; -x R]),  R of shape (d_head, n_buckets / 2), entries normal

    R turns the space at random, and a vector's bucket is the axis, up or down, that it points
    along most closely. Two vectors at an angle θ share a bucket with a probability that falls
    from 1 at θ = 0 over 1 / n_buckets at π / 2 to 0 at π; their lengths do not matter.

    More than 2 * d_head buckets would need more axes than there are dimensions, and n_buckets
    that grow with n would make hashing quadratic. There the number is a product of smaller ones,
    `bucket_factors`, each with a rotation of its own: the bucket is the tuple of their answers,
    and collision probabilities multiply. Costs n * d_head * n_hashes * Σ factors / 2 products.

    Args:
        x: vectors; no gradient flows through their buckets.
        n_buckets: an even number, or 1.
        n_hashes: rounds. The first rounds of more are the rounds of fewer.
        seed: of the rotations, which all heads and sequences share.

    Raises:
        ValueError: if n_buckets is odd and not 1, or has no factors of at most 2 * d_head, or
            n_hashes is below 1, or the seed has more than 64 bits.
        TypeError: if a number is no whole one.

    Source:
        Andoni et al. 2015 (arXiv:1509.02897); Kitaev et al. 2020, section 2 (arXiv:2001.04451).

    Example:
        >>> one = torch.tensor([[[[1.0, 0.0], [3.0, 0.0], [-1.0, 0.0]]]])
        >>> here, longer, opposite = lsh_buckets(one, n_buckets=4)[0, 0, 0].tolist()
        >>> here == longer, abs(here - opposite)
        (True, 2)
    """
    n_buckets, n_hashes = whole_numbers(n_buckets=n_buckets, n_hashes=n_hashes)
    seed = whole_seed(seed)
    if n_hashes < 1:
        raise ValueError(f"n_hashes must be 1 round or more, got {n_hashes}")
    b, h, n, d_head = x.shape
    factors = bucket_factors(n_buckets, d_head)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        wide = torch.promote_types(x.dtype, torch.float32)
        rotations = [r.to(x.device, wide) for r in _rotations(d_head, factors, n_hashes, seed)]
        at_once = max(1, HASHED_AT_ONCE // (n_hashes * max(factors)))
        found = [_hash(some.to(wide), rotations) for some in x.flatten(0, 2).split(at_once)]
    return torch.cat(found, dim=1).view(n_hashes, b, h, n).permute(1, 2, 0, 3)


def bucket_factors(n_buckets: int, d_head: int) -> tuple[int, ...]:
    """Even numbers of at most 2 * d_head whose product is n_buckets; few, and near each other.

    Raises:
        ValueError: if there are none.

    Example:
        >>> bucket_factors(128, d_head=64), bucket_factors(512, d_head=64)
        ((128,), (16, 32))
    """
    n_buckets, d_head = whole_numbers(n_buckets=n_buckets, d_head=d_head)
    if d_head < 1:
        raise ValueError(f"d_head must be 1 or more, got {d_head}")
    if n_buckets == 1:
        return (1,)
    if n_buckets < 1 or n_buckets % 2:
        raise ValueError(f"n_buckets must be even (each axis has two ends), or 1, got {n_buckets}")
    factors = _even_factors(n_buckets, 2 * d_head)
    if not factors:
        raise ValueError(
            f"n_buckets must be a product of even numbers of at most 2 * d_head = {2 * d_head}, "
            f"such as a power of two, got {n_buckets}"
        )
    return factors


def _even_factors(number: int, most: int) -> tuple[int, ...]:
    """Even numbers of at most `most` with this product, or nothing."""
    if number <= most:
        return (number,)
    n_factors = 2
    while most**n_factors < number:
        n_factors += 1
    for first in range(min(most, round(number ** (1 / n_factors))) // 2 * 2, 1, -2):
        if number % (2 * first) == 0 and (others := _even_factors(number // first, most)):
            return first, *others
    return ()


def _rotations(d_head: int, factors: tuple[int, ...], n_hashes: int, seed: int) -> list[Tensor]:
    """For each factor the rotations of all rounds, (n_hashes, factor / 2, d_head)."""
    rng = torch.Generator().manual_seed(seed)
    rounds = [  # drawn round by round, so that further rounds leave the first ones as they are
        [torch.randn(f // 2, d_head, generator=rng, dtype=torch.float64) for f in factors]
        for _ in range(n_hashes)
    ]
    return [torch.stack(of_factor) for of_factor in zip(*rounds, strict=True)]


def _hash(x: Tensor, rotations: list[Tensor]) -> Tensor:
    """Buckets (n_hashes, n) of vectors (n, d_head)."""
    axes = torch.cat([rotation.flatten(0, 1) for rotation in rotations])
    along = (axes @ x.T).split([rotation.shape[0] * rotation.shape[1] for rotation in rotations])
    buckets = torch.zeros(len(rotations[0]), len(x), dtype=torch.long, device=x.device)
    for rotation, part in zip(rotations, along, strict=True):
        n_axes = rotation.shape[1]
        if n_axes:  # with one bucket there is nothing to ask
            part = part.unflatten(0, rotation.shape[:2])
            buckets = buckets * (2 * n_axes) + first_largest(torch.cat([part, -part], dim=1))
    return buckets


def first_largest(x: Tensor) -> Tensor:
    """argmax over axis 1, the first of equals; on short axes torch's own is ten times slower."""
    is_largest = x.sub_(x.amax(dim=1, keepdim=True)).sign_().add_(1)  # 1 at the largest, else 0
    n = x.shape[1]
    countdown = torch.arange(n, 0, -1, device=x.device, dtype=x.dtype)[:, None]
    return n - is_largest.mul_(countdown).amax(dim=1).long()
