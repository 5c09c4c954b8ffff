"""Exercises to chapter 11: who meets whom, centroids that follow, and a rule that leaks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from tinyattn.content import routing_weights
from tinyattn.dense import attention
from tinyattn.exercises.base import Exercise, Mistake, Verdict, of_function, of_value
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned, vector

PLAINLY = 0.01  # far more than rounding: the change of a weight that every search finds


def _sizes(answer: Any, generator: Generator) -> Verdict:
    right = {"scores": 44, "silent": 3, "balanced": 64}
    return of_value(
        answer,
        right,
        [
            Mistake(
                "each cluster has queries times keys scores, and the clusters add up",
                right | {"scores": 256},
            ),
            Mistake(
                "queries that come to a cluster without keys are silent; keys without queries "
                "silence nobody",
                right | {"silent": 9},
            ),
            Mistake(
                "the second cluster has no key, the third no query: one of them silences queries",
                right | {"silent": 12},
            ),
            Mistake(
                "a balanced cluster takes 4 queries *and* 4 keys: 16 scores",
                right | {"balanced": 16},
            ),
            Mistake(
                "that is all pairs; a balanced cluster holds 4 queries and 4 keys",
                right | {"balanced": 256},
            ),
        ],
    )


def _by_angle(x: Tensor, centroids: Tensor) -> Tensor:
    return (F.normalize(x, dim=-1) @ F.normalize(centroids, dim=-1).T).argmax(-1)


def _by_product(x: Tensor, centroids: Tensor) -> Tensor:
    return (x @ centroids.T).argmax(-1)


def _meeting(home: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The mask of a rule for the cluster of each vector."""

    def mask(q: Tensor, k: Tensor, centroids: Tensor, causal: bool) -> Tensor:
        same = home(q, centroids)[:, None] == home(k, centroids)
        return same.tril() if causal else same

    return mask


def _balanced(q: Tensor, k: Tensor, centroids: Tensor, causal: bool) -> Tensor:
    weights = routing_weights(
        q[None, None], k[None, None], centroids[None], membership="balanced", causal=causal
    )
    return weights[0, 0] > 0


def _mask(answer: Any, generator: Generator) -> Verdict:
    right = _meeting(_by_angle)
    mistakes = [
        Mistake(
            "centroids have different lengths and a long one wins every product: compare angles",
            _meeting(_by_product),
        ),
        Mistake(
            "distances depend on lengths: the nearest centroid is the one at the smallest angle",
            _meeting(lambda x, c: torch.cdist(x, c).argmin(-1)),
        ),
        Mistake(
            "that is the centroid that points the other way: the largest cosine wins",
            _meeting(lambda x, c: _by_angle(-x, c)),
        ),
        Mistake(
            "keys go to their own centroid, in yours they go to their query's",
            lambda q, k, c, causal: right(q, q, c, causal),
        ),
        Mistake(
            "causal is ignored: some queries read keys that come after them",
            lambda q, k, c, causal: right(q, k, c, False),
        ),
        Mistake(
            "causal takes away the query's own key: j = i is allowed",
            lambda q, k, c, causal: right(q, k, c, False).tril(-1 if causal else len(q)),
        ),
        Mistake(
            "causal is upside down: it allows the keys from the query on",
            lambda q, k, c, causal: (
                right(q, k, c, False).triu() if causal else right(q, k, c, False)
            ),
        ),
        Mistake("each centroid chooses tokens in yours; here each token chooses", _balanced),
    ]
    cases = []
    for n, d_head, n_clusters, causal in ((9, 2, 3, False), (12, 3, 4, True), (5, 4, 1, False)):
        q, k = torch.randn(2, n, d_head, generator=generator)
        lengths = 0.3 + 4 * torch.rand(n_clusters, 1, generator=generator)
        centroids = F.normalize(torch.randn(n_clusters, d_head, generator=generator), dim=-1)
        cases.append((q, k, centroids * lengths, causal))
    q, k, centroids, _ = cases[0]
    cases.append((q[:6], k[:6], centroids, True))
    return of_function(answer, right, cases, mistakes)


def _update(
    x: Tensor,
    centroids: Tensor,
    sums: Tensor,
    counts: Tensor,
    decay: float,
    *,
    unit: bool = True,
    guarded: bool = True,
    memory: bool = True,
    by_clusters: bool = False,
    turned: bool = False,
    unit_after: bool = False,
    by_product: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of running means; the flags are mistakes when they are not as given."""
    home = _by_product(x, centroids) if by_product else _by_angle(x, centroids)
    homes = F.one_hot(home, len(centroids)).to(x.dtype)  # (n, n_clusters)
    now = homes.T @ (F.normalize(x, dim=-1) if unit else x)
    n_now = homes.sum(0)
    keep = 1 - decay if turned else decay
    sums = keep * sums + (1 - keep) * now
    counts = keep * counts + (1 - keep) * n_now
    by = len(centroids) if by_clusters else (counts if memory else n_now)[:, None]
    means = sums / by
    if guarded:
        means = torch.where(n_now[:, None] > 0, means, centroids)
    return (F.normalize(means, dim=-1) if unit_after else means), sums, counts


def _draw_step(
    generator: Generator, n: int, d_head: int, n_clusters: int, decay: float
) -> tuple[Any, ...]:
    x = torch.randn(n, d_head, generator=generator) * 2
    lengths = 0.3 + 4 * torch.rand(n_clusters, 1, generator=generator)
    centroids = lengths * F.normalize(torch.randn(n_clusters, d_head, generator=generator), dim=-1)
    if decay == 0:
        x, centroids[0] = x.abs(), -1.0  # the last place that anybody goes to
    counts = 1 + 5 * torch.rand(n_clusters, generator=generator)
    return x, centroids, centroids * counts[:, None], counts, decay


def _lets_pass(case: tuple[Any, ...]) -> bool:
    """Whether two mistakes would pass: products for angles, and members found after the move."""
    x, before = case[:2]
    homes = _by_angle(x, before)
    moved = case[-1] > 0 or not torch.equal(homes, _by_angle(x, _update(*case)[0]))
    return not moved or torch.equal(homes, _by_product(x, before))


def _step(answer: Any, generator: Generator) -> Verdict:
    def with_fault(**faults: bool) -> Callable[..., tuple[Tensor, ...]]:
        return lambda *case: _update(*case, **faults)

    def after_moving(x: Tensor, centroids: Tensor, *others: Any) -> tuple[Tensor, ...]:
        return _update(x, _update(x, centroids, *others)[0], *others)

    mistakes = [
        Mistake(
            "a centroid without members moves, or becomes NaN; it should stay where it is",
            with_fault(guarded=False),
        ),
        Mistake(
            "centroids have different lengths and a long one wins every product: compare angles",
            with_fault(by_product=True),
        ),
        Mistake("members count at unit length: divide each by its norm", with_fault(unit=False)),
        Mistake(
            "the sum is divided by the number of clusters; a mean divides by the members",
            with_fault(by_clusters=True),
        ),
        Mistake(
            "decay says how much of the memory is kept; yours forgets that much",
            with_fault(turned=True),
        ),
        Mistake(
            "the running sum is divided by the members of now; it needs the running count",
            with_fault(memory=False),
        ),
        Mistake("members are found before the centroids move, not after", after_moving),
        Mistake(
            "the new centroid is a mean; nobody stretches it to unit length",
            with_fault(unit_after=True),
        ),
    ]
    cases = []
    for sizes in ((9, 3, 3, 0.75), (12, 2, 5, 0.0), (4, 4, 3, 0.9)):
        case = _draw_step(generator, *sizes)
        while _lets_pass(case):
            case = _draw_step(generator, *sizes)
        cases.append(case)
    return of_function(answer, _update, cases, mistakes)


def _cheapest(answer: Any, generator: Generator) -> Verdict:
    def cost(n: int, searches: int, share: float, n_clusters: float) -> float:
        return searches * n * n_clusters + 2 * share * n * n / n_clusters

    def cheapest(n: int, searches: int, share: float) -> float:
        low, high = 1e-3, float(2 * n)
        for _ in range(200):  # a bowl: drop the third that is higher
            a, b = low + (high - low) / 3, high - (high - low) / 3
            if cost(n, searches, share, a) < cost(n, searches, share, b):
                high = b
            else:
                low = a
        return low

    mistakes = [
        Mistake(
            "that is right for two searches and all pairs; here both may change",
            lambda n, searches, share: math.sqrt(n),
        ),
        Mistake(
            "each pair takes two products, one for its score and one for its value",
            lambda n, searches, share: math.sqrt(share * n / searches),
        ),
        Mistake(
            "that is the size of a cluster; their number is asked for",
            lambda n, searches, share: n / math.sqrt(2 * share * n / searches),
        ),
        Mistake(
            "the number of clusters stands squared in the derivative: a root is missing",
            lambda n, searches, share: 2 * share * n / searches,
        ),
        Mistake(
            "a costlier search wants fewer clusters, not more",
            lambda n, searches, share: math.sqrt(2 * share * n * searches),
        ),
        Mistake(
            "that is the least cost; the number of clusters is asked for",
            lambda n, searches, share: 2 * n * math.sqrt(2 * share * searches * n),
        ),
    ]
    cases: list[Any] = [(256, 2, 1.0), (256, 2, 0.5), (256, 1, 1.0), (1000, 1, 0.5)]
    n = int(torch.randint(300, 5000, (), generator=generator))
    cases += [(n, 4, 0.25), (n, 1, 0.75)]
    return of_function(answer, cheapest, cases, mistakes, tolerance=1e-3)


def _apart(answer: Any, generator: Generator) -> Verdict:
    for n, d_head in ((6, 3), (9, 4)):
        centroids = F.normalize(torch.randn(5, d_head, generator=generator), dim=-1)
        q, k, v = torch.randn(3, 40, d_head, generator=generator)
        q = q[_by_angle(q, centroids) != 2][:n]  # at least one cluster without a query
        k, v = k[: len(q)], v[: len(q)]
        moved = returned(answer, q, k, centroids)
        if isinstance(moved, Verdict):
            return moved
        moved = vector(moved, d_head)
        if isinstance(moved, Verdict):
            return moved
        before, after = attention(q, k, v), attention(q, k + moved, v)
        if not torch.allclose(before, after, atol=0.01):
            return is_wrong(
                "the vector is so long that float32 loses the scores beside it: make it shorter"
            )
        met = int(_meeting(_by_angle)(q, k + moved, centroids, False).sum())
        if met:
            return is_wrong(
                f"{met} pairs still meet: moved keys go to a centroid to which a query goes, too"
            )
    return Verdict("right")


def _earlier_rows(x: Tensor, centroids: Tensor, size: int) -> Tensor:
    """Weights of all queries but the last, balanced clusters, causal."""
    options = {"membership": "balanced", "causal": True, "cluster_size": size}
    return routing_weights(x[None, None], x[None, None], centroids[None], **options)[0, 0, :-1]


def _felt(x: Tensor, last: Tensor, centroids: Tensor, size: int) -> float:
    """By how much some weight of an earlier query changes with another last token."""
    changed = torch.cat([x[:-1], last[None]])
    before, after = (_earlier_rows(one, centroids, size) for one in (x, changed))
    return float((before - after).abs().max())


def _draw_leak(generator: Generator, n: int, size: int) -> tuple[Tensor, Tensor, int]:
    """Tokens of which the last would be felt at one centroid or another."""
    while True:
        x = torch.randn(n, 4, generator=generator)
        centroids = F.normalize(torch.randn(3, 4, generator=generator), dim=-1)
        if any(_felt(x, centroid, centroids, size) > PLAINLY for centroid in centroids):
            return x, centroids, size


def _leak(answer: Any, generator: Generator) -> Verdict:
    for n, size in ((9, 3), (12, 4), (8, 2)):
        x, centroids, size = _draw_leak(generator, n, size)
        last = returned(answer, x, centroids, size)
        if isinstance(last, Verdict):
            return last
        last = vector(last, 4)
        if isinstance(last, Verdict):
            return last
        if torch.allclose(x[-1], last):
            return is_wrong("the last token has not changed, so nothing can")
        if not _felt(x, last, centroids, size) > 1e-6:
            return is_wrong(
                f"for {n} tokens and clusters of {size} no earlier token notices: the new one must "
                "push somebody out of a cluster, or leave one and make room"
            )
    return Verdict("right")


EXERCISES = (
    Exercise(
        name="clustering/sizes",
        title="Four clusters on paper",
        kind="predict",
        difficulty=1,
        minutes=5,
        points=2,
        goal="Count scores and silent queries from the sizes of clusters",
        examine=_sizes,
        after="Uneven clusters cost less if queries and keys avoid each other; here three queries go without.",
        drawn=False,
    ),
    Exercise(
        name="clustering/mask",
        title="Who meets whom",
        kind="implement",
        difficulty=1,
        minutes=15,
        points=3,
        goal="Turn centroids into the pairs of queries and keys that share one",
        examine=_mask,
        after="It depends on angles only, and a token's cluster on no other token.",
    ),
    Exercise(
        name="clustering/step",
        title="A centroid follows its members",
        kind="implement",
        difficulty=3,
        minutes=30,
        points=5,
        goal="Update running means of clusters, some of which may be empty",
        examine=_step,
        after="Running sums over running counts, and whoever has no members stays.",
    ),
    Exercise(
        name="clustering/cheapest",
        title="The cheapest number of clusters",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=3,
        goal="Balance the cost of searching against the cost of attending",
        examine=_cheapest,
        after="At that number both halves of the bill are equal.",
    ),
    Exercise(
        name="clustering/apart",
        title="The same attention, and nobody meets",
        kind="break",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Move all keys by a vector that attention cannot feel and clusters can",
        examine=_apart,
        after="Attention changed by no more than rounding, and routing has nothing left to read.",
    ),
    Exercise(
        name="clustering/leak",
        title="A latecomer is felt",
        kind="break",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Make a last token that changes earlier rows of a causal decoder",
        examine=_leak,
        after="No earlier query reads the last key, and still at least one notices it.",
    ),
)
