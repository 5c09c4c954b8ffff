"""Attention in chunks of a sequence sorted by bucket, over several rounds of sorting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from tinyattn.checks import first_derivatives_only

SCORES_AT_ONCE = 2**19  # so that they stay in the processor's cache
SAFE = 40.0  # exp of scores up to that size, and sums of them, lose nothing in float32
SHORTEST = 1e-12  # length that a vector has at least, where it is divided by


@dataclass(frozen=True)
class Chunks:
    """The tokens of all rows (one for each sequence and head), sorted by bucket in every round.

    A chunk of sorted places reads itself and those before it, its window, and in it the tokens of
    its own bucket. In front stand places of nobody, for the first chunk to look back at.

    In both directions each row is cut into chunks of m, and a window is two of them. Where a
    bucket is cut then depends on how many tokens, later ones too, are in buckets before it. So if
    causal, each bucket begins a chunk, and places of nobody fill up its last one: where a token
    stands in its chunk, and the tokens before it in its window, depends on earlier tokens alone.
    It reads the m sorted before it, and sums them in an order that no later token can change.

    Args:
        order: the token at each sorted place, some token at those of nobody.
        here: a number for each place. What is 0 or 1 more stands in the same bucket and in the
            same chunk or the next one. If causal, what is up to m more stands in the same bucket.
        cell: the same for each token, from the start of its row.
        real: whether a token is.
        size: m.
        together: places in a chunk.
        causal: whether a token reads only earlier ones.
    """

    order: Int64[Tensor, "n_hashes n_places"]
    here: Integer[Tensor, "n_hashes n_places"]
    cell: Integer[Tensor, "n_hashes n_tokens"]
    real: Bool[Tensor, "n_tokens"]
    size: int
    together: int
    causal: bool

    @classmethod
    def sort(
        cls,
        buckets: Int64[Tensor, "n_rows n_hashes n"],
        real: Bool[Tensor, "n_rows n"],
        size: int,
        together: int | None = None,
    ) -> Chunks:
        """Sort each row by (bucket, position); tokens that are not real come last.

        Causal if `together` is given: chunks then have that many places, and not m.
        """
        causal, together = together is not None, together or size
        n_rows, n_hashes, n = buckets.shape
        nowhere = int(buckets.max()) + 1
        buckets = buckets.masked_fill(~real[:, None], nowhere).transpose(0, 1)
        bucket, order = buckets.sort(dim=-1, stable=True)  # (n_hashes, n_rows, n)

        first = F.pad(bucket.diff(dim=-1) != 0, (1, 0), value=True)  # of its bucket
        another = first | (bucket == nowhere)
        nth = torch.arange(n, device=bucket.device).expand_as(bucket)  # in its row
        if causal:
            nth = nth - torch.where(first, nth, 0).cummax(dim=-1).values  # in its bucket
            step, far = torch.where(another, size + 1, 1), size + 1
        else:
            step, far = torch.where(another, 2, (nth % size == 0).long()), 2
        cell = torch.empty_like(order).scatter_(-1, order, step.cumsum(dim=-1)).flatten(1)

        nth = (nth % together).flatten(1)  # in its chunk
        chunk = (nth == 0).cumsum(dim=-1)
        back = together * -(-size // together)
        place = (chunk - 1) * together + nth + back
        nobody = torch.zeros(n_hashes, back + together * int(chunk.max()), dtype=torch.int64)
        nobody = nobody.to(order.device)
        row = torch.arange(n_rows, device=order.device)[:, None]
        here = (nobody + far).scatter_(1, place, step.flatten(1)).cumsum(dim=-1)
        # These numbers may go round in 16 bits, those within a window of each other once.
        widest = max(int(cell.max()), far * (back + together)) if n else 0
        narrow = torch.int16 if widest < 2**16 - 2 * size else torch.int32
        return cls(
            order=nobody.scatter_(1, place, (order + row * n).flatten(1)),
            here=here.to(narrow),
            cell=cell.to(narrow),
            real=real.flatten(),
            size=size,
            together=together,
            causal=causal,
        )

    @property
    def window(self) -> int:
        """Places that a chunk reads: its own, and whole chunks of m places or more before it."""
        return self.together * (1 + -(-self.size // self.together))

    def pieces(self) -> Iterator[_Piece]:
        """A few chunks of one round at a time."""
        n_chunks = (self.order.shape[1] - self.window) // self.together + 1
        at_once = max(1, SCORES_AT_ONCE // (self.together * self.window))
        for hashing in range(len(self.order)):
            for first in range(0, n_chunks, at_once):
                yield _Piece(self, hashing, first, min(first + at_once, n_chunks))


class _Piece:
    """Chunks first … last - 1 of a round: their tokens, and those they look back at."""

    def __init__(self, chunks: Chunks, hashing: int, first: int, last: int) -> None:
        self.chunks, self.hashing = chunks, hashing
        self.back = chunks.window - chunks.together  # places that a chunk looks back at
        self.places = slice(first * chunks.together, last * chunks.together + self.back)
        self.read = chunks.order[hashing, self.places]  # tokens that are read
        self.ask = self.read[self.back :]  # tokens that ask

    def rows_read(self, x: Tensor) -> Tensor:
        """Rows of x (n_tokens, d) in sorted order."""
        return x.index_select(0, self.read)

    def asking(self, rows: Tensor) -> Tensor:
        """Of the rows read those that ask, (n_chunks, together, d)."""
        return rows[self.back :].view(-1, self.chunks.together, rows.shape[1])

    def rows_asking(self, x: Tensor) -> Tensor:
        return x.index_select(0, self.ask).view(-1, self.chunks.together, x.shape[1])

    def windows(self, rows: Tensor) -> Tensor:
        """What each chunk reads, transposed: an overlapping view (n_chunks, d, window)."""
        return rows.unfold(0, self.chunks.window, self.chunks.together)

    def sum_of_windows(self, windows: Tensor) -> Tensor:
        """Add up windows (n_chunks, window, d): most rows stand in several."""
        parts = windows.unflatten(1, (-1, self.chunks.together))
        rows = F.pad(parts[:, -1], (0, 0, 0, 0, parts.shape[1] - 1, 0))
        for chunk in range(parts.shape[1] - 1):
            rows[chunk : chunk + len(parts)] += parts[:, chunk]
        return rows.flatten(0, 1)

    def add_asking(self, x: Tensor, rows: Tensor) -> None:
        x.index_add_(0, self.ask, rows.flatten(0, 1))

    def add_read(self, x: Tensor, rows: Tensor) -> None:
        x.index_add_(0, self.read, rows)

    def weights(self, q: Tensor, k: Tensor, top: Tensor | None) -> Tensor:
        """exp(score) of every allowed pair and zero elsewhere, (n_chunks, together, window).

        Comparisons into bool are slow on a processor; differences of small integers are not.
        """
        scores = torch.bmm(q, k)
        if top is not None:  # what is forbidden may be larger, and must not overflow
            scores = scores.sub_(self.rows_asking(top)).clamp_(max=SAFE)
        return scores.exp_().mul_(self._allowed().to(scores.dtype))

    def largest(self, q: Tensor, k: Tensor, least: float) -> Tensor:
        """Largest score of each that asks among its allowed pairs, (n_chunks, together, 1)."""
        scores = torch.bmm(q, k).masked_fill_(self._allowed() == 0, least)
        return scores.amax(dim=-1, keepdim=True)

    def _allowed(self) -> Tensor:
        """1 where a pair shares its bucket here and was not found in an earlier round, else 0."""
        most = self.chunks.size if self.chunks.causal else 1  # ahead of the key, where found
        found = self._ahead(self.chunks.here[self.hashing, self.places])
        most += torch.iinfo(found.dtype).min
        allowed = found.clamp_(most, most + 1).neg_().add_(most + 1)  # 1 where found
        allowed.diagonal(self.back, 1, 2).zero_()  # oneself
        earlier = None
        for cell in self.chunks.cell[: self.hashing]:
            ahead = self._ahead(cell.index_select(0, self.read))
            earlier = ahead if earlier is None else torch.minimum(earlier, ahead, out=earlier)
        return (
            allowed if earlier is None else allowed.mul_(earlier.clamp_(most, most + 1).sub_(most))
        )

    def _ahead(self, x: Tensor) -> Tensor:
        """What asks minus what is read, (n_chunks, together, window), counted from the lowest
        number of the type: as numbers go round, what is less comes out as far more.
        """
        ask = x[self.back :].view(-1, self.chunks.together, 1) + torch.iinfo(x.dtype).min
        return ask - self.windows(x[:, None])


def attend_in_chunks(
    x: Float[Tensor, "n_tokens d_head"],
    v: Float[Tensor, "n_tokens d_v"],
    chunks: Chunks,
    scale: float,
) -> Float[Tensor, "n_tokens d_v"]:
    """One softmax of scale * x_i · x_j / |x_j| over all keys that the rounds find, each once.

    A real token that finds nobody gets its own value, one that is not real zeros. Costs
    O(n_hashes * n_tokens * m) time and O(n_hashes * n_tokens) memory, also backward.
    """
    return _InChunks.apply(x, v, chunks, scale)


class _InChunks(torch.autograd.Function):
    """Sums of exp(score) v and of exp(score) over all pieces, divided at the end.

    A key has unit length, so that no score exceeds its query's times the scale: where that is
    safe, exp needs no maximum to be subtracted, and rounds are added up instead of merged.
    """

    @staticmethod
    def forward(ctx, x, v, chunks, scale):
        length = x.norm(dim=-1, keepdim=True).clamp_(min=SHORTEST)
        out, total = torch.zeros_like(v), torch.zeros_like(length)
        with torch.autocast(x.device.type, enabled=False):
            top = _top(x, length, chunks, scale)
            for piece in chunks.pieces():
                weights = piece.weights(*_queries_and_keys(piece, x, length, scale), top)
                values = piece.windows(piece.rows_read(v))
                piece.add_asking(out, weights @ values.transpose(1, 2))
                piece.add_asking(total, weights.sum(dim=-1, keepdim=True))
        found_none = total[:, 0] == 0
        total.masked_fill_(found_none[:, None], 1)
        out /= total
        alone = (found_none & chunks.real).nonzero()[:, 0]
        out[alone] = v[alone]
        ctx.save_for_backward(x, v, length, out, total, top, alone)
        ctx.chunks, ctx.scale = chunks, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        first_derivatives_only("lsh_attention", "attention with unit keys under lsh_mask")
        x, v, length, out, total, top, alone = ctx.saved_tensors
        d_x, d_v = torch.zeros_like(x), torch.zeros_like(v)
        with torch.autocast(x.device.type, enabled=False):
            d_out = d_out / total
            correction = (d_out * out).sum(dim=-1, keepdim=True)
            d_v[alone] = d_out[alone]
            for piece in ctx.chunks.pieces():
                q, k = _queries_and_keys(piece, x, length, ctx.scale)
                weights, d_rows = piece.weights(q, k, top), piece.rows_asking(d_out)
                piece.add_read(d_v, piece.sum_of_windows(weights.transpose(1, 2) @ d_rows))
                d_scores = d_rows @ piece.windows(piece.rows_read(v))
                d_scores.sub_(piece.rows_asking(correction)).mul_(weights)
                d_k = piece.sum_of_windows(d_scores.transpose(1, 2) @ q)
                rows = _through_length(d_k, piece.rows_read(x), piece.rows_read(length), ctx.scale)
                piece.asking(rows).add_(d_scores @ k.transpose(1, 2))
                piece.add_read(d_x, rows)
        return d_x, d_v, None, None


def _queries_and_keys(
    piece: _Piece, x: Tensor, length: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """x_i of those that ask, and scale * x_j / |x_j| of those that are read."""
    rows = piece.rows_read(x)
    return piece.asking(rows), piece.windows(rows * (scale / piece.rows_read(length)))


def _through_length(d_k: Tensor, x: Tensor, length: Tensor, scale: float) -> Tensor:
    """Gradient for x of k = scale * x / |x|: what of d_k is at right angles to x, over |x|."""
    unit = x / length
    along = (d_k * unit).sum(dim=-1, keepdim=True)
    return torch.addcmul(d_k, unit, along, value=-1).mul_(scale / length)


def _top(x: Tensor, length: Tensor, chunks: Chunks, scale: float) -> Tensor | None:
    """What to subtract from a query's scores: 0 if they are safe without it, or else the largest.

    None if all are safe. A query's own length decides, and no other token.
    """
    bound = abs(scale) * length
    if float(bound.max()) <= SAFE:
        return None
    top = (-bound.max()).expand_as(bound).contiguous()
    for piece in chunks.pieces():
        found = piece.largest(*_queries_and_keys(piece, x, length, scale), float(-bound.max()))
        top.scatter_reduce_(0, piece.ask[:, None], found.flatten(0, 1), "amax")
    return top.masked_fill_(bound <= SAFE, 0.0)
