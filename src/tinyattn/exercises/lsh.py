"""Exercises to chapter 10: hash, meet, sort, cut, look back, and join the rounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.content import lsh_mask
from tinyattn.exercises.base import ONE_MAXIMUM, Exercise, Mistake, Verdict, of_function
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned, whole_list


def _both_ends(x: Tensor, rotation: Tensor) -> Tensor:
    along = x @ rotation
    return torch.cat([along, -along], dim=-1)


def _hash(answer: Any, generator: Generator) -> Verdict:
    mistakes = [
        Mistake(
            "only one end of each direction counts: [xR; -xR] has twice as many entries",
            lambda x, r: (x @ r).argmax(-1),
        ),
        Mistake(
            "the two ends of a direction share a number in yours; opposite vectors must not meet",
            lambda x, r: (x @ r).abs().argmax(-1),
        ),
        Mistake(
            "the negative ends come second: h(x) below b / 2 means along a direction",
            lambda x, r: _both_ends(-x, r).argmax(-1),
        ),
        Mistake(
            "each direction and its opposite stand side by side; first come all of xR",
            lambda x, r: torch.stack([x @ r, -(x @ r)], -1).flatten(-2).argmax(-1),
        ),
        Mistake("that is the product itself, the bucket is its place", lambda x, r: x @ r),
        Mistake(
            "that is the largest product, the bucket is its place",
            lambda x, r: _both_ends(x, r).amax(-1),
        ),
        Mistake(
            "the maximum runs over the vectors; each vector has a bucket of its own",
            lambda x, r: _both_ends(x, r).argmax(0),
        ),
    ]
    cases = []
    for n, d_head, n_buckets in ((12, 3, 4), (7, 5, 8), (9, 2, 2), (20, 4, 6)):
        x = torch.randn(n, d_head, generator=generator)
        cases.append((x, torch.randn(d_head, n_buckets // 2, generator=generator)))
    return of_function(
        answer, lambda x, rotation: _both_ends(x, rotation).argmax(-1), cases, mistakes
    )


def _together(degrees: int, n_buckets: int) -> float:
    """The probability that two vectors share one of 2 or 4 buckets."""
    return (1 - degrees / 180) ** (n_buckets // 2)


def _meet(answer: Any, generator: Generator) -> Verdict:
    """Measured by the answer, so compared with what theory says, a few hundredths apart at most."""
    mistakes = [
        Mistake(
            "the two vectors are hashed with different directions; one draw serves both",
            lambda degrees, b: 1 / b,
        ),
        Mistake(
            "you drew n_buckets directions; each of them has two ends, so half as many are needed",
            lambda degrees, b: _together(degrees, 4) if b == 2 else _eight_buckets(degrees),
        ),
        Mistake(
            "that is the cosine; a random border falls between the two with probability θ / π",
            lambda degrees, b: math.cos(math.radians(degrees)),
        ),
        Mistake("that is how often they are parted", lambda degrees, b: 1 - _together(degrees, b)),
    ]
    cases = [(60, 4), (45, 2), (120, 4)]
    cases.append((int(torch.randint(20, 80, (), generator=generator)), 2))
    return of_function(answer, _together, cases, mistakes, tolerance=0.02)


def _eight_buckets(degrees: int) -> float:
    """As `_together`, with four directions: simulated, as there is no short formula."""
    directions = torch.randn(40_000, 4, 2, generator=torch.Generator().manual_seed(0))
    turn = math.radians(degrees)
    pair = torch.tensor([[1.0, 0.0], [math.cos(turn), math.sin(turn)]])
    first, second = torch.cat([directions, -directions], dim=1).matmul(pair.T).argmax(1).T
    return float((first == second).float().mean())


def _rounds(answer: Any, generator: Generator) -> Verdict:
    def rounds(degrees: int, n_buckets: int, wish: float) -> int:
        p, r = _together(degrees, n_buckets), 1
        while 1 - (1 - p) ** r < wish:
            r += 1
        return r

    def ratio(degrees: int, b: int, wish: float) -> float:
        return math.log(1 - wish) / math.log(1 - _together(degrees, b))

    mistakes = [
        Mistake(
            "that is one round too few: the wish is met by the next whole number",
            lambda degrees, b, wish: math.floor(ratio(degrees, b, wish)),
        ),
        Mistake("rounds come whole: round up", ratio),
        Mistake(
            "chances do not add up: two rounds at 0.4 make 0.64, not 0.8",
            lambda degrees, b, wish: math.ceil(wish / _together(degrees, b)),
        ),
        Mistake(
            "1 - wish is the probability that all rounds miss; yours lets all of them meet",
            lambda degrees, b, wish: math.ceil(
                math.log(1 - wish) / math.log(_together(degrees, b))
            ),
        ),
        Mistake(
            "with four buckets two borders must miss: the probability is squared",
            lambda degrees, b, wish: math.ceil(ratio(degrees, 2, wish)),
        ),
        Mistake(
            "with two buckets there is one border; nothing is squared",
            lambda degrees, b, wish: math.ceil(ratio(degrees, 4, wish)),
        ),
    ]
    cases: list[Any] = [(60, 4, 0.99), (60, 2, 0.99), (90, 4, 0.5), (10, 2, 0.3)]
    for b in (2, 4, 2, 4):
        degrees = int(torch.randint(15, 110, (), generator=generator))
        cases.append(
            (degrees, b, round(float(torch.rand((), generator=generator)) * 0.3 + 0.65, 3))
        )
    return of_function(answer, rounds, cases, mistakes, tolerance=1e-9)


def _reads(buckets: list[int], chunk_size: int, causal: bool = True) -> Tensor:
    found = torch.tensor(buckets).view(1, 1, 1, -1)
    return lsh_mask(found, chunk_size=chunk_size, causal=causal)[0, 0]


def _loops(rule: Callable[..., bool], alone: bool = True) -> Callable[..., Tensor]:
    """A mask by loops over rule(same bucket, places back, chunks back, i, j, chunk_size).

    With `alone` a token reads itself if it finds nobody.
    """

    def mask(buckets: list[int], chunk_size: int) -> Tensor:
        n = len(buckets)
        place = {i: at for at, i in enumerate(sorted(range(n), key=lambda i: (buckets[i], i)))}
        reads = torch.zeros(n, n, dtype=torch.bool)
        for i, j in product(range(n), range(n)):
            same, back = buckets[i] == buckets[j], place[i] - place[j]
            chunks = place[i] // chunk_size - place[j] // chunk_size
            reads[i, j] = rule(same, back, chunks, i, j, chunk_size)
        return reads | torch.diag(alone & ~reads.any(1))

    return mask


def _chunks(answer: Any, generator: Generator) -> Verdict:
    mistakes = [
        Mistake(
            "a token reads itself though it finds others; it should only if it finds nobody",
            _loops(lambda same, back, chunks, i, j, m: same and 0 <= back <= m),
        ),
        Mistake(
            "a token that finds nobody reads itself, so that no row is empty",
            _loops(lambda same, back, chunks, i, j, m: same and 0 < back <= m, alone=False),
        ),
        Mistake(
            "by whole chunks, later tokens decide where a bucket is cut: count places from the token",
            _loops(lambda same, back, chunks, i, j, m: same and back > 0 and chunks in (0, 1)),
        ),
        Mistake(
            "only the own chunk is read: the places before it may lie in the chunk before",
            _loops(lambda same, back, chunks, i, j, m: same and back > 0 and chunks == 0),
        ),
        Mistake(
            "all of a bucket is read, however many places back",
            _loops(lambda same, back, chunks, i, j, m: same and back > 0),
        ),
        Mistake(
            "the place chunk_size back belongs to what is read",
            _loops(lambda same, back, chunks, i, j, m: same and 0 < back < m),
        ),
        Mistake(
            "tokens of other buckets that are sorted nearby are read as well",
            _loops(lambda same, back, chunks, i, j, m: 0 < back <= m and j < i),
        ),
        Mistake(
            "later tokens are read: this is a decoder",
            _loops(lambda same, back, chunks, i, j, m: same and back != 0 and abs(back) <= m),
        ),
        Mistake(
            "places are those of the sorted row, not of the text",
            _loops(lambda same, back, chunks, i, j, m: same and 0 < i - j <= m),
        ),
    ]
    cases: list[Any] = [([2, 0, 1, 0, 0, 2, 0, 0, 0, 3, 0, 2], 3)]
    for n, chunk_size, n_buckets in ((16, 4, 3), (10, 2, 2), (9, 3, 9), (11, 4, 2)):
        buckets = torch.randint(n_buckets, (n,), generator=generator).tolist()
        cases.append((buckets, chunk_size))
    return of_function(answer, _reads, cases, mistakes)


def _merged(z: Tensor, o: Tensor) -> Tensor:
    """The partial answers, each with the share of its denominator in the sum of all."""
    top = z.amax(0).clamp(min=torch.finfo(z.dtype).min)
    share = (z - top).exp()
    return (share[..., None] * o).sum(0) / share.sum(0).clamp(min=1e-30)[..., None]


def _merge(answer: Any, generator: Generator) -> Verdict:
    def overflowing(z: Tensor, o: Tensor) -> Tensor:
        return (z.exp()[..., None] * o).sum(0) / z.exp().sum(0)[..., None]

    def over_who_found(z: Tensor, o: Tensor) -> Tensor:
        found = z.isfinite().float()
        return (found[..., None] * o).sum(0) / found.sum(0).clamp(min=1)[..., None]

    def one_maximum(z: Tensor, o: Tensor) -> Tensor:
        raised = (z - z.max()).exp()
        shares = raised / raised.sum(0)
        shares = shares.masked_fill(z.isneginf().all(0), 0.0)
        return (shares[..., None] * o).sum(0)

    mistakes = [
        Mistake(
            "that is the plain average: a set with a larger sum has a larger share",
            lambda z, o: o.mean(0),
        ),
        Mistake(
            "that is the average over sets that hold somebody; their sums differ", over_who_found
        ),
        Mistake(
            "the shares are those of z itself; z is a logarithm, its exponential has the share",
            lambda z, o: (z[..., None] * o).sum(0) / z.sum(0)[..., None],
        ),
        Mistake(
            "exp(z) overflows for large z: subtract the largest z first; it cancels", overflowing
        ),
        Mistake(ONE_MAXIMUM, one_maximum),
        Mistake(
            "a query that no set answers gets NaN, as -inf minus -inf is; it should get zeros",
            lambda z, o: (z.softmax(0)[..., None] * o).sum(0),
        ),
        Mistake(
            "the shares sum to 1 over the queries; they should over the sets",
            lambda z, o: (z.softmax(-1).nan_to_num()[..., None] * o).sum(0),
        ),
        Mistake(
            "the answers are added up without dividing by the sum of the shares",
            lambda z, o: ((z - z.amax(0).clamp(min=-1e30)).exp()[..., None] * o).sum(0),
        ),
        Mistake(
            "only the set with the largest sum is kept",
            lambda z, o: o.gather(0, z.argmax(0)[None, :, None].expand(1, *o.shape[1:]))[0],
        ),
    ]
    cases = []
    for rounds, n, d_v, level in (
        (3, 5, 2, 0.0),
        (2, 4, 3, 200.0),
        (4, 3, 1, -300.0),
        (1, 2, 2, 0.0),
        (2, 4, 2, [0.0, 200.0, -300.0, 0.0]),
    ):
        z = torch.randn(rounds, n, generator=generator) + torch.tensor(level)
        o = torch.randn(rounds, n, d_v, generator=generator)
        nobody = torch.rand(rounds, n, generator=generator) < 0.3
        nobody[:, 0], nobody[:, -1], nobody[0, 1] = False, True, rounds > 1
        nobody[-1, 1:-1] = False
        cases.append((z.masked_fill(nobody, -math.inf), o.masked_fill(nobody[..., None], 0.0)))
    return of_function(answer, _merged, cases, mistakes)


def _border(answer: Any, generator: Generator) -> Verdict:
    size = int(torch.randint(3, 6, (), generator=generator))
    for n, chunk_size in ((8, 4), (3 * size, size), (4, 2)):
        given = returned(answer, n, chunk_size)
        if isinstance(given, Verdict):
            return given
        buckets = whole_list(given)
        if buckets is None or len(buckets) != n or min(buckets) < 0:
            return is_wrong(f"{n} bucket numbers of 0 or more are wanted, got {given!r}")
        here = f"for {n} tokens in chunks of {chunk_size}"
        bucket, most = Counter(buckets).most_common(1)[0]
        if most > chunk_size:
            return is_wrong(
                f"{here}: bucket {bucket} holds {most} tokens; that a bucket longer than a chunk is "
                "cut is no surprise"
            )
        same = torch.tensor(buckets)
        should = (same[:, None] == same) & ~torch.eye(n, dtype=torch.bool)
        got = _reads(buckets, chunk_size, causal=False) & ~torch.eye(n, dtype=torch.bool)
        if not should.any():
            return is_wrong(f"{here}: no two tokens share a bucket, so there is nothing to lose")
        if not (should & ~got).any():
            return is_wrong(f"{here}: no pair is lost: no bucket runs over the border of a chunk")
    return Verdict("right")


EXERCISES = (
    Exercise(
        name="lsh/hash",
        title="A bucket for each vector",
        kind="implement",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Hash vectors by the direction, up or down, that they follow most closely",
        examine=_hash,
        after="Opposite vectors get numbers that differ by half of the buckets.",
    ),
    Exercise(
        name="lsh/meet",
        title="How often two vectors meet",
        kind="measure",
        difficulty=1,
        minutes=15,
        points=3,
        goal="Measure the probability that two vectors at an angle share a bucket",
        examine=_meet,
        after="It is 1 - θ/π with two buckets and the square of that with four.",
    ),
    Exercise(
        name="lsh/rounds",
        title="Enough rounds",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=3,
        goal="Solve for the number of rounds that find a neighbour with a given probability",
        examine=_rounds,
        after="The formula agrees with counting up, for eight wishes.",
    ),
    Exercise(
        name="lsh/chunks",
        title="Sort and look back",
        kind="implement",
        difficulty=3,
        minutes=30,
        points=5,
        goal="Turn bucket numbers into the pairs that a causal Reformer reads",
        examine=_chunks,
        after="It agrees with `lsh_mask`, and nothing that comes later can change an earlier row.",
    ),
    Exercise(
        name="lsh/merge",
        title="Partial answers",
        kind="implement",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Join the softmaxes of disjoint sets of keys into one, without overflow",
        examine=_merge,
        after="The joined answers are those of one softmax over everything that was found.",
    ),
    Exercise(
        name="lsh/border",
        title="Seen one way only",
        kind="break",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Find buckets that show why looking back is not enough in both directions",
        examine=_border,
        after="No bucket is too long, and still a token does not see one that sees it.",
    ),
)
