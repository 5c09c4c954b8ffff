"""What a library means by a mask, a window, causal and scale: read from its matrix of weights.

The values are the unit vectors, so what a library returns is its matrix of weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Answers = dict[str, dict[str, str]]  # way of calling -> what was asked -> what came
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # q, k, v, each (1, 1, n, d_head) -> out


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(attend: Attend, n_q: int, n_k: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix of weights (n_q, n_k), with the queries and keys that led to it."""
    n_k = n_k or n_q
    q, k = randn(1, 1, n_q, n_k), randn(1, 1, n_k, n_k, seed=1)
    out = attend(q, k, torch.eye(n_k, dtype=torch.float64)[None, None])
    return out[0, 0], q[0, 0], k[0, 0]


def read(row: Tensor) -> list[int]:
    """The keys that one query reads."""
    return row.gt(1e-9).nonzero().flatten().tolist()


def mark(row: Tensor, mask: Tensor) -> str:
    """What True, or 1, means in a mask: the row read nothing else, or nothing of it."""
    marked = set(read(mask.double()))
    if set(read(row)) <= marked:
        return "is read"
    assert not marked & set(read(row)), f"a mask with {marked} made a row read {read(row)}"
    return "is left out"


def window(found: Tensor, query: int) -> str:
    """Which keys around a query in the middle are read, and whether its own is."""
    keys = sorted({*read(found[query]), query})
    assert keys == list(range(keys[0], keys[-1] + 1)), f"not one stretch of keys: {keys}"
    beside = read(found[query + 1])
    if beside == keys:
        return f"{len(keys)} keys, whole blocks"
    if beside[0] == keys[0]:
        return "whole blocks, up to itself"
    return f"{query - keys[0]} before, {own(found)}, {keys[-1] - query} after"


def own(found: Tensor) -> str:
    """Whether a query reads the key at its own position."""
    return "not itself" if (found.diagonal() < 1e-9).all() else "itself"


def causal(attend: Attend, n_q: int = 2, n_k: int = 5) -> str:
    """Where the first of two queries stands beside five keys."""
    try:
        found, _, _ = weights(attend, n_q, n_k)
    except (RuntimeError, AssertionError, ValueError):
        return "as many queries as keys"
    if len(found) != n_q:
        return "as many queries as keys"
    return {0: "first query at first key", n_k - n_q: "last query at last key"}[read(found[0])[-1]]


def scale(found: Tensor, q: Tensor, k: Tensor) -> str:
    """The factor c in softmax(c q k^T), fitted to the logarithms of the weights that are not 0."""
    live = found > 1e-9

    def centred(x: Tensor) -> Tensor:
        mean = x.where(live, 0).sum(-1, keepdim=True) / live.sum(-1, keepdim=True)
        return (x - mean).where(live, 0)

    logs = centred(found.clamp(min=1e-300).log())
    for keys, words in ((k, ""), (F.normalize(k, dim=-1), ", keys of length 1")):
        scores = centred(q @ keys.mT)
        factor = (logs * scores).sum() / scores.square().sum()
        if torch.allclose(logs, factor * scores, atol=1e-5):
            names = {"1/√d_head": q.shape[-1] ** -0.5, "1": 1.0}
            close = [name for name, value in names.items() if abs(factor / value - 1) < 1e-4]
            assert close, f"a factor of {factor:.4g} has no name here"
            return close[0] + words
    raise AssertionError("the weights are no softmax of c q k^T")


def empty(row: Tensor) -> str:
    """What a query gets that may read nothing."""
    if row.isnan().all():
        return "NaN"
    if (row == 0).all():
        return "zeros"
    live = row[read(row)]
    assert torch.allclose(live, live.mean().expand_as(live)), f"an empty row became {row}"
    return "the mean of all" if len(live) == len(row) else "the mean of its blocks"


def only(key: int, n_q: int = 3, n_k: int = 5) -> Tensor:
    """A mask that holds True for one key."""
    mask = torch.zeros(n_q, n_k, dtype=torch.bool)
    mask[:, key] = True
    return mask
