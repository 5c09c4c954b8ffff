"""Answers to the exercises of chapter 11."""

import math

import torch

from tests.exercises.answers import Answers
from tinyattn.content import routing_weights


def counted(scores=44, silent=3, balanced=64):
    return {"scores": scores, "silent": silent, "balanced": balanced}


def cosine(a, b):
    return float(a @ b / (a.norm() * b.norm()))


def pairs(home_q, home_k=None, causal=lambda i, j: j <= i):
    """A mask from the cluster of a query and that of a key, written as loops."""
    home_k = home_k or home_q

    def answer(q, k, centroids, is_causal):
        return torch.tensor(
            [
                [
                    home_q(x, centroids) == home_k(y, centroids) and (not is_causal or causal(i, j))
                    for j, y in enumerate(k)
                ]
                for i, x in enumerate(q)
            ]
        )

    return answer


def best(likeness):
    def home(x, centroids):
        found = [likeness(x, centroid) for centroid in centroids]
        return found.index(max(found))

    return home


by_cosine = best(cosine)


def mask_at_once(q, k, centroids, causal):
    along = centroids / centroids.norm(dim=1, keepdim=True)
    homes = [torch.argmax(x @ along.T, dim=1) for x in (q, k)]
    mask = homes[0].unsqueeze(1) == homes[1].unsqueeze(0)
    return torch.tril(mask) if causal else mask


def keys_follow_queries(q, k, centroids, causal):
    return mask_at_once(q, q, centroids, causal)


def chosen_by_centroids(q, k, centroids, causal):
    weights = routing_weights(
        q[None, None], k[None, None], centroids[None], membership="balanced", causal=causal
    )
    return weights[0, 0] > 0


def follow(
    unit=True,
    stay=True,
    running=True,
    keep=lambda d: d,
    divide=None,
    rounds=1,
    stretch=False,
    likeness=cosine,
):
    """One update cluster by cluster, with faults by choice."""

    def answer(x, centroids, sums, counts, decay):
        at = centroids
        for _ in range(rounds):
            homes = [best(likeness)(vector, at) for vector in x]
            new, new_sums, new_counts = at.clone(), sums.clone(), counts.clone()
            for c in range(len(centroids)):
                members = [
                    vector / (vector.norm() if unit else 1)
                    for vector, home in zip(x, homes, strict=True)
                    if home == c
                ]
                total = sum(members, torch.zeros_like(sums[c]))
                kept = keep(decay)
                new_sums[c] = kept * sums[c] + (1 - kept) * total
                new_counts[c] = kept * counts[c] + (1 - kept) * len(members)
                if members or not stay:
                    by = new_counts[c] if running else torch.tensor(float(len(members)))
                    new[c] = new_sums[c] / (divide or by)
                if stretch:
                    new[c] /= new[c].norm()
            at = new
        return new, new_sums, new_counts

    return answer


def follow_by_index(x, centroids, sums, counts, decay):
    unit = x / x.norm(dim=1, keepdim=True)
    homes = (unit @ (centroids / centroids.norm(dim=1, keepdim=True)).T).max(dim=1).indices
    fresh = torch.zeros_like(sums).index_add_(0, homes, unit)
    n_fresh = homes.bincount(minlength=len(counts)).float()
    sums, counts = torch.lerp(fresh, sums, decay), torch.lerp(n_fresh, counts, decay)
    empty = n_fresh == 0
    moved = sums / counts.unsqueeze(1)
    moved[empty] = centroids[empty]
    return moved, sums, counts


def divided_by_clusters(x, centroids, sums, counts, decay):
    return follow(divide=len(centroids))(x, centroids, sums, counts, decay)


def empty_home(q, centroids):
    homes = {by_cosine(x, centroids) for x in q}
    return next(c for c in range(len(centroids)) if c not in homes)


def far_away(q, k, centroids):
    return 1000 * centroids[empty_home(q, centroids)]


def just_enough(q, k, centroids):
    c, length = empty_home(q, centroids), 1.0
    while any(by_cosine(x + length * centroids[c], centroids) != c for x in k):
        length *= 2
    return (length * centroids[c]).tolist()


def sent_to_a_query(q, k, centroids):
    return 1000 * centroids[by_cosine(q[0], centroids)]


def rows_of(x, centroids, size):
    options = {"membership": "balanced", "causal": True, "cluster_size": size}
    return routing_weights(x[None, None], x[None, None], centroids[None], **options)[0, 0, :-1]


def tried(x, centroids, size):
    """Whichever centroid's direction makes a difference."""
    before = rows_of(x, centroids, size)
    for sign in (1, -1):
        for centroid in centroids:
            other = torch.cat([x[:-1], sign * centroid[None]])
            if not torch.allclose(before, rows_of(other, centroids, size), atol=1e-4):
                return sign * centroid
    return x[-1]


def invited(x, centroids, size):
    """Takes a seat in a cluster that the last token has none in."""
    along = (x / x.norm(dim=1, keepdim=True)) @ centroids.T  # (n, n_clusters)
    for c in range(len(centroids)):
        members = along[:, c].topk(size).indices.tolist()
        if len(x) - 1 not in members:
            return centroids[c] * 3
    return -x[-1]


ANSWERS = {
    "clustering/sizes": Answers(
        right=(counted(), counted(44.0, torch.tensor(3), 64)),
        wrong=(
            ("queries times keys", counted(scores=256)),
            ("keys without queries", counted(silent=9)),
            ("one of them silences", counted(silent=12)),
            ("16 scores", counted(balanced=16)),
            ("that is all pairs", counted(balanced=256)),
            ("'scores', 'silent'", counted(scores=40, silent=0)),
        ),
    ),
    "clustering/mask": Answers(
        right=(pairs(by_cosine), mask_at_once),
        wrong=(
            ("compare angles", pairs(best(lambda x, c: float(x @ c)))),
            ("distances depend", pairs(best(lambda x, c: -float((x - c).norm())))),
            ("the other way", pairs(best(lambda x, c: -cosine(x, c)))),
            ("their query's", keys_follow_queries),
            ("causal is ignored", pairs(by_cosine, causal=lambda i, j: True)),
            ("j = i is allowed", pairs(by_cosine, causal=lambda i, j: j < i)),
            ("upside down", pairs(by_cosine, causal=lambda i, j: j >= i)),
            ("each centroid chooses", chosen_by_centroids),
            ("yours is", lambda q, k, c, causal: ~mask_at_once(q, k, c, causal)),
        ),
    ),
    "clustering/step": Answers(
        right=(follow(), follow_by_index),
        wrong=(
            ("stay where it is", follow(stay=False)),
            ("compare angles", follow(likeness=lambda x, c: float(x @ c))),
            ("by its norm", follow(unit=False)),
            ("a mean divides by the members", divided_by_clusters),
            ("forgets that much", follow(keep=lambda d: 1 - d)),
            ("needs the running count", follow(running=False)),
            ("before the centroids move", follow(rounds=2)),
            ("stretches it", follow(stretch=True)),
            ("3 results are wanted", lambda *given: follow()(*given)[0]),
        ),
    ),
    "clustering/cheapest": Answers(
        right=(
            lambda n, searches, share: (2 * n * share / searches) ** 0.5,
            lambda n, searches, share: min(
                (c / 50 for c in range(1, 50 * 160)),
                key=lambda c: searches * c + 2 * share * n / c,
            ),
        ),
        wrong=(
            ("both may change", lambda n, searches, share: n**0.5),
            ("two products", lambda n, searches, share: (share * n / searches) ** 0.5),
            ("the size of a cluster", lambda n, searches, share: (n * searches / 2 / share) ** 0.5),
            ("a root is missing", lambda n, searches, share: 2 * n * share / searches),
            ("fewer clusters", lambda n, searches, share: (2 * n * share * searches) ** 0.5),
            (
                "the least cost",
                lambda n, searches, share: math.sqrt(8 * share * searches) * n**1.5,
            ),
            ("yours is", lambda n, searches, share: 16),
        ),
    ),
    "clustering/apart": Answers(
        right=(far_away, just_enough),
        wrong=(
            ("pairs still meet", lambda q, k, centroids: 0 * centroids[0]),
            ("12 pairs still meet", sent_to_a_query),
            ("one vector of 3 numbers", lambda q, k, centroids: centroids),
            ("must be finite", lambda q, k, centroids: far_away(q, k, centroids) * math.inf),
            ("make it shorter", lambda q, k, centroids: far_away(q, k, centroids) * 9e2),
            ("raised", lambda q, k: 0),
            ("got {'moved': 1} (dict)", lambda q, k, centroids: {"moved": 1}),
            ("got ()", lambda q, k, centroids: 10**30),
            ("(generator)", lambda q, k, centroids: (x for x in q[0])),
        ),
    ),
    "clustering/leak": Answers(
        right=(tried, invited),
        wrong=(
            ("has not changed", lambda x, centroids, size: x[-1]),
            ("no earlier token notices", lambda x, centroids, size: 1.001 * x[-1]),
            ("one vector of 4", lambda x, centroids, size: centroids),
            ("must be finite", lambda x, centroids, size: x[-1] / 0),
            ("raised TypeError", lambda x: x[-1]),
            ("got 'far away' (str)", lambda x, centroids, size: "far away"),
            ("got [[1, 2], [3]] (list)", lambda x, centroids, size: [[1, 2], [3]]),
            ("got (2, 4)", lambda x, centroids, size: (x[-1], x[0])),
        ),
    ),
}
