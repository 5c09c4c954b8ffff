"""Defects of masks: who may read whom."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tinyattn.exercises.museum.base import Bug, Exhibit


def window_mask(n: int, w: int) -> Tensor:
    """True where query i may read key j: the last w keys before it, and its own; causal."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j <= i) & (i - j <= w)


def window_short(n: int, w: int) -> Tensor:
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j <= i) & (i - j < w)


def window_not_causal(n: int, w: int) -> Tensor:
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (i - j).abs() <= w


def window_without_itself(n: int, w: int) -> Tensor:
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j < i) & (i - j <= w)


def window_turned(n: int, w: int) -> Tensor:
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j >= i) & (j - i <= w)


def padding_to_mask(lengths: Tensor, n_k: int) -> Tensor:
    """True where a key of a padded batch may be read: lengths (b,) gives (b, n_k)."""
    return torch.arange(n_k) < lengths[:, None]


def padding_turned(lengths: Tensor, n_k: int) -> Tensor:
    return torch.arange(n_k) >= lengths[:, None]


def padding_one_more(lengths: Tensor, n_k: int) -> Tensor:
    return torch.arange(n_k) <= lengths[:, None]


def padding_on_the_left(lengths: Tensor, n_k: int) -> Tensor:
    return torch.arange(n_k) >= n_k - lengths[:, None]


def padding_of_the_longest(lengths: Tensor, n_k: int) -> Tensor:
    return (torch.arange(n_k) < lengths.max()).expand(len(lengths), n_k)


def weights_of(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the allowed scores of each row; a row that allows nothing is zero."""
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def weights_nan(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)


def weights_uniform(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~mask, -1e9), dim=-1)


def weights_late(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)


def weights_zeroed(scores: Tensor, mask: Tensor) -> Tensor:
    weights = torch.softmax(scores.masked_fill(~mask, 0.0), dim=-1)
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def attend_on_edges(scores: Tensor, edges: list[tuple[int, int]]) -> Tensor:
    """Weights (n_q, n_k) of a softmax over the pairs of a union of patterns, listed as edges.

    A pair that two patterns allow stands in the list twice, and counts once.
    """
    mask = torch.zeros_like(scores, dtype=torch.bool)
    for i, j in edges:
        mask[i, j] = True
    return weights_of(scores, mask)


def edges_counted_twice(scores: Tensor, edges: list[tuple[int, int]]) -> Tensor:
    raised = torch.zeros_like(scores)
    for i, j in edges:
        raised[i, j] += scores[i, j].exp()
    return raised / raised.sum(-1, keepdim=True).clamp(min=1e-30)


def edges_total_counted_twice(scores: Tensor, edges: list[tuple[int, int]]) -> Tensor:
    raised, total = torch.zeros_like(scores), torch.zeros(len(scores), 1)
    for i, j in edges:
        raised[i, j] = scores[i, j].exp()
        total[i] += scores[i, j].exp()
    return raised / total.clamp(min=1e-30)


def edges_turned(scores: Tensor, edges: list[tuple[int, int]]) -> Tensor:
    mask = torch.zeros_like(scores, dtype=torch.bool)
    for i, j in edges:
        if j < mask.shape[0] and i < mask.shape[1]:
            mask[j, i] = True
    return weights_of(scores, mask)


def edges_once_only(scores: Tensor, edges: list[tuple[int, int]]) -> Tensor:
    single = [edge for edge in edges if edges.count(edge) == 1]
    return attend_on_edges(scores, single)


EXHIBITS = (
    Exhibit(
        "window",
        "A window that is one key short",
        window_mask,
        (
            Bug("it allows w keys with the query's own among them, one too few", window_short),
            Bug("it reads ahead: keys after the query are allowed", window_not_causal),
            Bug("a query may not read its own key", window_without_itself),
            Bug("rows and columns have changed places: it reads only ahead", window_turned),
        ),
        "https://github.com/rasbt/LLMs-from-scratch/pull/1013",
    ),
    Exhibit(
        "padding",
        "True means may read, or the opposite",
        padding_to_mask,
        (
            Bug("True stands at the padding", padding_turned),
            Bug("the first pad of each sequence is allowed", padding_one_more),
            Bug("it takes the padding to stand in front", padding_on_the_left),
            Bug("every sequence gets the length of the longest", padding_of_the_longest),
        ),
        "https://github.com/InseeFrLab/torchTextClassifiers/pull/92",
    ),
    Exhibit(
        "blind_row",
        "A row of minus infinities",
        weights_of,
        (
            Bug("a row that allows nothing is NaN", weights_nan),
            Bug("a row that allows nothing reads everything equally", weights_uniform),
            Bug("rows do not sum to 1, because the mask comes after the softmax", weights_late),
            Bug("forbidden scores become 0 and still get weight", weights_zeroed),
        ),
        "https://github.com/pytorch/pytorch/issues/103963",
    ),
    Exhibit(
        "duplicate_edges",
        "A pair that counts twice",
        attend_on_edges,
        (
            Bug("a pair that is listed twice gets twice the weight", edges_counted_twice),
            Bug(
                "the sum below counts pairs again, so rows sum to less than 1",
                edges_total_counted_twice,
            ),
            Bug("queries and keys of an edge have changed places", edges_turned),
            Bug("a pair that is listed twice is dropped", edges_once_only),
        ),
        "https://github.com/pyg-team/pytorch_geometric/issues/9654",
    ),
)
