"""What decoding keeps of the tokens so far: their keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.checks import whole_numbers


class KVCache:
    """Keys and values that a layer has already computed, in order of position.

    Holds n * (d_head + d_v) numbers for each head and sequence. Its length is the number of keys it
    has seen. A layer whose pattern looks back w positions keeps the last w + 1 of them.

    Example:
        >>> cache = KVCache()
        >>> k, v = cache.append(torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8))
        >>> k, v = cache.append(torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 8))
        >>> len(cache), k.shape
        (5, torch.Size([1, 2, 5, 8]))
    """

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None
        self.n_dropped = 0

    def __len__(self) -> int:
        return self.n_dropped + self.n_stored

    @property
    def n_stored(self) -> int:
        """How many keys are still held; the others were dropped."""
        return 0 if self.k is None else self.k.shape[-2]

    def keep_last(self, n: int) -> None:
        """Drop all but the last n keys, which nobody will read again.

        Raises:
            ValueError: if n is negative.
            TypeError: if it is no whole number.
        """
        (n,) = whole_numbers(n=n)
        if n < 0:
            raise ValueError(f"a cache keeps 0 keys or more, got n={n}")
        first = self.n_stored - n
        if self.k is not None and self.v is not None and first > 0:
            self.n_dropped += first
            self.k, self.v = self.k[..., first:, :].clone(), self.v[..., first:, :].clone()

    def append(
        self, k: Float[Tensor, "b h n d_head"], v: Float[Tensor, "b h n d_v"]
    ) -> tuple[Tensor, Tensor]:
        """Store new keys and values after the old ones; returns all of them.

        Raises:
            ValueError: if there is not one value for each key, or batch or heads differ from
                those of the keys already here; then nothing is stored.
        """
        if k.dim() != 4 or v.dim() != 4 or k.shape[:3] != v.shape[:3]:
            raise ValueError(
                "a cache takes one value for each key, k (b, h, n, d_head) and v (b, h, n, d_v), "
                f"got k {tuple(k.shape)} and v {tuple(v.shape)}"
            )
        if self.k is not None and self.k.shape[0] != k.shape[0]:
            raise ValueError(
                f"the cache holds a batch of {self.k.shape[0]} sequences, got {k.shape[0]}; "
                "start another sequence with a new cache"
            )
        if self.k is not None and self.k.shape[1::2] != k.shape[1::2]:
            raise ValueError(
                f"the cache holds heads of (h, d_head) = {tuple(self.k.shape[1::2])}, "
                f"got {tuple(k.shape[1::2])}; each layer needs its own cache"
            )
        if self.v is not None and self.v.shape[3] != v.shape[3]:
            raise ValueError(
                f"the cache holds values of d_v = {self.v.shape[3]}, got {v.shape[3]}; "
                "each layer needs its own cache"
            )
        if self.k is not None and self.v is not None:
            k, v = torch.cat([self.k, k], dim=-2), torch.cat([self.v, v], dim=-2)
        self.k, self.v = k, v
        return k, v


@contextmanager
def unchanged_if_refused(*caches: KVCache | None) -> Iterator[None]:
    """A call that raises inside leaves the caches as they were, so that it can be made again.

    Costs nothing: a cache that grows takes other tensors and changes none.
    """
    before = [(cache, cache.k, cache.v, cache.n_dropped) for cache in caches if cache is not None]
    try:
        yield
    except BaseException:
        for cache, k, v, n_dropped in before:
            cache.k, cache.v, cache.n_dropped = k, v, n_dropped
        raise
