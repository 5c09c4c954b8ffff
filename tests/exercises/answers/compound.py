"""Answers to the exercises of chapter 8."""

import math
import random

import torch

from tests.exercises.answers import Answers
from tinyattn.analysis import path_lengths
from tinyattn.patterns import Causal, Global, Window


def sides(longformer=256, etc=84, survey=1, sparse=128, decoder=4095):
    return locals().copy()


def once_by_mask(scores, lists):
    kept = torch.tensor([any(key in keys for keys in lists) for key in range(len(scores))])
    raised = scores.exp() * kept
    return raised / raised.sum() if kept.any() else raised


def once_by_set(scores, lists):
    keys = sorted(set().union(*lists))
    out = torch.zeros(len(scores))
    out[keys] = torch.softmax(scores[keys], dim=0)
    return out


def one_behind_the_other(scores, lists):
    keys = [key for some in lists for key in some]
    out = torch.zeros(len(scores))
    if keys:
        out.index_add_(0, torch.tensor(keys), scores[keys].softmax(0))
    return out


def times(scores, lists):
    return torch.tensor([sum(key in keys for keys in lists) for key in range(len(scores))])


def separate(scores, lists):
    out = torch.zeros(len(scores))
    for keys in lists:
        if keys:
            out[keys] += scores[keys].softmax(0) / len(lists)
    return out


def in_all(scores, lists):
    keys = [key for key in range(len(scores)) if lists and all(key in some for some in lists)]
    return once_by_set(scores, [keys])


def nan_without_keys(scores, lists):
    return scores.masked_fill(times(scores, lists) == 0, -math.inf).softmax(0)


def drawn(n_blocks, r, seed, *, around=1, ends=True, replace=False, edge_rows=False, pick=None):
    """Random blocks by Python's own generator, with faults by choice."""
    dice = random.Random(seed)
    table = []
    for block in range(n_blocks):
        free = [b for b in range(n_blocks) if abs(b - block) > around]
        if ends:
            free = [b for b in free if b not in (0, n_blocks - 1)]
        if block in (0, n_blocks - 1) and not edge_rows:
            table.append([])
        elif replace:
            table.append([dice.choice(free) for _ in range(r)] if free else [])
        elif pick:
            table.append(pick(free, r))
        else:
            table.append(dice.sample(free, min(r, len(free))))
    return table


def by_permutation(n_blocks, r, seed):
    generator = torch.Generator().manual_seed(seed)
    table = [[]]
    for block in range(1, n_blocks - 1):
        order = torch.randperm(n_blocks - 2, generator=generator) + 1
        table.append(order[(order - block).abs() > 1][:r])
    return [*table, []]


def unseeded(n_blocks, r, seed):
    return drawn(n_blocks, r, random.random())


def last_of_block(i, j, stride):
    end = j // stride * stride + stride - 1
    return end if end < i else j


def by_search(i, j, stride):
    def reads(a, b):
        return b <= a and (a // stride == b // stride or b % stride == stride - 1)

    return next(m for m in range(j, i + 1) if reads(i, m) and reads(m, j))


def longest(n, w, place):
    lengths = path_lengths((Window(w) | Global((place,))) & Causal(), n)
    return lengths.tril().max().item()


ANSWERS = {
    "compound/windows": Answers(
        right=(sides(), {name: float(w) for name, w in sides().items()}),
        wrong=(
            ("half of it is w", sides(longformer=512)),
            ("not halved", sides(etc=42)),
            ("three wide", sides(survey=3)),
            ("129 keys", sides(sparse=127)),
            ("the query's own", sides(decoder=4096)),
            ("halving every number", sides(256, 42, 1, 64, 2048)),
            ("'survey', 'decoder'", sides(survey=2, decoder=2048)),
        ),
    ),
    "compound/once": Answers(
        right=(once_by_mask, once_by_set),
        wrong=(
            ("larger by log 2", one_behind_the_other),
            (
                "comes too late",
                lambda s, lists: one_behind_the_other(s, lists) / times(s, lists).clamp(min=1),
            ),
            ("softmax of its own", separate),
            ("what all hold", in_all),
            ("have weight 0", lambda s, lists: torch.softmax(s, 0)),
            ("do not sum to 1", lambda s, lists: s.softmax(0).where(times(s, lists) > 0, 0)),
            ("not NaN", nan_without_keys),
            ("the shape is", lambda s, lists: s[sorted(set().union(*lists))].softmax(0)),
        ),
    ),
    "compound/random_blocks": Answers(
        right=(drawn, by_permutation),
        wrong=(
            ("are global and read anyway", lambda n, r, seed: drawn(n, r, seed, ends=False)),
            ("in its own window", lambda n, r, seed: drawn(n, r, seed, around=0)),
            ("draws a block twice", lambda n, r, seed: drawn(n, r, seed, replace=True)),
            ("draw nothing", lambda n, r, seed: drawn(n, r, seed, edge_rows=True)),
            ("another table the second time", unseeded),
            ("depend on the seed", lambda n, r, seed: drawn(n, r, 0)),
            ("it should draw 2", lambda n, r, seed: drawn(n, r - 1, seed)),
            (
                "never draws block 7",
                lambda n, r, seed: drawn(
                    n,
                    r,
                    seed,
                    pick=lambda free, r: random.Random(seed).sample(
                        free[:3], min(r, len(free[:3]))
                    ),
                ),
            ),
            ("each of the 9 blocks", lambda n, r, seed: drawn(n, r, seed)[1:-1]),
            ("a list of lists", lambda n, r, seed: 3),
        ),
    ),
    "compound/two_hops": Answers(
        right=(last_of_block, by_search),
        wrong=(
            ("comes after the query", lambda i, j, stride: j // stride * stride + stride - 1),
            ("an earlier block", lambda i, j, stride: j),
            ("does not read the key", lambda i, j, stride: i),
            ("comes before the key", lambda i, j, stride: j // stride * stride),
            ("there is no token -1", lambda i, j, stride: j // stride * stride - 1),
            ("a position is wanted", lambda i, j, stride: (i + j) / 2 + 0.25),
        ),
    ),
    "compound/place": Answers(
        right=(
            lambda n, w: min(range(n), key=lambda p: longest(n, w, p)),
            lambda n, w: n // 2,
        ),
        wrong=(
            ("has read nothing but itself", lambda n, w: 0),
            ("nobody comes after", lambda n, w: n - 1),
            ("another place does better", lambda n, w: n // 4),
            ("a position from 0 to 15", lambda n, w: n),
            ("got 'middle'", lambda n, w: "middle"),
        ),
    ),
}
