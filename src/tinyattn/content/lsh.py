"""LSH attention: a query reads the keys that fall into its bucket, in any of several rounds."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tinyattn.checks import whole_numbers, whole_seed
from tinyattn.content.chunks import Chunks, attend_in_chunks
from tinyattn.content.hashing import bucket_factors, lsh_buckets
from tinyattn.content.router import Router
from tinyattn.dense import attention_weights, check_tensors
from tinyattn.engine import check_qkv
from tinyattn.padding import check_padding, real_only


def lsh_attention(
    qk: Float[Tensor, "b h n d_head"],
    v: Float[Tensor, "b h n d_v"],
    *,
    n_buckets: int,
    n_hashes: int = 1,
    causal: bool = False,
    seed: int = 0,
    scale: float | None = None,
    chunk_size: int | None = None,
    key_padding: Bool[Tensor, "b n"] | None = None,
    buckets: Int64[Tensor, "b h n_hashes n"] | None = None,
) -> Float[Tensor, "b h n d_v"]:
    """Attention among vectors that hash to the same bucket in one of n_hashes rounds.

        k_j = qk_j / |qk_j|,   out_i = Σ_j softmax_j(scale * qk_i · k_j) v_j,  j in P_i

    One tensor gives queries and keys, since a hash finds what is near, and keys have unit length,
    so that near means the same for all. In each round the sequence is sorted by (bucket,
    position) and cut into chunks; a query finds the tokens of its bucket in its own chunk and the
    one before, and of these, if causal, the chunk_size sorted last before it. P_i is the union over
    rounds, one softmax over it. A query reads itself only if it finds nobody else: its own key
    would outweigh all others. A token that is not real is neither read nor answered.

    If causal, no later token changes an output, not in its last bit. Whole chunks would not do:
    where a long bucket is cut into chunks depends on how many tokens, later ones too, are sorted
    before it. So each bucket begins a chunk of its own there, and the keys that a query reads, as
    well as their places in its sum, depend on earlier tokens alone.

    Looking back is complete when causal and no bucket is longer than a chunk. In both
    directions it is not: where a bucket goes on in the next chunk, the later part reads the
    earlier one and not the other way round. Costs O(n_hashes * n * chunk_size) time.

    Args:
        qk: queries, and keys before they are normalised.
        v: values.
        n_buckets: an even number, or 1.
        n_hashes: rounds.
        causal: whether a query finds only earlier tokens.
        seed: of the hash functions.
        scale: what scores are multiplied by; 1 / √d_head if not given.
        chunk_size: sorted tokens in a chunk; two average buckets, 2 * n / n_buckets, if not given.
            That grows with n: give one where sequences of several lengths must agree.
        key_padding: True where a token is real.
        buckets: use these, such as from `lsh_buckets`, instead of hashing; as many rounds as they
            hold, whatever n_hashes says.

    Raises:
        ValueError: if shapes do not fit, or a number is out of range.
        TypeError: if qk and v do not share a float dtype, buckets are no integers, or a number is
            no whole one.
        NotImplementedError: for second derivatives.

    Source:
        Kitaev et al. 2020, "Reformer", sections 2 and A (arXiv:2001.04451), except that it gives
        no scale (1.0 here), lets a causal query read whole chunks, and leaves open a chunk's look
        at the last one, in place of the one before the first. There a pair that N rounds find is
        counted N times with log N subtracted from its score; here the first round that finds it
        keeps it, which is the same sum.

    Example:
        >>> qk, v = torch.randn(2, 1, 2, 50, 4)
        >>> lsh_attention(qk, v, n_buckets=8, n_hashes=2).shape
        torch.Size([1, 2, 50, 4])
    """
    scale = check_qkv(qk, qk, v, key_padding, scale)
    size = check_chunks(qk.shape[2], n_buckets, chunk_size)
    qk, v = (real_only(x, key_padding) for x in (qk, v))
    if buckets is None:
        buckets = lsh_buckets(qk, n_buckets=n_buckets, n_hashes=n_hashes, seed=seed)
    _check_buckets(buckets, qk)
    if v.numel() == 0:
        return v * qk.sum()
    scale = qk.shape[-1] ** -0.5 if scale is None else scale
    real = _real(key_padding, qk).flatten(0, 1)
    wide = torch.promote_types(qk.dtype, torch.float32)
    flat, values = (x.flatten(0, 2).to(wide) for x in (qk, v))  # (b * h * n, d)
    together = _together(qk.shape[2], n_buckets, size) if causal else None
    chunks = Chunks.sort(buckets.flatten(0, 1), real, size, together)
    return attend_in_chunks(flat, values, chunks, scale).to(v.dtype).view(v.shape)


def lsh_mask(
    buckets: Int64[Tensor, "b h n_hashes n"],
    *,
    chunk_size: int,
    causal: bool = False,
    key_padding: Bool[Tensor, "b n"] | None = None,
) -> Bool[Tensor, "b h n n"]:
    """Which keys each query finds in the rounds together: P_i of `lsh_attention`, as a matrix.

    Costs O(n²): for pictures, counts and tests.

    Example:
        >>> buckets = torch.tensor([[[[0, 1, 0, 1, 0]]]])
        >>> lsh_mask(buckets, chunk_size=3, causal=True)[0, 0].int()
        tensor([[1, 0, 0, 0, 0],
                [0, 1, 0, 0, 0],
                [1, 0, 0, 0, 0],
                [0, 1, 0, 0, 0],
                [1, 0, 1, 0, 0]], dtype=torch.int32)
    """
    (chunk_size,) = whole_numbers(chunk_size=chunk_size)
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be 1 token or more, got {chunk_size}")
    n = buckets.shape[-1]
    if key_padding is not None:
        check_padding(key_padding, (len(buckets), n), buckets.device)
    real = _real(key_padding, buckets)
    order = buckets.argsort(dim=-1, stable=True)
    if key_padding is not None and buckets.numel():  # tokens that are not real are sorted last
        last = torch.where(real[:, :, None], buckets, buckets.max() + 1)
        order = last.argsort(dim=-1, stable=True)
    place = order.argsort(dim=-1)  # of each token, in each round
    if causal:
        back = place[..., :, None] - place[..., None, :]
        in_sight = (back >= 0) & (back <= chunk_size)
    else:
        chunk = place // chunk_size
        back = chunk[..., :, None] - chunk[..., None, :]
        in_sight = (back == 0) | (back == 1)
    found = (buckets[..., :, None] == buckets[..., None, :]) & in_sight
    found = found.any(dim=2) & real[..., None, :] & real[..., :, None]  # (b, h, n, n)
    itself = torch.eye(n, dtype=torch.bool, device=buckets.device)
    found &= ~itself
    if causal:
        found &= torch.ones_like(itself).tril()
    alone = real & ~found.any(dim=-1)
    return found | (itself & alone[..., None])


class LSHRouter(Router):
    """LSH attention in place of a pattern. Its keys are the queries; the layer's own are unused.

    Args:
        n_buckets: an even number, or 1.
        n_hashes: rounds.
        causal: whether a query finds only earlier tokens.
        seed: of the hash functions.
        chunk_size: sorted tokens in a chunk; 2 * n / n_buckets if not given. That grows with n, so
            that a text that goes on reads its beginning anew, with wider chunks: where sequences
            of several lengths must agree, as in generation, give one size for all.

    Raises:
        ValueError: if a number is out of range.
        TypeError: if a number is no whole one.

    Source:
        `lsh_attention`.

    Example:
        >>> from tinyattn import MultiHeadAttention
        >>> layer = MultiHeadAttention(8, 2, pattern=LSHRouter(n_buckets=4, n_hashes=2))
        >>> layer(torch.randn(1, 50, 8)).shape
        torch.Size([1, 50, 8])
    """

    def __init__(
        self,
        n_buckets: int,
        n_hashes: int = 1,
        *,
        causal: bool = False,
        seed: int = 0,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__()
        n_buckets, n_hashes = whole_numbers(n_buckets=n_buckets, n_hashes=n_hashes)
        seed = whole_seed(seed)
        if chunk_size is not None:
            (chunk_size,) = whole_numbers(chunk_size=chunk_size)
        check_chunks(0, n_buckets, chunk_size)
        if n_hashes < 1:
            raise ValueError(f"n_hashes must be 1 round or more, got {n_hashes}")
        self.n_buckets, self.n_hashes, self.chunk_size = n_buckets, n_hashes, chunk_size
        self.causal, self.seed = causal, seed

    def check(self, n_heads: int, d_head: int) -> None:
        bucket_factors(self.n_buckets, d_head)

    def buckets(self, q: Float[Tensor, "b h n d_head"]) -> Int64[Tensor, "b h n_hashes n"]:
        """The bucket of each query in each round."""
        numbers = {"n_buckets": self.n_buckets, "n_hashes": self.n_hashes, "seed": self.seed}
        return lsh_buckets(q, **numbers)

    def attend(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        v: Float[Tensor, "b h n d_v"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n d_v"]:
        """`lsh_attention` of q and v; k is not read."""
        return lsh_attention(
            q,
            v,
            n_buckets=self.n_buckets,
            n_hashes=self.n_hashes,
            causal=self.causal,
            seed=self.seed,
            scale=scale,
            chunk_size=self.chunk_size,
            key_padding=key_padding,
        )

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        """All n² weights; those of the keys that `lsh_mask` says are found."""
        size = check_chunks(q.shape[2], self.n_buckets, self.chunk_size)
        mask = lsh_mask(
            self.buckets(q), chunk_size=size, causal=self.causal, key_padding=key_padding
        )
        wide = q.to(torch.promote_types(q.dtype, torch.float32))  # float16 has no 1e-12
        keys = F.normalize(wide, dim=-1).to(q.dtype)
        return attention_weights(q, keys, mask, scale=scale)

    def extra_repr(self) -> str:
        return f"n_buckets={self.n_buckets}, n_hashes={self.n_hashes}, causal={self.causal}"


def check_chunks(n: int, n_buckets: int, chunk_size: int | None) -> int:
    """The chunk size for n tokens: the one given, or two average buckets."""
    (n_buckets,) = whole_numbers(n_buckets=n_buckets)
    if n_buckets != 1 and (n_buckets < 2 or n_buckets % 2):
        raise ValueError(f"n_buckets must be even (each axis has two ends), or 1, got {n_buckets}")
    if chunk_size is None:
        return max(1, min(n, math.ceil(2 * n / n_buckets)))
    (chunk_size,) = whole_numbers(chunk_size=chunk_size)
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be 1 token or more, got {chunk_size}")
    return max(1, min(n, chunk_size))


def _together(n: int, n_buckets: int, size: int) -> int:
    """Queries of a causal chunk: few beside an average bucket, whose last chunk is filled up.

    Not fewer than 8, since products of smaller matrices take as long.
    """
    return min(size, max(8, min(math.ceil(size / 4), math.ceil(n / (2 * n_buckets)))))


def _check_buckets(buckets: Tensor, qk: Tensor) -> None:
    check_tensors(buckets=buckets)
    b, h, n, _ = qk.shape
    if buckets.dtype != torch.long:
        raise TypeError(f"buckets must be int64, got {buckets.dtype}")
    fits = buckets.dim() == 4 and buckets.shape[:2] == (b, h) and buckets.shape[3] == n
    if not fits or not buckets.shape[2]:
        raise ValueError(
            f"buckets must be (b, h, n_hashes, n) = ({b}, {h}, 1 or more, {n}), "
            f"got {tuple(buckets.shape)}"
        )
    if buckets.numel() and int(buckets.min()) < 0:
        raise ValueError(f"buckets are numbered from 0, got {int(buckets.min())}")


def _real(key_padding: Tensor | None, like: Tensor) -> Tensor:
    """True where a token is real, (b, h, n)."""
    b, h = like.shape[:2]
    n = like.shape[-1] if not like.is_floating_point() else like.shape[2]
    if key_padding is None:
        return torch.ones(b, h, n, dtype=torch.bool, device=like.device)
    return key_padding[:, None].expand(b, h, n)
