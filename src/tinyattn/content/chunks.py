"""Attention in chunks of a sequence sorted by bucket, over several rounds of sorting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

SCORES_AT_ONCE = 2**19  # so that they stay in the processor's cache
SAFE = 40.0  # exp of scores up to that size, and sums of them, lose nothing in float32


@dataclass(frozen=True)
class Chunks:
    """The tokens of all rows (one for each sequence and head), sorted by bucket in every round.

    A chunk of m sorted tokens reads itself and the chunk before it, and in them the tokens of
    its own bucket. In front stands one chunk of nobody, for the first one to look back at.

    Args:
        order: the token at each sorted place.
        bucket: the bucket there, told apart from the same bucket of the row before; a token that
            is not real has one of its own, below zero.
        cell: for each token, where its round puts it: 1 more in the next chunk of one bucket,
            2 or more further in another bucket.
        size: m.
        causal: whether a token reads only earlier ones.
    """

    order: Int64[Tensor, "n_hashes n_places"]
    bucket: Integer[Tensor, "n_hashes n_places"]
    cell: Integer[Tensor, "n_hashes n_tokens"]
    size: int
    causal: bool

    @classmethod
    def sort(
        cls,
        buckets: Int64[Tensor, "n_rows n_hashes n"],
        real: Bool[Tensor, "n_rows n"],
        size: int,
        causal: bool,
    ) -> Chunks:
        """Sort each row by (bucket, position); tokens that are not real come last."""
        n_rows, n_hashes, n = buckets.shape
        nowhere = int(buckets.max()) + 1
        buckets = buckets.masked_fill(~real[:, None], nowhere)
        buckets = F.pad(buckets, (0, -n % size), value=nowhere)  # places that no token takes
        bucket, order = buckets.sort(dim=-1, stable=True)  # (n_rows, n_hashes, places)

        place = torch.arange(bucket.shape[-1], device=bucket.device)
        another = F.pad(bucket.diff(dim=-1) != 0, (1, 0), value=True)
        step = torch.where(another, 2, (place % size == 0).long())
        cell = torch.empty_like(order).scatter_(-1, order, step.cumsum(dim=-1))[..., :n]

        row = torch.arange(n_rows, device=bucket.device)[:, None, None]
        own = bucket + row % 2 * (nowhere + 1)
        bucket = torch.where(bucket == nowhere, _alone(row * len(place) + place, size), own)
        order = order.clamp_(max=n - 1) + row * n
        order, bucket, cell = (x.transpose(0, 1).flatten(1) for x in (order, bucket, cell))
        nobody = _alone(place[:size] - size, size).expand(n_hashes, -1)
        largest = 2 * (nowhere + 2) + n // size + 2 * size  # difference of two of these numbers
        narrow = torch.int16 if largest < 2**15 else torch.int32
        return cls(
            order=F.pad(order, (size, 0)),
            bucket=torch.cat([nobody, bucket], dim=-1).to(narrow),
            cell=cell.to(narrow),
            size=size,
            causal=causal,
        )

    def pieces(self) -> Iterator[_Piece]:
        """A few chunks of one round at a time."""
        n_chunks = self.order.shape[1] // self.size - 1
        at_once = max(1, SCORES_AT_ONCE // (2 * self.size**2))
        for hashing in range(len(self.order)):
            for first in range(0, n_chunks, at_once):
                yield _Piece(self, hashing, first, min(first + at_once, n_chunks))


def _alone(place: Tensor, size: int) -> Tensor:
    """A bucket below zero that no other place in reach has: a chunk reads 2 * size places."""
    return -1 - place % (2 * size)


class _Piece:
    """Chunks first … last - 1 of a round: their tokens, and those they look back at."""

    def __init__(self, chunks: Chunks, hashing: int, first: int, last: int) -> None:
        self.chunks, self.hashing = chunks, hashing
        self.places = slice(first * chunks.size, (last + 1) * chunks.size)
        self.read = chunks.order[hashing, self.places]  # tokens that are read
        self.ask = self.read[chunks.size :]  # tokens that ask

    def queries(self, x: Tensor) -> Tensor:
        """Rows of x (n_tokens, d) for those that ask, (n_chunks, m, d)."""
        return x.index_select(0, self.ask).view(-1, self.chunks.size, x.shape[1])

    def keys(self, x: Tensor) -> Tensor:
        """Rows of x for those that are read, transposed: an overlapping view (n_chunks, d, 2m)."""
        return self._windows(x.index_select(0, self.read))

    def add_to_queries(self, x: Tensor, rows: Tensor) -> None:
        x.index_add_(0, self.ask, rows.flatten(0, 1))

    def add_to_keys(self, x: Tensor, rows: Tensor) -> None:
        """Add rows (n_chunks, 2m, d) to x; each token stands in two windows."""
        m = self.chunks.size
        both = F.pad(rows[:, m:], (0, 0, 0, 0, 1, 0))
        both[:-1] += rows[:, :m]
        x.index_add_(0, self.read, both.flatten(0, 1))

    def weights(self, q: Tensor, k: Tensor, top: Tensor | None) -> Tensor:
        """exp(score) of every allowed pair and zero elsewhere, (n_chunks, m, 2m).

        Comparisons into bool are slow on a processor; differences of small integers are not.
        """
        scores = torch.bmm(self.queries(q), self.keys(k))
        if top is not None:  # what is forbidden may be larger, and must not overflow
            scores = scores.sub_(self.queries(top)).clamp_(max=0)
        return scores.exp_().mul_(self._allowed().to(scores.dtype))

    def largest(self, q: Tensor, k: Tensor, least: float) -> Tensor:
        """Largest score of each that asks among its allowed pairs, (n_chunks, m, 1)."""
        scores = torch.bmm(self.queries(q), self.keys(k))
        return scores.masked_fill_(self._allowed() == 0, least).amax(dim=-1, keepdim=True)

    def _allowed(self) -> Tensor:
        """1 where a pair shares its bucket here and was not found in an earlier round, else 0."""
        m = self.chunks.size
        bucket = self.chunks.bucket[self.hashing, self.places]
        elsewhere = self._differences(bucket).abs_().clamp_(max=1)  # 0 in the same bucket
        allowed = _readable(m, self.chunks.causal).to(bucket) - elsewhere
        for cell in self.chunks.cell[: self.hashing]:
            # a round finds those 0 or 1 cells ahead of the key; half of these, rounded down, is 0
            apart = self._differences(cell.index_select(0, self.read)).bitwise_right_shift_(1)
            allowed = torch.minimum(allowed, apart.abs_())
        return allowed.clamp_(min=0)

    def _differences(self, x: Tensor) -> Tensor:
        """What asks minus what is read, (n_chunks, m, 2m)."""
        m = self.chunks.size
        return x[m:].view(-1, m, 1) - self._windows(x[:, None])

    def _windows(self, rows: Tensor) -> Tensor:
        return rows.unfold(0, 2 * self.chunks.size, self.chunks.size)


def _readable(m: int, causal: bool) -> Tensor:
    """Within a chunk and the one before: not oneself, and sorted earlier if causal, (m, 2m)."""
    ask, read = torch.arange(m, 2 * m)[:, None], torch.arange(2 * m)
    return read < ask if causal else read != ask


def attend_in_chunks(
    q: Float[Tensor, "n_tokens d_head"],
    k: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_v"],
    chunks: Chunks,
) -> tuple[Float[Tensor, "n_tokens d_v"], Bool[Tensor, "n_tokens 1"]]:
    """One softmax over all keys that the rounds find, each counted once; and who found none.

    Costs O(n_hashes * n_tokens * m) time and O(n_hashes * n_tokens) memory, also backward.

    Args:
        q: queries, scaled: a score is their product with a key.
        k: keys, at most of unit length.
        v: values.
        chunks: who may read whom.
    """
    return _InChunks.apply(q, k, v, chunks)


class _InChunks(torch.autograd.Function):
    """Sums of exp(score) v and of exp(score) over all pieces, divided at the end.

    A key is a unit vector at most, so that no score exceeds its query's length: where that is
    safe, exp needs no maximum to be subtracted, and rounds are added up instead of merged.
    """

    @staticmethod
    def forward(ctx, q, k, v, chunks):
        with torch.autocast(q.device.type, enabled=False):
            top = _top(q, k, chunks)
            out, total = torch.zeros_like(v), q.new_zeros(len(q), 1)
            for piece in chunks.pieces():
                weights = piece.weights(q, k, top)
                piece.add_to_queries(out, weights @ piece.keys(v).transpose(1, 2))
                piece.add_to_queries(total, weights.sum(dim=-1, keepdim=True))
        found_none = total == 0
        total.masked_fill_(found_none, 1)
        out /= total
        ctx.save_for_backward(q, k, v, out, total, top)
        ctx.chunks = chunks
        ctx.mark_non_differentiable(found_none)
        return out, found_none

    @staticmethod
    def backward(ctx, d_out, _):
        if torch.is_grad_enabled():  # create_graph=True
            raise NotImplementedError("attention in chunks has no second derivatives")
        q, k, v, out, total, top = ctx.saved_tensors
        d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        with torch.autocast(q.device.type, enabled=False):
            d_out = d_out / total
            correction = (d_out * out).sum(dim=-1, keepdim=True)
            for piece in ctx.chunks.pieces():
                weights, d_rows = piece.weights(q, k, top), piece.queries(d_out)
                piece.add_to_keys(d_v, weights.transpose(1, 2) @ d_rows)
                d_scores = d_rows @ piece.keys(v)
                d_scores.sub_(piece.queries(correction)).mul_(weights)
                piece.add_to_queries(d_q, d_scores @ piece.keys(k).transpose(1, 2))
                piece.add_to_keys(d_k, d_scores.transpose(1, 2) @ piece.queries(q))
        return d_q, d_k, d_v, None


def _top(q: Tensor, k: Tensor, chunks: Chunks) -> Tensor | None:
    """The largest score of each query, or None if all scores are safe without it."""
    bound = float(q.norm(dim=-1).max())
    if bound <= SAFE:
        return None
    top = q.new_full((len(q), 1), -bound)
    for piece in chunks.pieces():
        found = piece.largest(q, k, -bound).flatten(0, 1)
        top.scatter_reduce_(0, piece.ask[:, None], found, "amax")
    return top
