"""Exercises to chapter 12: soft permutations, choices with a gradient, and single edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from tinyattn.content import soft_permutation
from tinyattn.exercises.base import ONE_MAXIMUM, Exercise, Mistake, Verdict, kind, of_function
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned


def _normalised(
    scores: Tensor, n_iters: int, temperature: float, *, axes: tuple[int, ...] = (0, 1)
) -> Tensor:
    log_s = scores / temperature
    for _ in range(n_iters):
        for axis in axes:
            log_s = log_s - log_s.logsumexp(axis, keepdim=True)
    return log_s.exp()


def _sinkhorn(answer: Any, generator: Generator) -> Verdict:
    def right(scores: Tensor, n_iters: int, temperature: float) -> Tensor:
        return soft_permutation(scores, n_iters=n_iters, temperature=temperature)

    def by_exponentials(scores: Tensor, n_iters: int, temperature: float) -> Tensor:
        s = (scores / temperature).exp()
        for _ in range(n_iters):
            s = s / s.sum(0, keepdim=True)
            s = s / s.sum(1, keepdim=True)
        return s

    mistakes = [
        Mistake(
            "rows come last, so that each is a true average; yours ends with columns",
            lambda s, t, tau: _normalised(s, t, tau, axes=(1, 0)),
        ),
        Mistake(
            "the exponential of a large score is infinite: subtract logarithms instead of dividing",
            by_exponentials,
        ),
        Mistake("scores are divided by the temperature", lambda s, t, tau: right(s * tau, t, 1.0)),
        Mistake("the temperature is not used", lambda s, t, tau: right(s, t, 1.0)),
        Mistake(
            "columns are never normalised: that is a softmax of each row",
            lambda s, t, tau: _normalised(s, t, tau, axes=(1,)),
        ),
        Mistake(
            "rows are never normalised: that is a softmax of each column",
            lambda s, t, tau: _normalised(s, t, tau, axes=(0,)),
        ),
        Mistake(
            "that is one iteration, however many there are", lambda s, t, tau: right(s, 1, tau)
        ),
        Mistake(
            "those are the logarithms; the matrix itself is wanted",
            lambda s, t, tau: right(s, t, tau).log(),
        ),
    ]
    cases = []
    for n, n_iters, temperature, size in (
        (3, 2, 1.0, 1),
        (4, 5, 0.5, 1),
        (5, 3, 0.7, 100),
        (1, 1, 2.0, 1),
    ):
        cases.append((size * torch.randn(n, n, generator=generator), n_iters, temperature))
    return of_function(answer, right, cases, mistakes)


def _causal(answer: Any, generator: Generator) -> Verdict:
    def earlier(n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool).tril(-1)

    def by_loops(
        scores: Tensor,
        n_iters: int,
        *,
        allowed: Callable[[int], Tensor] = earlier,
        rows_up_to: Callable[[int, int], int] = lambda i, n: i + 1,
        empty: float = 0.0,
    ) -> Tensor:
        """The definition; what it allows, how far a column's sum runs, and what 0 / 0 is."""
        n = len(scores)
        s = scores.exp() * allowed(n)
        for _ in range(n_iters):
            columns = torch.stack([s[: rows_up_to(i, n)].sum(0) for i in range(n)])
            s = torch.where(columns > 0, s / columns, empty)
            s = torch.where(s.sum(1, keepdim=True) != 0, s / s.sum(1, keepdim=True), empty)
        return s

    mistakes = [
        Mistake(
            "columns are summed over all rows: later blocks tell earlier ones what they ask for",
            lambda s, t: by_loops(s, t, rows_up_to=lambda i, n: n),
        ),
        Mistake(
            "a block may be shown itself in yours; it reads itself anyway, only earlier ones are sorted",
            lambda s, t: by_loops(s, t, allowed=lambda n: torch.ones(n, n).tril()),
        ),
        Mistake(
            "later blocks are shown: row i is made of the columns before i",
            lambda s, t: by_loops(s, t, allowed=lambda n: torch.ones(n, n)),
        ),
        Mistake(
            "the sum of a column leaves out its own row",
            lambda s, t: by_loops(s, t, rows_up_to=lambda i, n: i),
        ),
        Mistake(
            "block 0 has nobody before it: its row is zeros, not 0 / 0",
            lambda s, t: by_loops(s, t, empty=math.nan),
        ),
        Mistake(
            "rows and columns have changed places: row i says what is shown to block i",
            lambda s, t: by_loops(s.T, t).T,
        ),
        Mistake("only rows are normalised", lambda s, t: _rows_only(s)),
        Mistake("that is one iteration, however many there are", lambda s, t: by_loops(s, 1)),
    ]
    cases = [
        (torch.randn(n, n, generator=generator), n_iters)
        for n, n_iters in ((4, 2), (6, 3), (1, 1), (5, 8), (2, 1))
    ]

    def right(scores: Tensor, n_iters: int) -> Tensor:
        return soft_permutation(scores, n_iters=n_iters, temperature=1.0, causal=True)

    return of_function(answer, right, cases, mistakes)


def _rows_only(scores: Tensor) -> Tensor:
    n = len(scores)
    later = torch.ones(n, n, dtype=torch.bool).triu()
    return scores.masked_fill(later, -math.inf).softmax(1).nan_to_num()


def _gumbel(answer: Any, generator: Generator) -> Verdict:
    """Measured by the answer, so compared with what theory says, a few hundredths apart at most."""

    def with_noise(noise: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def shares(scores: Tensor) -> Tensor:
            private = torch.Generator().manual_seed(1)
            uniform = torch.rand(40_000, len(scores), dtype=torch.float64, generator=private)
            chosen = (scores + noise(uniform)).argmax(1)
            return chosen.bincount(minlength=len(scores)).float() / 40_000

        return shares

    mistakes = [
        Mistake(
            "that is normal noise; its argmax does not draw from the softmax",
            with_noise(lambda u: math.sqrt(2) * torch.erfinv(2 * u - 1)),
        ),
        Mistake(
            "there is one logarithm, and one sign, too few: noise is -log(-log u)",
            with_noise(lambda u: -torch.log(u)),
        ),
        Mistake(
            "the outer sign is missing: noise is -log(-log u)",
            with_noise(lambda u: (-u.log()).log()),
        ),
        Mistake("that is uniform noise", with_noise(lambda u: u)),
        Mistake(
            "every draw is the same: the argmax without noise",
            lambda s: F.one_hot(s.argmax(), len(s)).float(),
        ),
        Mistake("every choice is as likely as any other", lambda s: torch.full_like(s, 1 / len(s))),
    ]
    cases = []
    for n, spread in ((4, 1.0), (3, 1.5), (6, 1.0)):
        scores = spread * torch.linspace(-1, 1, n)
        cases.append((scores[torch.randperm(n, generator=generator)],))
    return of_function(answer, lambda s: s.softmax(0), cases, mistakes, tolerance=0.02)


def _straight(answer: Any, generator: Generator) -> Verdict:
    """Value and gradient together: the loss is a sum of the result times given weights."""

    def observed(function: Any) -> Any:
        if not callable(function):
            return function

        def value_and_gradient(sort: Tensor, weights: Tensor) -> Any:
            sort = sort.clone().requires_grad_()
            out = function(sort)
            if not isinstance(out, Tensor):
                return out
            out = out.to_dense()
            if out.requires_grad:
                (out * weights).sum().backward()
            gradient = torch.zeros_like(sort) if sort.grad is None else sort.grad
            return {"value": out.detach(), "gradient": gradient}

        return value_and_gradient

    def one_hot(sort: Tensor, axis: int = 1) -> Tensor:
        return torch.zeros_like(sort).scatter(axis, sort.argmax(axis, keepdim=True), 1.0)

    def right(sort: Tensor) -> Tensor:
        return one_hot(sort) + sort - sort.detach()

    mistakes = [
        Mistake(
            "no gradient comes back: add something that is zero and carries one",
            observed(one_hot),
        ),
        Mistake("nothing is rounded forward", observed(lambda s: 1.0 * s)),
        Mistake(
            "forward the rounded and the soft matrix are added: the soft one must cancel",
            observed(lambda s: one_hot(s) + s),
        ),
        Mistake(
            "a product passes the gradient on to the chosen entries only",
            observed(lambda s: one_hot(s) * s / s.detach()),
        ),
        Mistake("the gradient has the wrong sign", observed(lambda s: one_hot(s) - s + s.detach())),
        Mistake(
            "the largest entry of each column is taken; rows choose",
            observed(lambda s: one_hot(s, 0) + s - s.detach()),
        ),
        Mistake(
            "every entry above one half is taken, and a row may have none",
            observed(lambda s: (s > 0.5).float() + s - s.detach()),
        ),
    ]
    cases = []
    for n, m in ((3, 3), (4, 5), (2, 6)):
        sort = torch.rand(n, m, generator=generator).softmax(1)
        cases.append((sort, torch.randn(n, m, generator=generator)))
    problem = _no_tensor_like(answer, cases)
    return problem or of_function(observed(answer), observed(right), cases, mistakes)


def _no_tensor_like(answer: Any, cases: list[tuple[Tensor, Tensor]]) -> Verdict | None:
    """What keeps a result from being multiplied by weights as large as the input, or nothing."""
    for sort, _ in cases:
        out = returned(answer, sort.clone().requires_grad_())
        if isinstance(out, Verdict):
            return None  # a failure is said with the inputs, by `of_function`
        here = f"for a tensor of {tuple(sort.shape)}"
        if not isinstance(out, Tensor):
            return is_wrong(
                f"{here}: a tensor is wanted, through which a gradient can come back, got {kind(out)}"
            )
        if out.shape != sort.shape:
            return is_wrong(
                f"{here}: the shape is {tuple(out.shape)}, it should be {tuple(sort.shape)}"
            )
        if out.is_complex():
            return is_wrong(f"{here}: real numbers are wanted, got {out.dtype}")
    return None


def _gradient(answer: Any, generator: Generator) -> Verdict:
    def right(theta: Tensor, rewards: Tensor) -> Tensor:
        theta = theta.clone().requires_grad_()
        (theta.softmax(0) * rewards).sum().backward()
        return theta.grad

    def p(theta: Tensor) -> Tensor:
        return theta.softmax(0)

    mistakes = [
        Mistake(
            "the mean reward is missing: raising one probability lowers the others",
            lambda t, r: p(t) * r,
        ),
        Mistake(
            "a choice that is hardly ever made hardly counts: weigh it by p",
            lambda t, r: r - (p(t) * r).sum(),
        ),
        Mistake(
            "the mean reward weighs each choice by its probability; yours weighs all alike",
            lambda t, r: p(t) * (r - r.mean()),
        ),
        Mistake("that is downhill: a larger reward should be followed", lambda t, r: -right(t, r)),
        Mistake(
            "the slope of p_j by its own parameter is p (1 - p); the other parameters move it too",
            lambda t, r: p(t) * (1 - p(t)) * r,
        ),
        Mistake(
            "that is the gradient of the logarithms of p, each times its reward; the p in front is missing",
            lambda t, r: r - p(t) * r.sum(),
        ),
        Mistake("that is the expected reward itself", lambda t, r: (p(t) * r).sum()),
    ]
    cases = []
    for n in (2, 3, 5):
        theta, rewards = torch.randn(2, n, generator=generator)
        cases.append((theta, rewards + 2))
    return of_function(answer, right, cases, mistakes)


def _row_softmax(starts: list[int], scores: Tensor) -> Tensor:
    rows = [scores[a:b].softmax(0) for a, b in pairwise(starts)]
    return torch.cat(rows) if rows else scores


def _rows(answer: Any, generator: Generator) -> Verdict:
    def by_exponentials(starts: list[int], scores: Tensor) -> Tensor:
        raised = scores.exp()
        sums = torch.stack([raised[a:b].sum() for a, b in pairwise(starts)])
        sizes = torch.tensor(starts).diff()
        return raised / sums.repeat_interleave(sizes)

    def one_maximum(starts: list[int], scores: Tensor) -> Tensor:
        return by_exponentials(starts, scores - scores.max())

    def as_counts(starts: list[int], scores: Tensor) -> Tensor:
        out, at = torch.zeros_like(scores), 0
        for count in starts:
            out[at : at + count] = scores[at : at + count].softmax(0)
            at += count
        return out

    def even(starts: list[int], scores: Tensor) -> Tensor:
        return _row_softmax(starts, torch.zeros_like(scores))

    def last_left_out(starts: list[int], scores: Tensor) -> Tensor:
        out = scores.clone()
        for a, b in pairwise(starts):
            last = max(a, b - 1)
            out[a:last] = scores[a:last].softmax(0)
        return out

    mistakes = [
        Mistake(
            "the softmax runs over all edges: each row has its own", lambda st, s: s.softmax(0)
        ),
        Mistake(
            "the exponential of a large score is infinite: subtract the largest of the row first",
            by_exponentials,
        ),
        Mistake(ONE_MAXIMUM, one_maximum),
        Mistake("the numbers are starts, not counts: row i ends where row i + 1 begins", as_counts),
        Mistake("all edges of a row weigh the same; their scores count", even),
        Mistake("starts[i + 1] is not part of row i, but what is before it is", last_left_out),
        Mistake(
            "the scores are divided by their sum; a softmax divides exponentials",
            lambda st, s: torch.cat([s[a:b] / s[a:b].sum() for a, b in pairwise(st)]),
        ),
    ]
    cases: list[Any] = []
    for sizes, level in (
        ((2, 3, 1), 0),
        ((0, 4, 0, 2, 5), 200),
        ((1, 0, 0, 3), 0),
        ((6, 2, 0), 100),
    ):
        starts = [0, *torch.tensor(sizes).cumsum(0).tolist()]
        cases.append((starts, torch.randn(sum(sizes), generator=generator) + level))
    levels = torch.tensor([0.0, 0.0, 200.0, 200.0, 200.0, -300.0, -300.0])
    cases.append(([0, 2, 5, 7], torch.randn(7, generator=generator) + levels))
    return of_function(answer, _row_softmax, cases, mistakes)


EXERCISES = (
    Exercise(
        name="learned/sinkhorn",
        title="Columns and rows in turn",
        kind="implement",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Normalise a matrix of scores by columns and rows without overflow",
        examine=_sinkhorn,
        after="It agrees with `soft_permutation`, also where no exponential exists.",
    ),
    Exercise(
        name="learned/causal",
        title="A sort that cannot look ahead",
        kind="implement",
        difficulty=3,
        minutes=25,
        points=5,
        goal="Normalise columns so that no row depends on later rows",
        examine=_causal,
        after="Row i is made of rows up to i and of nothing else.",
    ),
    Exercise(
        name="learned/gumbel",
        title="Noise that draws from a softmax",
        kind="measure",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Measure that the argmax of scores with Gumbel noise is a draw from their softmax",
        examine=_gumbel,
        after="The shares are the softmax of the scores, within the noise of counting.",
    ),
    Exercise(
        name="learned/straight",
        title="Straight through",
        kind="implement",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Round forward and pass the gradient as if nothing had been rounded",
        examine=_straight,
        after="Forward it is a choice, backward the identity.",
    ),
    Exercise(
        name="learned/gradient",
        title="What a choice should have been",
        kind="prove",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Derive the exact gradient of an expected reward",
        examine=_gradient,
        after="The formula equals autograd's: a choice counts by its probability, and by its reward's distance from the mean.",
    ),
    Exercise(
        name="learned/rows",
        title="A softmax over edges",
        kind="implement",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Take a softmax of every row of a sparse matrix stored row by row",
        examine=_rows,
        after="Each row sums to 1, empty ones disturb nobody, and no score is too large.",
    ),
)
