"""Defects inside a layer: axes, scales and shapes that happen to fit."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tinyattn.exercises.museum.base import Bug, Exhibit


def merge_heads(x: Tensor) -> Tensor:
    """Heads side by side again: (b, h, n, d_head) gives (b, n, h * d_head), head 0 first."""
    return x.transpose(1, 2).flatten(2)


def merge_without_permute(x: Tensor) -> Tensor:
    b, h, n, d_head = x.shape
    return x.reshape(b, n, h * d_head)


def merge_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


def merge_backwards(x: Tensor) -> Tensor:
    return x.flip(1).transpose(1, 2).flatten(2)


def merge_first_only(x: Tensor) -> Tensor:
    return x[:, :1].expand_as(x).transpose(1, 2).flatten(2)


def add_positions(x: Tensor, table: Tensor) -> Tensor:
    """Add row p of `table` (n_max, d_model) to the token at position p of x (b, n, d_model)."""
    return x + table[: x.shape[1]]


def positions_by_batch(x: Tensor, table: Tensor) -> Tensor:
    return x + table[: x.shape[0], None]


def positions_shifted(x: Tensor, table: Tensor) -> Tensor:
    return x + table[1 : x.shape[1] + 1]


def positions_first_only(x: Tensor, table: Tensor) -> Tensor:
    return x + table[:1]


def positions_in_place(x: Tensor, table: Tensor) -> Tensor:
    return x.add_(table[: x.shape[1]])


def head_scores(q: Tensor, k: Tensor) -> Tensor:
    """Scores of heads, q kᵀ / √d_head: (b, h, n_q, d_head) and (b, h, n_k, d_head)."""
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def scores_by_d_model(q: Tensor, k: Tensor) -> Tensor:
    d_model = q.shape[1] * q.shape[-1]
    return q @ k.transpose(-1, -2) / math.sqrt(d_model)


def scores_without_root(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) / q.shape[-1]


def scores_without_scale(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2)


def scores_times_root(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) * math.sqrt(q.shape[-1])


def read_values(scores: Tensor, v: Tensor) -> Tensor:
    """Each query's weighted average: scores (n_q, n_k) and v (n_k, d_v) give (n_q, d_v)."""
    return torch.softmax(scores, dim=-1) @ v


def read_over_queries(scores: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(scores, dim=0) @ v


def read_inside(scores: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(scores @ v, dim=-1)


def read_over_everything(scores: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(scores.flatten(), dim=0).reshape(scores.shape) @ v


def read_twice(scores: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.softmax(scores, dim=-1), dim=-1) @ v


EXHIBITS = (
    Exhibit(
        "merge",
        "The permute that was lost",
        merge_heads,
        (
            Bug("pieces of different tokens are glued together", merge_without_permute),
            Bug("the heads' numbers are interleaved", merge_interleaved),
            Bug("the heads come in reverse order", merge_backwards),
            Bug("head 0 stands in every head's place", merge_first_only),
        ),
        "https://github.com/jsbaan/transformer-from-scratch/issues/6",
    ),
    Exhibit(
        "positions",
        "Positions on the axis of the batch",
        add_positions,
        (
            Bug("every token of a sequence gets the position of its sequence", positions_by_batch),
            Bug("positions start at 1", positions_shifted),
            Bug("every token gets position 0", positions_first_only),
            Bug("the caller's tokens are changed as well", positions_in_place),
        ),
        "https://github.com/cmu-l3/anlp-fall2025-code/issues/1",
    ),
    Exhibit(
        "scale",
        "The root of the wrong width",
        head_scores,
        (
            Bug("it divides by the root of d_model instead of d_head", scores_by_d_model),
            Bug("it divides by d_head instead of its root", scores_without_root),
            Bug("it does not divide", scores_without_scale),
            Bug("it multiplies by the root", scores_times_root),
        ),
        "https://github.com/lucidrains/vit-pytorch/issues/65",
    ),
    Exhibit(
        "axis",
        "A softmax over the queries",
        read_values,
        (
            Bug("each key's weights sum to 1, not each query's", read_over_queries),
            Bug("the softmax is taken after the values", read_inside),
            Bug("all weights together sum to 1", read_over_everything),
            Bug("the softmax is taken twice, so every weight is nearly equal", read_twice),
        ),
        "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
    ),
)
