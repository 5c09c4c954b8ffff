"""A pattern as a graph: tokens are nodes, and an edge runs from each key to the queries that read it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from tinyattn.checks import whole_numbers
from tinyattn.patterns import Pattern
from tinyattn.patterns.base import QUERIES_PER_GROUP, check_lengths, check_pattern

DISTANCES_AT_ONCE = 2**22  # 32 MB of them
ROUNDING = 1e-9  # a distance that is met exactly may be computed this much larger


def path_lengths(
    pattern: Pattern | Bool[Tensor, "n n"], n: int | None = None
) -> Float[Tensor, "n n"]:
    """Layers that a signal needs from each position to each other one, by breadth-first search.

    Entry (i, j) is the least number of layers after which output i can depend on input j: 0 on
    the diagonal (the residual connection carries a token to itself), infinite where no number
    of layers is enough.

    Args:
        pattern: a rule, or its bool matrix (True where row i may read column j).
        n: tokens; needed with a rule.

    Raises:
        ValueError: if n is missing, or the matrix is not square.

    Source:
        The maximum path length of Vaswani et al. 2017, section 4 (arXiv:1706.03762), and Lin et
        al. 2022, table 2, for every pair.

    Example:
        >>> from tinyattn.patterns import Window
        >>> path_lengths(Window(2), 6)[0]
        tensor([0., 1., 1., 2., 2., 3.])
    """
    reads = adjacency(pattern, n)
    # scipy walks along row -> column, which is query -> key: the distance it gives is (i, j)
    return torch.from_numpy(csgraph.shortest_path(reads, unweighted=True)).float()


def max_path_length(pattern: Pattern | Bool[Tensor, "n n"], n: int | None = None) -> float:
    """Layers after which every output can depend on every input; infinite if some never can.

    The searches start from a few outputs at a time, so that the (n, n) matrix of
    `path_lengths` never stands in memory: n = 16,384 takes megabytes.

    Example:
        >>> from tinyattn.patterns import Dilated, Global, Window
        >>> [max_path_length(p, 12) for p in (Window(2), Window(2) | Global(1), Dilated(2, 2))]
        [6.0, 2.0, inf]
    """
    reads, longest = adjacency(pattern, n), 0.0
    n = reads.shape[0]
    at_once = max(1, DISTANCES_AT_ONCE // max(1, n))
    for start in range(0, n, at_once):
        sources = range(start, min(start + at_once, n))
        lengths = csgraph.shortest_path(reads, unweighted=True, indices=list(sources))
        longest = max(longest, float(lengths.max()))
        if math.isinf(longest):
            break
    return longest


def n_components(pattern: Pattern | Bool[Tensor, "n n"], n: int | None = None) -> int:
    """Into how many parts that never meet the sequence falls, whoever reads whom.

    Example:
        >>> from tinyattn.patterns import Strided
        >>> n_components(Strided(3), 10)
        3
    """
    return int(csgraph.connected_components(adjacency(pattern, n), directed=False)[0])


def receptive_field(
    pattern: Pattern | Bool[Tensor, "n n"], n_layers: int, n: int | None = None
) -> Bool[Tensor, "n n"]:
    """True where output i of n_layers layers with this pattern can depend on input j.

    Example:
        >>> from tinyattn.patterns import Window
        >>> receptive_field(Window(1), n_layers=2, n=6).sum(dim=1)
        tensor([3, 4, 5, 5, 4, 3])
    """
    (n_layers,) = whole_numbers(n_layers=n_layers)
    if n_layers < 0:
        raise ValueError(f"n_layers must be 0 or more, got {n_layers}")
    return path_lengths(pattern, n) <= n_layers


def first_seen(rules: Sequence[Pattern], position: int, n: int) -> Int64[Tensor, "n"]:
    """Through how many layers, counted from the last, a position first sees each of n; 0: never.

    Layer m follows rules[m]. One layer is what the last of them allows, two are what the positions
    read there read in the layer before, and so on; the position itself counts as seen by one, since
    the residual connection carries it. Costs O(n²) comparisons a layer.

    Raises:
        ValueError: if position is not in 0 … n - 1, or a rule has no meaning on n tokens.
        TypeError: if position or n is no whole number.

    Example:
        >>> from tinyattn.patterns import axial_columns, axial_rows
        >>> first_seen([axial_columns(3), axial_rows(3)], position=0, n=6).view(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    position, n = whole_numbers(position=position, n=n)
    if not 0 <= position < n:
        raise ValueError(f"position must be in 0 … {n - 1}, got {position}")
    for rule in rules:
        rule.check(n)
    seen, everything = torch.zeros(n, dtype=torch.long), torch.arange(n)
    frontier = torch.tensor([position])
    for layers, rule in enumerate(reversed(rules), start=1):
        reads = rule.allowed(frontier[:, None], everything).any(dim=0)
        reads[frontier] = True
        seen[reads & (seen == 0)] = layers
        frontier = reads.nonzero()[:, 0]
    return seen


def spectral_gap(pattern: Pattern | Bool[Tensor, "n n"], n: int | None = None) -> float:
    """1 - |λ₂| of the walk that moves from a token to one of the keys it reads, each as likely.

    Near 1, any start is forgotten within a few steps; 0 means that some part is never left or
    that the walk swings for ever. A token that reads nothing stays where it is.

    Raises:
        ValueError: if there are fewer than two tokens.

    Source:
        Lovász 1993, "Random walks on graphs: a survey"; Zaheer et al. 2020, section 2, argue
        with it for random links.

    Example:
        >>> from tinyattn.patterns import Full, Strided
        >>> round(spectral_gap(Full(), 8), 6), round(spectral_gap(Strided(2), 8), 6)
        (1.0, 0.0)
    """
    walk = _walk(pattern, n)
    if walk.shape[0] < 2:
        raise ValueError(f"a spectral gap needs two tokens or more, got n={walk.shape[0]}")
    sizes = np.sort(np.abs(np.linalg.eigvals(walk.toarray())))
    return float(1.0 - sizes[-2])


def mixing_time(
    pattern: Pattern | Bool[Tensor, "n n"],
    n: int | None = None,
    *,
    distance: float = 0.25,
    n_steps: int = 10_000,
) -> float:
    """Steps until the walk from the worst start is within `distance` of where it ends up.

    The distance is the total variation to the stationary distribution. Infinite if n_steps are
    not enough, as for a pattern that falls apart.

    Raises:
        ValueError: if there is no token, or distance or n_steps is out of range.

    Example:
        >>> from tinyattn.patterns import Full
        >>> mixing_time(Full(), 8)
        1.0
    """
    (n_steps,) = whole_numbers(n_steps=n_steps)
    if not 0 < distance < 1 or n_steps < 0:
        raise ValueError(
            "distance must be between 0 and 1 and n_steps 0 or more, "
            f"got distance={distance}, n_steps={n_steps}"
        )
    if n_components(pattern, n) > 1:
        return math.inf
    walk = _walk(pattern, n).toarray()
    if len(walk) == 0:
        raise ValueError("a walk needs at least one token, got n=0")
    values, vectors = np.linalg.eig(walk.T)
    stationary = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
    stationary = stationary / stationary.sum()
    at = np.eye(len(walk))
    for step in range(n_steps + 1):
        if 0.5 * np.abs(at - stationary).sum(axis=1).max() <= distance + ROUNDING:
            return float(step)
        at = at @ walk
    return math.inf


def adjacency(pattern: Pattern | Bool[Tensor, "n n"], n: int | None = None) -> sparse.csr_array:
    """The allowed pairs as a scipy matrix, row i reads column j, built in O(pairs within reach).

    Raises:
        ValueError: if a rule comes without n, or with one that it has no meaning on, or a matrix
            is not square or not of n tokens.
        TypeError: if it is neither a rule nor a bool matrix.
    """
    if isinstance(pattern, Tensor):
        if pattern.dtype != torch.bool:
            raise TypeError(f"the mask of a graph must be bool, True = reads, got {pattern.dtype}")
        if pattern.dim() != 2 or pattern.shape[0] != pattern.shape[1]:
            raise ValueError(f"the mask of a graph must be (n, n), got {tuple(pattern.shape)}")
        if n not in (None, len(pattern)):
            raise ValueError(f"n={n} is not the {len(pattern)} tokens of the mask; leave it out")
        return sparse.csr_array(pattern.cpu().numpy())
    check_pattern(pattern)
    if n is None:
        raise ValueError(f"say how many tokens the graph of {pattern!r} has: n")
    n, _ = check_lengths(n, n)
    pattern.check(n)
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, n, QUERIES_PER_GROUP):
        queries = range(start, min(start + QUERIES_PER_GROUP, n))
        for keys in pattern.reach(queries, n):
            i = torch.arange(queries.start, queries.stop)[:, None]
            j = torch.arange(keys.start, keys.stop, keys.step)
            row, column = pattern.allowed(i, j).expand(len(i), len(j)).nonzero(as_tuple=True)
            rows.append(row.numpy() + queries.start)
            columns.append(j[column].numpy())
    row, column = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_array((np.ones(len(row), dtype=bool), (row, column)), shape=(n, n))


def _walk(pattern: Pattern | Tensor, n: int | None) -> sparse.csr_array:
    reads = adjacency(pattern, n).astype(float)
    degree = np.asarray(reads.sum(axis=1)).ravel()
    stay = sparse.diags_array((degree == 0).astype(float))
    return sparse.csr_array(sparse.diags_array(1.0 / np.maximum(degree, 1.0)) @ reads + stay)
