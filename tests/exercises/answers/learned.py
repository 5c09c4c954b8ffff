"""Answers to the exercises of chapter 12."""

import math
from itertools import pairwise

import torch
import torch.nn.functional as F

from tests.exercises.answers import Answers


def sinkhorn(scores, n_iters, temperature, first="columns"):
    log_s = scores / temperature
    order = (0, 1) if first == "columns" else (1, 0)
    for _ in range(n_iters):
        for axis in order:
            log_s = F.log_softmax(log_s, dim=axis)
    return torch.exp(log_s)


def sinkhorn_by_scaling(scores, n_iters, temperature):
    """Two vectors of logarithms, one for rows and one for columns."""
    r = scores.double() / temperature
    u = v = torch.zeros(len(r), dtype=torch.float64)
    for _ in range(n_iters):
        v = -torch.logsumexp(r + u[:, None], dim=0)
        u = -torch.logsumexp(r + v, dim=1)
    return (r + u[:, None] + v).exp().float()


def sinkhorn_naive(scores, n_iters, temperature):
    s = torch.exp(scores / temperature)
    for _ in range(n_iters):
        s /= s.sum(dim=0)
        s /= s.sum(dim=1)[:, None]
    return s


def causal_sort(scores, n_iters, keep=-1, stop=1, whole=False, safe=True):
    """The definition with Python's loops, and faults by choice."""
    n = len(scores)
    s = torch.exp(scores)
    for i in range(n):
        for j in range(n):
            if j - i > keep:
                s[i, j] = 0.0
    for _ in range(n_iters):
        columns = torch.zeros_like(s)
        for i in range(n):
            columns[i] = s.sum(dim=0) if whole else s[: i + stop].sum(dim=0)
        s = s / columns
        s = s.nan_to_num(0.0, 0.0) if safe else s
        s = s / s.sum(dim=1, keepdim=True)
        s = s.nan_to_num(0.0) if safe else s
    return s


def causal_by_logs(scores, n_iters):
    never = torch.ones_like(scores, dtype=torch.bool).triu()
    s = scores.masked_fill(never, -1e9)
    for _ in range(n_iters):
        s = (s - torch.logcumsumexp(s, dim=0)).masked_fill(never, -1e9)
        s = (s - torch.logsumexp(s, dim=1, keepdim=True)).masked_fill(never, -1e9)
    return s.exp()


def shares(noise, n_draws=60_000):
    def answer(scores):
        uniform = torch.rand(n_draws, len(scores))
        chosen = torch.argmax(scores + noise(uniform), dim=1)
        return torch.bincount(chosen, minlength=len(scores)) / n_draws

    return answer


def drawn_by_race(scores):
    """The first of independent exponential clocks, whose rates are exp of the scores."""
    clocks = torch.empty(60_000, len(scores)).exponential_() / scores.exp()
    return torch.stack([(clocks.argmin(dim=1) == j).float().mean() for j in range(len(scores))])


def choice(sort):
    return F.one_hot(sort.argmax(dim=1), sort.shape[1]).float()


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sort):
        return choice(sort)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def expected_gradient(theta, rewards):
    """Difference quotients in double precision."""

    def expected(t):
        return float((torch.softmax(t, 0) * rewards.double()).sum())

    theta = theta.double()
    steps = torch.eye(len(theta), dtype=torch.float64) * 1e-5
    return torch.tensor([(expected(theta + h) - expected(theta - h)) / 2e-5 for h in steps])


def softmax(x):
    return x.exp() / x.exp().sum()


def each_row(function):
    def answer(starts, scores):
        out = scores.clone()
        for i in range(len(starts) - 1):
            row = slice(starts[i], starts[i + 1])
            if starts[i] < starts[i + 1]:
                out[row] = function(scores[row])
        return out

    return answer


def rows_at_once(starts, scores):
    sizes = torch.tensor(starts).diff()
    row = torch.arange(len(sizes)).repeat_interleave(sizes)
    top = torch.full((len(sizes),), -math.inf).scatter_reduce(0, row, scores, "amax")
    raised = (scores - top[row]).exp()
    return raised / torch.zeros(len(sizes)).index_add(0, row, raised)[row]


def one_top_for_all(starts, scores):
    return each_row(softmax)(starts, scores - max(scores))


def without_the_last(row):
    return torch.cat([torch.softmax(row[:-1], 0), row[-1:]])


def by_counts(starts, scores):
    out, stop = torch.zeros_like(scores), torch.tensor(starts).cumsum(0)
    for start, end in pairwise([0, *stop.tolist()]):
        out[start:end] = torch.softmax(scores[start:end], 0)
    return out


ANSWERS = {
    "learned/sinkhorn": Answers(
        right=(sinkhorn, sinkhorn_by_scaling),
        wrong=(
            ("ends with columns", lambda *given: sinkhorn(*given, first="rows")),
            ("subtract logarithms", sinkhorn_naive),
            ("divided by the temperature", lambda s, t, tau: sinkhorn(s, t, 1 / tau)),
            ("is not used", lambda s, t, tau: sinkhorn(s, t, 1)),
            ("softmax of each row", lambda s, t, tau: torch.softmax(s / tau, 1)),
            ("softmax of each column", lambda s, t, tau: torch.softmax(s / tau, 0)),
            ("one iteration", lambda s, t, tau: sinkhorn(s, 1, tau)),
            ("the logarithms", lambda s, t, tau: sinkhorn(s, t, tau).log()),
            ("yours is", lambda s, t, tau: sinkhorn(s, t + 1, tau)),
        ),
    ),
    "learned/causal": Answers(
        right=(causal_sort, causal_by_logs),
        wrong=(
            ("over all rows", lambda s, t: causal_sort(s, t, whole=True)),
            ("shown itself", lambda s, t: causal_sort(s, t, keep=0)),
            ("later blocks are shown", lambda s, t: causal_sort(s, t, keep=99)),
            ("leaves out its own row", lambda s, t: causal_sort(s, t, stop=0)),
            ("not 0 / 0", lambda s, t: causal_sort(s, t, safe=False)),
            ("changed places", lambda s, t: causal_sort(s.T, t).T),
            (
                "only rows",
                lambda s, t: (
                    s.exp().tril(-1) / s.exp().tril(-1).sum(1, keepdim=True).clamp(min=1e-9)
                ),
            ),
            ("one iteration", lambda s, t: causal_sort(s, 1)),
        ),
    ),
    "learned/gumbel": Answers(
        right=(shares(lambda u: -torch.log(-torch.log(u))), drawn_by_race),
        wrong=(
            ("normal noise", shares(torch.randn_like)),
            ("too few", shares(lambda u: -torch.log(u))),
            ("outer sign", shares(lambda u: torch.log(-torch.log(u)))),
            ("uniform noise", shares(lambda u: u)),
            ("the same", lambda scores: (scores == scores.max()).float()),
            ("as likely as any other", lambda scores: torch.ones(len(scores)) / len(scores)),
            ("yours is", lambda scores: shares(lambda u: -(-u.log()).log())(2 * scores)),
        ),
    ),
    "learned/straight": Answers(
        right=(lambda sort: sort + (choice(sort) - sort).detach(), Rounded.apply),
        wrong=(
            ("no gradient comes back", choice),
            ("nothing is rounded", lambda sort: sort + 0),
            ("must cancel", lambda sort: sort + choice(sort)),
            ("chosen entries only", lambda sort: choice(sort) * sort / sort.detach()),
            ("wrong sign", lambda sort: choice(sort) + sort.detach() - sort),
            (
                "rows choose",
                lambda sort: sort + (choice(sort.T).T - sort).detach(),
            ),
            ("may have none", lambda sort: sort + (sort.round() - sort).detach()),
            ("raised IndexError", lambda sort: sort[99]),
            ("a tensor is wanted", lambda sort: choice(sort).tolist()),
            ("a gradient can come back, got array", lambda sort: choice(sort).detach().numpy()),
            ("the shape is (2,), it should be (3, 3)", lambda sort: sort.flatten()[:2]),
            ("real numbers are wanted", lambda sort: choice(sort) * 1j),
        ),
    ),
    "learned/gradient": Answers(
        right=(
            expected_gradient,
            lambda theta, rewards: (
                (torch.diag(softmax(theta)) - torch.outer(softmax(theta), softmax(theta))) @ rewards
            ),
        ),
        wrong=(
            ("mean reward is missing", lambda t, r: softmax(t) * r),
            ("weigh it by p", lambda t, r: r - softmax(t) @ r),
            ("weighs all alike", lambda t, r: softmax(t) * (r - r.sum() / len(r))),
            ("downhill", lambda t, r: softmax(t) * (softmax(t) @ r - r)),
            ("move it too", lambda t, r: softmax(t) * (1 - softmax(t)) * r),
            ("the p in front is missing", lambda t, r: r - softmax(t) * sum(r)),
            ("reward itself", lambda t, r: softmax(t) @ r),
        ),
    ),
    "learned/rows": Answers(
        right=(each_row(lambda row: torch.softmax(row, dim=0)), rows_at_once),
        wrong=(
            ("over all edges", lambda starts, scores: torch.softmax(scores, 0)),
            ("infinite", each_row(softmax)),
            ("one maximum for all rows", one_top_for_all),
            ("not counts", by_counts),
            ("weigh the same", each_row(lambda row: torch.ones(len(row)) / len(row))),
            ("is not part of row i", each_row(without_the_last)),
            ("divides exponentials", each_row(lambda row: row / row.sum())),
            ("yours is", each_row(torch.exp)),
        ),
    ),
}
