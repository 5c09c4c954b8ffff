"""Answers to the exercises of chapter 5."""

import math

import torch

from tests.exercises.answers import Answers


def paths(attention=1, window=128, contiguous=256, dilated=5):
    return {
        "attention": attention,
        "window": window,
        "contiguous": contiguous,
        "dilated": dilated,
    }


def breadth_first(mask, never=math.inf, count_nodes=False, edges=None, diagonal=True):
    n = len(mask)
    reads = mask if edges is None else edges(mask)
    lengths = torch.full((n, n), float(never))
    for i in range(n):
        found, front = {i: 0} if diagonal else {}, [i]
        step = 0
        while front:
            step += 1
            after = []
            for token in front:
                for j in range(n):
                    if reads[token, j] and j not in found:
                        found[j] = step
                        after.append(j)
            front = after
        for j, length in found.items():
            lengths[i, j] = length + count_nodes
    return lengths


def by_powers(mask, n_layers=None):
    n = len(mask)
    one = (mask | torch.eye(n, dtype=torch.bool)).double()
    lengths = torch.where(torch.eye(n) > 0, 0.0, math.inf)
    seen = torch.eye(n, dtype=torch.float64)
    for layer in range(1, (n_layers or n) + 1):
        seen = ((one @ seen) > 0).double()
        lengths = torch.where((seen > 0) & lengths.isinf(), float(layer), lengths)
    return lengths


def floyd(mask):
    lengths = torch.where(mask, 1.0, math.inf).fill_diagonal_(0.0)
    for middle in range(len(mask)):
        lengths = torch.minimum(lengths, lengths[:, middle, None] + lengths[None, middle])
    return lengths


def whole_numbers(n, width):
    depth = 0
    while width**depth < n:
        depth += 1
    return -(-(n - 1) // (width - 1)), depth


def with_tolerance(n, width, plain=None, dilated=None):
    return (
        (n + width - 3) // (width - 1) if plain is None else plain,
        math.ceil(math.log(n, width) - 1e-9) if dilated is None else dilated,
    )


def mail_by_loops(q, k, v, edges, score=None, turn=False):
    out = torch.zeros(len(q), v.shape[1])
    for i in range(len(q)):
        keys = [pair[1 - turn] for pair in edges.tolist() if pair[0 + turn] == i]
        if keys:
            if score is None:
                scores = k[keys] @ q[i] / math.sqrt(q.shape[1])
            else:
                scores = score(q[i], k[keys])
            out[i] = scores.softmax(0) @ v[keys]
    return out


def mail_by_scatter(q, k, v, edges, largest=True, divide=True, empty=1e-9):
    to, fro = edges.unbind(1)
    scores = torch.einsum("ed,ed->e", q[to], k[fro]) / q.shape[1] ** 0.5
    if largest:
        top = torch.full((len(q),), -math.inf).scatter_reduce(0, to, scores, "amax")
        scores = scores - top[to]
    raised = scores.exp()
    out = torch.zeros(len(q), v.shape[1]).index_add_(0, to, raised[:, None] * v[fro])
    if not divide:
        return out
    total = torch.zeros(len(q)).index_add_(0, to, raised)
    if empty is None:
        return out / total[:, None]
    return torch.where(total[:, None] > 0, out / total[:, None].clamp(min=empty), 0.0)


def overflowing_mail(q, k, v, edges):
    to, fro = edges.unbind(1)
    raised = ((q[to] * k[fro]).sum(1) / q.shape[1] ** 0.5).exp()
    total = torch.zeros(len(q)).index_add_(0, to, raised)
    share = raised / total[to]
    return torch.zeros(len(q), v.shape[1]).index_add_(0, to, share[:, None] * v[fro])


def one_top_for_all(q, k, v, edges):
    to, fro = edges.unbind(1)
    scores = (q[to] * k[fro]).sum(1) / q.shape[1] ** 0.5
    raised = (scores - max(scores)).exp()
    total = torch.zeros(len(q)).index_add_(0, to, raised)
    share = raised / total[to]
    return torch.zeros(len(q), v.shape[1]).index_add_(0, to, share[:, None] * v[fro])


def one_softmax(q, k, v, edges):
    to, fro = edges.unbind(1)
    share = ((q[to] * k[fro]).sum(1) / q.shape[1] ** 0.5).softmax(0)
    return torch.zeros(len(q), v.shape[1]).index_add_(0, to, share[:, None] * v[fro])


def unnormalised(q, k, v, edges):
    to, fro = edges.unbind(1)
    raised = ((q[to] * k[fro]).sum(1) / q.shape[1] ** 0.5).exp()
    return torch.zeros(len(q), v.shape[1]).index_add_(0, to, raised[:, None] * v[fro])


def softmax_of_keys(q, k, v, edges):
    out = torch.zeros(len(q), v.shape[1])
    for j in range(len(k)):
        queries = [to for to, fro in edges.tolist() if fro == j]
        shares = (q[queries] @ k[j] / math.sqrt(q.shape[1])).softmax(0)
        for to, share in zip(queries, shares, strict=True):
            out[to] += share * v[j]
    return out


def symmetric(f, n, d, shuffle=None, axis=0, compare=torch.allclose, draw=torch.randn, moved=True):
    x = draw(n, d)
    size = x.shape[axis]
    orders = [
        shuffle(size) if shuffle else [1, 3, 0, 2, *range(4, size)],
        [(i + 1) % size for i in range(size)],
        list(range(size))[::-1],
    ]
    found = []
    for order in orders:
        order = torch.tensor(order)
        kept = f(x).index_select(axis, order) if moved else f(x)
        found.append(bool(compare(f(x.index_select(axis, order)), kept)))
    return found


def near(a, b):
    return (a - b).abs().max() < 1e-4


def by_many_shuffles(f, n, d):
    x = torch.randn(n, d)
    permutation = all(
        near(f(x[order]), f(x)[order]) for order in (torch.randperm(n) for _ in range(10))
    )
    return (
        permutation,
        bool(near(f(torch.roll(x, 2, 0)), torch.roll(f(x), 2, 0)))
        and bool(near(f(torch.roll(x, 1, 0)), torch.roll(f(x), 1, 0))),
        bool(near(f(torch.flipud(x)), torch.flipud(f(x)))),
    )


ANSWERS = {
    "comparison/paths": Answers(
        right=(paths(), paths(1.0, 1024 / 8, 1024 // 4, torch.tensor(5))),
        wrong=(
            ("every pair already", paths(attention=1025)),
            ("not 17", paths(window=61)),
            ("not 16", paths(window=64)),
            ("window: there are 1,024 steps", paths(window=129)),
            ("one of the 5 is the token", paths(contiguous=205)),
            ("one side only", paths(contiguous=512)),
            ("contiguous: there are 1,024 steps", paths(contiguous=257)),
            ("four see 625", paths(dilated=4)),
            ("not of 2", paths(dilated=11)),
            ("the first is 1", paths(dilated=6)),
        ),
    ),
    "comparison/hops": Answers(
        right=(breadth_first, by_powers, floyd),
        wrong=(
            ("rows and columns are exchanged", lambda mask: floyd(mask).t()),
            ("lead both ways", lambda mask: breadth_first(mask, edges=lambda m: m | m.t())),
            ("count the tokens", lambda mask: breadth_first(mask, count_nodes=True)),
            ("not 0", lambda mask: breadth_first(mask, never=0)),
            ("not -1", lambda mask: breadth_first(mask, never=-1)),
            ("after two layers", lambda mask: by_powers(mask, n_layers=2)),
            ("after one layer", lambda mask: by_powers(mask, n_layers=1)),
            ("the diagonal is 0", lambda mask: breadth_first(mask, diagonal=False)),
            ("yours is", lambda mask: mask.float()),
        ),
    ),
    "comparison/stacks": Answers(
        right=(whole_numbers, with_tolerance),
        wrong=(
            (
                "log(125) / log(5)",
                lambda n, w: with_tolerance(n, w, dilated=math.ceil(math.log(n) / math.log(w))),
            ),
            ("rounded down", lambda n, w: with_tolerance(n, w, dilated=int(math.log(n + 0.1, w)))),
            (
                "not of 2",
                lambda n, w: with_tolerance(n, w, dilated=math.ceil(math.log2(n))),
            ),
            ("not width", lambda n, w: with_tolerance(n, w, plain=-(-n // w))),
            ("n - 1 are left", lambda n, w: with_tolerance(n, w, plain=-(-n // (w - 1)))),
            (
                "the contiguous count is rounded down",
                lambda n, w: with_tolerance(n, w, plain=(n - 1) // (w - 1)),
            ),
            ("exchanged", lambda n, w: whole_numbers(n, w)[::-1]),
            ("yours is", lambda n, w: (n, n)),
        ),
    ),
    "comparison/messages": Answers(
        right=(mail_by_loops, mail_by_scatter),
        wrong=(
            ("leads the other way", lambda *inputs: mail_by_loops(*inputs, turn=True)),
            ("over all edges", one_softmax),
            ("queries of a key", softmax_of_keys),
            ("not divided by the sum", unnormalised),
            ("overflow", overflowing_mail),
            ("one maximum for all rows", one_top_for_all),
            ("gets NaN", lambda *inputs: mail_by_scatter(*inputs, empty=None)),
            ("not divided by √d_head", lambda *inputs: mail_by_loops(*inputs, lambda q, k: k @ q)),
            ("plain mean", lambda *inputs: mail_by_loops(*inputs, lambda q, k: k @ q * 0)),
            (
                "edges are not used",
                lambda q, k, v, e: (q @ k.T / q.shape[1] ** 0.5).softmax(1) @ v,
            ),
            ("yours is", lambda *inputs: mail_by_scatter(*inputs, divide=False)),
        ),
    ),
    "comparison/symmetries": Answers(
        right=(
            lambda f, n, d: symmetric(f, n, d, compare=near),
            by_many_shuffles,
        ),
        wrong=(
            ("stays as it was", lambda f, n, d: symmetric(f, n, d, compare=near, moved=False)),
            ("move the features", lambda f, n, d: symmetric(f, n, d, compare=near, axis=1)),
            ("all tokens are alike", lambda f, n, d: (True, True, True)),
            (
                "your shuffle is a shift",
                lambda f, n, d: symmetric(
                    f, n, d, lambda n: [(i + 1) % n for i in range(n)], compare=near
                ),
            ),
            (
                "your shuffle is the mirror",
                lambda f, n, d: symmetric(f, n, d, lambda n: list(range(n))[::-1], compare=near),
            ),
            ("yours is 0, wanted is 1 (3 of 3", lambda f, n, d: [False] * 3),
            ("upside down", lambda f, n, d: [not one for one in by_many_shuffles(f, n, d)]),
            ("the shape is (2,)", lambda f, n, d: by_many_shuffles(f, n, d)[:2]),
        ),
    ),
}
