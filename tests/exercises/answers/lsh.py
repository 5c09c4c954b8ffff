"""Answers to the exercises of chapter 10."""

import math

import torch
import torch.nn.functional as F

from tests.exercises.answers import Answers


def hash_by_loops(x, rotation):
    buckets = []
    for vector in x:
        along = [float(vector @ direction) for direction in rotation.T]
        along += [-a for a in along]
        buckets.append(along.index(max(along)))
    return buckets


def hash_by_size(x, rotation):
    along = x @ rotation
    best = along.abs().max(dim=1).indices
    down = along.gather(1, best[:, None])[:, 0] < 0
    return best + down * rotation.shape[1]


def hashable(x, rotation):
    return torch.hstack([x @ rotation, -x @ rotation])


def met(degrees, n_buckets, halve=True, shared=True, n_draws=60_000):
    turn = math.radians(degrees)
    n_axes = n_buckets // 2 if halve else n_buckets
    first = torch.randn(n_draws, n_axes, 2)
    second = first if shared else torch.randn(n_draws, n_axes, 2)
    a = first @ torch.tensor([1.0, 0.0])
    b = second @ torch.tensor([math.cos(turn), math.sin(turn)])
    return (hashed(a) == hashed(b)).float().mean()


def hashed(along):
    return torch.cat([along, -along], dim=-1).argmax(dim=-1)


def chance(degrees, n_buckets):
    return (1 - degrees / 180) ** (n_buckets / 2)


def rounds_by_counting(degrees, n_buckets, wish):
    missed, r = 1.0, 0
    while 1 - missed < wish:
        missed *= 1 - chance(degrees, n_buckets)
        r += 1
    return r


def rounds_by_logs(degrees, n_buckets, wish):
    return math.ceil(math.log(1 - wish, 1 - chance(degrees, n_buckets)))


def chunked(chunks=None, back=True, bucket=True, causal=True, itself=False, alone=True, less=0):
    """The mask with faults by choice, from a sort and two comparisons."""

    def answer(buckets, chunk_size):
        number = torch.tensor(buckets)
        order = torch.argsort(number, stable=True)
        place = torch.argsort(order)
        apart = place[:, None] - place
        if chunks:
            chunk = place // chunk_size
            seen = torch.isin(chunk[:, None] - chunk, torch.tensor(chunks))
        else:
            seen = apart.abs() <= chunk_size - less if back else torch.ones_like(apart) > 0
        if bucket:
            seen &= number[:, None] == number
        i = torch.arange(len(buckets))
        if causal:
            seen &= (i <= i[:, None]) & (apart >= 0)
        if not itself:
            seen &= i != i[:, None]
        if alone:
            lonely = ~seen.any(dim=1)
            seen[lonely, lonely.nonzero()[:, 0]] = True
        return seen

    return answer


def chunked_by_text(buckets, chunk_size):
    n = len(buckets)
    rows = []
    for i in range(n):
        near = range(max(0, i - chunk_size), i)
        keys = [j for j in near if buckets[j] == buckets[i]] or [i]
        rows.append([j in keys for j in range(n)])
    return torch.tensor(rows)


def chunked_by_buckets(buckets, chunk_size):
    """The last few earlier members of the own bucket: these are the places before it."""
    mask = torch.zeros(len(buckets), len(buckets), dtype=torch.bool)
    for i, bucket in enumerate(buckets):
        earlier = [j for j in range(i) if buckets[j] == bucket]
        mask[i, earlier[-chunk_size:] or [i]] = True
    return mask


def merge_by_logsumexp(z, o):
    whole = torch.logsumexp(z, dim=0)
    share = torch.where(z == -math.inf, 0.0, torch.exp(z - whole))
    return torch.einsum("tn,tnd->nd", share, o)


def one_top_for_all(z, o):
    a = torch.exp(z - z.max())
    sums = a.sum(dim=0)
    sums[(z == -math.inf).all(dim=0)] = 1.0
    return torch.einsum("tn,tnd->nd", a / sums, o)


def merge_one_by_one(z, o):
    """Round by round, as an online softmax does."""
    top, total, out = z[0].clamp(min=-1e30), (z[0] > -math.inf).float(), o[0]
    for next_z, next_o in zip(z[1:], o[1:], strict=True):
        new_top = torch.maximum(top, next_z)
        kept, added = total * (top - new_top).exp(), (next_z - new_top).exp()
        whole = (kept + added).clamp(min=1e-20)
        out = (kept / whole)[:, None] * out + (added / whole)[:, None] * next_o
        top, total = new_top, kept + added
    return out


def over_borders(n, chunk_size):
    """Each bucket as long as a chunk, all shifted by one."""
    return [(i + 1) // chunk_size for i in range(n)]


def one_pair(n, chunk_size):
    buckets = torch.arange(n)
    buckets[chunk_size] = chunk_size - 1
    return buckets


ANSWERS = {
    "lsh/hash": Answers(
        right=(
            lambda x, rotation: torch.tensor(hash_by_loops(x, rotation)),
            hash_by_size,
        ),
        wrong=(
            ("twice as many entries", lambda x, r: torch.argmax(x.matmul(r), dim=1)),
            ("opposite vectors", lambda x, r: torch.argmax((x @ r) ** 2, dim=1)),
            ("come second", lambda x, r: torch.hstack([-x @ r, x @ r]).argmax(dim=1)),
            (
                "first come all of xR",
                lambda x, r: torch.stack([x @ r, -x @ r], dim=2).reshape(len(x), -1).argmax(1),
            ),
            ("the product itself", lambda x, r: x @ r),
            ("the largest product", lambda x, r: hashable(x, r).max(dim=1).values),
            ("over the vectors", lambda x, r: hashable(x, r).max(dim=0).indices),
            ("yours is", lambda x, r: hash_by_size(x, r) + 1),
        ),
    ),
    "lsh/meet": Answers(
        right=(
            met,
            lambda degrees, n_buckets: (
                (torch.rand(90_000, n_buckets // 2) > degrees / 180).all(dim=1).double().mean()
            ),
        ),
        wrong=(
            ("one draw serves both", lambda degrees, b: met(degrees, b, shared=False)),
            ("half as many are needed", lambda degrees, b: met(degrees, b, halve=False)),
            ("that is the cosine", lambda degrees, b: math.cos(math.pi * degrees / 180)),
            ("how often they are parted", lambda degrees, b: 1 - met(degrees, b)),
            ("yours is", lambda degrees, b: met(2 * degrees, b)),
        ),
    ),
    "lsh/rounds": Answers(
        right=(rounds_by_counting, rounds_by_logs),
        wrong=(
            ("one round too few", lambda *asked: rounds_by_counting(*asked) - 1),
            (
                "round up",
                lambda degrees, b, wish: math.log(1 - wish) / math.log1p(-chance(degrees, b)),
            ),
            (
                "do not add up",
                lambda degrees, b, wish: math.ceil(wish / chance(degrees, b)),
            ),
            (
                "lets all of them meet",
                lambda degrees, b, wish: math.ceil(math.log(1 - wish, chance(degrees, b))),
            ),
            ("is squared", lambda degrees, b, wish: rounds_by_counting(degrees, 2, wish)),
            ("nothing is squared", lambda degrees, b, wish: rounds_by_counting(degrees, 4, wish)),
            ("yours is", lambda *asked: rounds_by_counting(*asked) + 1),
        ),
    ),
    "lsh/chunks": Answers(
        right=(chunked(), chunked_by_buckets),
        wrong=(
            ("only if it finds nobody", chunked(itself=True)),
            ("no row is empty", chunked(alone=False)),
            ("later tokens decide", chunked(chunks=[0, 1])),
            ("only the own chunk", chunked(chunks=[0])),
            ("however many places back", chunked(back=False)),
            ("belongs to what is read", chunked(less=1)),
            ("other buckets", chunked(bucket=False)),
            ("later tokens are read", chunked(causal=False)),
            ("not of the text", chunked_by_text),
            ("the dtype", lambda buckets, size: chunked()(buckets, size).int()),
        ),
    ),
    "lsh/merge": Answers(
        right=(merge_by_logsumexp, merge_one_by_one),
        wrong=(
            ("plain average", lambda z, o: sum(o) / len(o)),
            (
                "hold somebody",
                lambda z, o: o.sum(0) / (z > -math.inf).sum(0).clamp(min=1)[:, None],
            ),
            ("those of z itself", lambda z, o: torch.einsum("tn,tnd->nd", z / z.sum(0), o)),
            ("overflows", lambda z, o: torch.einsum("tn,tnd->nd", z.exp() / z.exp().sum(0), o)),
            ("one maximum for all rows", one_top_for_all),
            ("gets NaN", lambda z, o: torch.einsum("tn,tnd->nd", F.softmax(z, 0), o)),
            (
                "over the queries",
                lambda z, o: torch.einsum("tn,tnd->nd", F.softmax(z, 1).nan_to_num(), o),
            ),
            (
                "without dividing",
                lambda z, o: torch.einsum("tn,tnd->nd", (z - z.amax(0).clamp(min=-9e9)).exp(), o),
            ),
            ("is kept", lambda z, o: o[z.argmax(0), torch.arange(o.shape[1])]),
        ),
    ),
    "lsh/border": Answers(
        right=(over_borders, one_pair),
        wrong=(
            ("no bucket runs over", lambda n, chunk_size: [i // chunk_size for i in range(n)]),
            ("holds 8 tokens", lambda n, chunk_size: [0] * n),
            ("nothing to lose", lambda n, chunk_size: list(range(n))),
            ("8 bucket numbers", lambda n, chunk_size: [0, 1, 1, 0]),
            ("got [-1, ", lambda n, chunk_size: [-1] * n),
        ),
    ),
}
