"""Answers to the exercises of chapter 6."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.exercises.answers import Answers


def phi(x):
    return F.elu(x) + 1


def by_state(q, k, v, answer_first=False):
    s, u = torch.zeros(q.shape[1], v.shape[1]), torch.zeros(q.shape[1])
    out = []
    for i in range(len(q)):
        if answer_first:
            out.append(phi(q[i]) @ s / (phi(q[i]) @ u))
        s = s + torch.outer(phi(k[i]), v[i])
        u = u + phi(k[i])
        if not answer_first:
            out.append(phi(q[i]) @ s / (phi(q[i]) @ u))
    return torch.stack(out)


def by_cumsum(q, k, v, of_q=phi, of_k=phi):
    states = torch.einsum("nd,ne->nde", of_k(k), v).cumsum(0)
    sums = of_k(k).cumsum(0)
    return torch.einsum("nd,nde->ne", of_q(q), states) / (of_q(q) * sums).sum(1, keepdim=True)


def undivided(q, k, v):
    return torch.einsum("nd,nde->ne", phi(q), torch.einsum("nd,ne->nde", phi(k), v).cumsum(0))


def by_matrix(q, k, v):
    raw = (phi(q) @ phi(k).T).tril()
    return raw @ v / raw.sum(1, keepdim=True)


def not_causal(q, k, v):
    return phi(q) @ (phi(k).T @ v) / (phi(q) @ phi(k).sum(0))[:, None]


def full_divisor(q, k, v):
    return undivided(q, k, v) / (phi(q) @ phi(k).sum(0))[:, None]


def softmax_causal(q, k, v):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def identity(x):
    return x


def group_by_loop(q, k, v, group=lambda head, n_heads, n_shared: head // (n_heads // n_shared)):
    out = []
    for head in range(len(q)):
        g = group(head, len(q), len(k))
        out.append(F.softmax(q[head] @ k[g].T / math.sqrt(q.shape[2]), dim=1) @ v[g])
    return torch.stack(out)


def group_by_axis(q, k, v, scale=True):
    grouped = q.view(len(k), -1, *q.shape[1:])  # (n_shared, heads of each, n, d)
    scores = torch.einsum("gand,gmd->ganm", grouped, k) / (q.shape[2] ** 0.5 if scale else 1)
    return torch.einsum("ganm,gme->gane", scores.softmax(-1), v).flatten(0, 1)


def mixed_orders(first, second):
    def answer(q, k, v):
        times = len(q) // len(k)
        spread = {"turns": torch.cat([k] * times), "groups": k.repeat_interleave(times, dim=0)}
        values = {"turns": torch.cat([v] * times), "groups": v.repeat_interleave(times, dim=0)}
        return F.scaled_dot_product_attention(q, spread[first], values[second])

    return answer


def mean_head(q, k, v):
    return F.scaled_dot_product_attention(
        q, k.mean(0).expand(len(q), -1, -1), v.mean(0).expand(len(q), -1, -1)
    )


def mean_of_groups(q, k, v):
    return torch.stack([part.mean(0) for part in group_by_loop(q, k, v).chunk(len(k))])


def cases(**changes):
    names = ("window", "linear", "linformer", "nystrom", "prior", "grouped")
    return {**dict(zip(names, "fabcde", strict=True)), **changes}


def searched(m, d):
    first = [
        lambda n: n > 2 * m,
        lambda n: n > d + 1,
        lambda n: n**2 - m * n > 2 * m * d,
    ]
    return [next(n for n in range(1, 10**5) if test(n)) for test in first]


def solved(m, d, first=None, second=None, third=None):
    root = math.isqrt(m * m + 8 * m * d)
    last = (m + root) // 2 + 1
    return (
        2 * m + 1 if first is None else first,
        d + 2 if second is None else second,
        last if third is None else third,
    )


def root_of(m, d):
    return (m + (m * m + 8 * m * d) ** 0.5) / 2


def seen(attend, n, **changes):
    a = torch.stack([attend(torch.eye(n).double()[:, j : j + 1])[:, 0] for j in range(n)], dim=1)
    values = torch.linalg.svdvals(a)
    found = {
        "sums": all(abs(float(row.sum()) - 1) < 1e-6 for row in a),
        "negative": a.min().item() < -1e-8,
        "causal": all(abs(a[i, j]) < 1e-8 for i in range(n) for j in range(i + 1, n)),
        "rank": int((values > 1e-8 * values[0]).sum()),
    }
    return list({**found, **{name: f(a) for name, f in changes.items()}}.values())


def probed(attend, n):
    generator = torch.Generator().manual_seed(1)
    probes = torch.randn(n, n, generator=generator, dtype=torch.float64)
    a = attend(probes) @ torch.linalg.inv(probes)
    lower = torch.allclose(a, a.tril(), atol=1e-7)
    sums = torch.allclose(a @ torch.ones(n).double(), torch.ones(n).double(), atol=1e-6)
    return sums, bool(a.min() < -1e-7), lower, int(torch.linalg.matrix_rank(a, rtol=1e-7))


def seen_by_numpy(attend, n):
    a = attend(torch.eye(n).double()).numpy()
    return [
        np.allclose(a.sum(1), 1),
        (a < -1e-9).any(),
        np.all(np.abs(np.triu(a, 1)) < 1e-9),
        np.linalg.matrix_rank(a, tol=1e-9),
    ]


def keys(n=5, near=0.9, length=100.0, d=2):
    def answer():
        k = torch.full((n, d), near)
        k[0] = 1.0
        return torch.full((d,), length), k

    return answer


def infinite_keys():
    """Features of -inf are 0, but 0 * -inf is no number, and so is no score."""
    k = torch.ones(9, 2)
    k[0, 0] = -math.inf
    return torch.tensor([0.0, 1.0]), k


def negative_keys():
    k = torch.full((6, 3), -3.0)
    k[0] = -2.9
    return torch.tensor([90.0, 90.0, 90.0]), k


ANSWERS = {
    "taxonomy/recurrent": Answers(
        right=(by_state, by_cumsum),
        wrong=(
            ("phi is not applied", lambda q, k, v: by_cumsum(q, k, v, identity, identity)),
            ("the + 1 is missing", lambda q, k, v: by_cumsum(q, k, v, F.elu, F.elu)),
            ("to the keys only", lambda q, k, v: by_cumsum(q, k, v, of_q=identity)),
            ("to the queries only", lambda q, k, v: by_cumsum(q, k, v, of_k=identity)),
            ("not divided by the sum", undivided),
            ("should read itself", lambda q, k, v: by_state(q, k, v, answer_first=True)),
            ("read their future", not_causal),
            ("run along", full_divisor),
            ("that is softmax attention", softmax_causal),
            ("yours is", lambda q, k, v: v),
            ("a matrix of all pairs", by_matrix),
        ),
    ),
    "taxonomy/grouped": Answers(
        right=(group_by_loop, group_by_axis),
        wrong=(
            (
                "the shared heads take turns",
                lambda q, k, v: group_by_loop(q, k, v, lambda i, h, s: i % s),
            ),
            ("keys take turns", mixed_orders("turns", "groups")),
            ("values take turns", mixed_orders("groups", "turns")),
            ("the first shared head", lambda q, k, v: group_by_loop(q, k, v, lambda i, h, s: 0)),
            ("mean of all shared heads", mean_head),
            ("not divided by √d_head", lambda q, k, v: group_by_axis(q, k, v, scale=False)),
            ("keeps its own output", mean_of_groups),
            ("the shape is", lambda q, k, v: q),
        ),
    ),
    "taxonomy/exact": Answers(
        right=(cases(), cases(window="F"), cases(window=" f ")),
        wrong=(
            ("window: with w = n / 2", cases(window="g")),
            ("does not widen a window", cases(window="b")),
            ("linear: a product of features", cases(linear="h")),
            ("linformer: n slots are needed", cases(linformer="g")),
            ("that is Nyström's", cases(linformer="c")),
            ("nystrom: it has no mixtures", cases(nystrom="b")),
            ("nystrom: with a pseudoinverse", cases(nystrom="a")),
            ("prior: equal keys", cases(prior="a")),
            ("grouped: equal keys", cases(grouped="a")),
            ("grouped: 'b' is not it", cases(grouped="b")),
        ),
    ),
    "taxonomy/costs": Answers(
        right=(searched, solved),
        wrong=(
            ("the first forgets", lambda m, d: solved(m, d, first=m + 1)),
            ("both cost the same", lambda m, d: solved(m, d, first=2 * m)),
            ("forgets the divisor", lambda m, d: solved(m, d, second=d + 1)),
            ("the state is a matrix", lambda m, d: solved(m, d, second=3)),
            ("2 m d numbers", lambda m, d: solved(m, d, third=m + 1)),
            (
                "not the values",
                lambda m, d: solved(m, d, third=(m + math.isqrt(m * m + 4 * m * d)) // 2 + 1),
            ),
            ("is rounded", lambda m, d: solved(m, d, third=round(root_of(m, d)))),
            ("strictly above", lambda m, d: solved(m, d, third=math.ceil(root_of(m, d)))),
            ("yours is", lambda m, d: (m, d, m)),
        ),
    ),
    "taxonomy/look": Answers(
        right=(seen, probed, seen_by_numpy),
        wrong=(
            (
                "sum over the queries",
                lambda f, n: seen(f, n, sums=lambda a: bool((a.sum(0) - 1).abs().max() < 1e-6)),
            ),
            (
                "a zero is not negative",
                lambda f, n: seen(f, n, negative=lambda a: a.min().item() <= 0),
            ),
            (
                "may read itself",
                lambda f, n: seen(f, n, causal=lambda a: bool((a.triu(0).abs() < 1e-8).all())),
            ),
            (
                "at the past",
                lambda f, n: seen(f, n, causal=lambda a: bool((a.tril(-1).abs() < 1e-8).all())),
            ),
            ("is the number of tokens", lambda f, n: seen(f, n, rank=len)),
            ("the shape is (3,)", lambda f, n: seen(f, n)[:3]),
        ),
    ),
    "taxonomy/needle": Answers(
        right=(keys(), negative_keys, lambda: [part.tolist() for part in keys()()]),
        wrong=(
            ("softmax gives key 0 the weight 0.20", keys(length=0.0)),
            ("linear attention gives key 0", keys(n=2)),
            ("two tensors: one query", lambda: torch.ones(2)),
            ("got (), (2, 2)", lambda: (1.0, torch.ones(2, 2))),
            ("real numbers, got 'one' (str)", lambda: ("one", torch.ones(2, 2))),
            ("got (2,), (2, 3)", lambda: (torch.ones(2), torch.ones(2, 3))),
            ("one key or more", lambda: (torch.ones(2), torch.ones(0, 2))),
            ("must be finite", infinite_keys),
            ("real numbers", lambda: (torch.ones(2), torch.ones(3, 2) * 1j)),
        ),
    ),
}
