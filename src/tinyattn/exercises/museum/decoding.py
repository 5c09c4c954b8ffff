"""Defects of training and generation: caches, selection, and what a mean is taken over."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tinyattn.exercises.museum.base import Bug, Exhibit


def prefill_mask(n_new: int, n_cached: int) -> Tensor:
    """True where a new token may read: all cached ones, new ones up to itself.

    Shape (n_new, n_cached + n_new): the keys are the cached ones and then the new ones.
    """
    position = n_cached + torch.arange(n_new)[:, None]
    return torch.arange(n_cached + n_new) <= position


def prefill_open(n_new: int, n_cached: int) -> Tensor:
    return torch.ones(n_new, n_cached + n_new, dtype=torch.bool)


def prefill_top_left(n_new: int, n_cached: int) -> Tensor:
    return torch.ones(n_new, n_cached + n_new, dtype=torch.bool).tril()


def prefill_new_only(n_new: int, n_cached: int) -> Tensor:
    mask = prefill_mask(n_new, n_cached)
    mask[:, :n_cached] = False
    return mask


def prefill_cached_only(n_new: int, n_cached: int) -> Tensor:
    mask = prefill_mask(n_new, n_cached)
    mask[:, n_cached:] = False
    return mask


def next_positions(n_cached: int, n_new: int) -> Tensor:
    """Positions of new tokens behind n_cached that are in the cache: n_cached, n_cached + 1, …"""
    return torch.arange(n_cached, n_cached + n_new)


def positions_from_zero(n_cached: int, n_new: int) -> Tensor:
    return torch.arange(n_new)


def positions_by_calls(n_cached: int, n_new: int) -> Tensor:
    return torch.arange(n_new) + (n_cached + n_new if n_cached else 0)


def positions_all_equal(n_cached: int, n_new: int) -> Tensor:
    return torch.full((n_new,), n_cached)


def positions_one_behind(n_cached: int, n_new: int) -> Tensor:
    return torch.arange(n_new) + max(n_cached - 1, 0)


def read_best(scores: Tensor, n_best: int) -> Tensor:
    """True at the n_best highest scores that each query may see: key j <= query i."""
    n = len(scores)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    seen = scores.masked_fill(~causal, -torch.inf)
    best = seen.topk(min(n_best, n), dim=-1).indices
    return torch.zeros_like(causal).scatter(-1, best, True) & causal


def best_then_causal(scores: Tensor, n_best: int) -> Tensor:
    n = len(scores)
    best = scores.topk(min(n_best, n), dim=-1).indices
    return torch.zeros(n, n, dtype=torch.bool).scatter(-1, best, True).tril()


def best_not_causal(scores: Tensor, n_best: int) -> Tensor:
    n = len(scores)
    best = scores.topk(min(n_best, n), dim=-1).indices
    return torch.zeros(n, n, dtype=torch.bool).scatter(-1, best, True)


def best_by_last_query(scores: Tensor, n_best: int) -> Tensor:
    n = len(scores)
    best = scores[-1].topk(min(n_best, n)).indices
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[best] = True
    return chosen.expand(n, n).tril()


def best_lowest(scores: Tensor, n_best: int) -> Tensor:
    return read_best(-scores, n_best)


def mean_loss(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    """Mean cross-entropy in nats over the targets that are not `pad`.

    Logits are (b, n, n_tokens), targets (b, n).
    """
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    kept = targets != pad
    return losses[kept].mean()


def loss_over_everything(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * (targets != pad)).mean()


def loss_with_pads(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    return functional.cross_entropy(logits.transpose(1, 2), targets)


def loss_mean_of_means(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    kept = targets != pad
    return ((losses * kept).sum(1) / kept.sum(1)).mean()


def loss_of_all_tokens(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses[targets != pad].sum()


EXHIBITS = (
    Exhibit(
        "prefill",
        "A prompt that reads itself backwards",
        prefill_mask,
        (
            Bug("with a cache there is no causal mask: a prompt reads its own end", prefill_open),
            Bug(
                "the triangle starts at the first key, so cached keys are hidden", prefill_top_left
            ),
            Bug("new tokens do not read the cache", prefill_new_only),
            Bug("new tokens read the cache only, not themselves", prefill_cached_only),
        ),
        "https://github.com/Mikyx-1/TinyLLM/issues/17",
    ),
    Exhibit(
        "cached_positions",
        "Counting from zero again",
        next_positions,
        (
            Bug("positions start again at 0 in each call", positions_from_zero),
            Bug("the first call's tokens are counted twice", positions_by_calls),
            Bug("several new tokens all get one position", positions_all_equal),
            Bug(
                "the first new token gets the position of the last cached one", positions_one_behind
            ),
        ),
        "https://github.com/ml-explore/mlx-lm/pull/93",
    ),
    Exhibit(
        "selection",
        "The future decides who is chosen",
        read_best,
        (
            Bug("future keys take places among the best before they are hidden", best_then_causal),
            Bug("future keys may be read", best_not_causal),
            Bug("one choice, made at the last query, serves all", best_by_last_query),
            Bug("it keeps the lowest scores", best_lowest),
        ),
        "https://github.com/piotrpiekos/MoSA/issues/3",
    ),
    Exhibit(
        "mean",
        "A mean over the padding",
        mean_loss,
        (
            Bug("pads add nothing above the line and are counted below it", loss_over_everything),
            Bug("pads are targets like others", loss_with_pads),
            Bug("short sequences weigh as much as long ones", loss_mean_of_means),
            Bug("it is a sum, so longer batches look worse", loss_of_all_tokens),
        ),
        "https://github.com/tracel-ai/burn/issues/5568",
    ),
)
