"""Exercises to chapter 5: paths between tokens, stacks of kernels, messages, and symmetries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import scaled_dot_product_attention as attend

from tinyattn.analysis import path_lengths
from tinyattn.dense import attention
from tinyattn.exercises.base import ONE_MAXIMUM, Exercise, Mistake, Verdict, of_function, of_parts

CLOSE = 1e-4  # of two outputs that are called equal


def _paths(answer: Any, generator: Generator) -> Verdict:
    """1,025 tokens: attention, a window of 8 each side, causal kernels of 5, plain and dilated."""
    wanted = {"attention": 1, "window": 128, "contiguous": 256, "dilated": 5}
    mistakes = {
        "attention": [Mistake("one layer joins every pair already", 1025)],
        "window": [
            Mistake("a window of w = 8 carries 8 positions to a side, not 17", 61),
            Mistake("a window of w = 8 carries 8 positions to a side, not 16", 64),
            Mistake("there are 1,024 steps between 1,025 tokens", 129),
        ],
        "contiguous": [
            Mistake(
                "a causal kernel of 5 carries 4 positions back: one of the 5 is the token", 205
            ),
            Mistake("a causal kernel looks to one side only", 512),
            Mistake("there are 1,024 steps between 1,025 tokens", 257),
        ],
        "dilated": [
            Mistake("five layers see 3,125 tokens, four see 625: one more is needed", 4),
            Mistake("the dilations are powers of the width, 5, not of 2", 11),
            Mistake("the dilations are powers of the width, 5, not of 2", 9),
            Mistake("there are as many layers as powers of 5, the first is 1", 6),
        ],
    }
    return of_parts(answer, wanted, mistakes)


def _steps(mask: Tensor) -> Tensor:
    return path_lengths(mask)


def _hops(answer: Any, generator: Generator) -> Verdict:
    def at_most(most: int) -> Callable:
        def lengths(mask: Tensor) -> Tensor:
            found = _steps(mask)
            return found.where(found <= most, math.inf)

        return lengths

    def no_zeros(mask: Tensor) -> Tensor:
        """The diagonal as long as the shortest way round."""
        found = _steps(mask)
        once = torch.where(mask, 1.0, math.inf)
        around = (once[:, :, None] + found[None]).amin(1).diagonal()
        return found - found.diag().diag() + torch.diag(around).nan_to_num(0.0, posinf=math.inf)

    mistakes = [
        Mistake("rows and columns are exchanged: row i says how long output i waits for input j",
                lambda mask: _steps(mask.T)),
        Mistake("your edges lead both ways; reading does not",
                lambda mask: _steps(mask | mask.T)),
        Mistake("you count the tokens on the way; the layers between them are wanted",
                lambda mask: _steps(mask) + 1),
        Mistake("a token that never arrives has an infinite length, not 0",
                lambda mask: _steps(mask).nan_to_num(posinf=0.0)),
        Mistake("a token that never arrives has an infinite length, not -1",
                lambda mask: _steps(mask).nan_to_num(posinf=-1.0)),
        Mistake("you stop after two layers", at_most(2)),
        Mistake("you stop after one layer", at_most(1)),
        Mistake("the residual connection carries a token to itself: the diagonal is 0", no_zeros),
    ]  # fmt: skip
    n = 9
    i, j = torch.arange(n)[:, None], torch.arange(n)
    sparse = torch.rand(n, n, generator=generator) < 0.2
    sparse[:, 0], sparse[0] = False, False  # token 0 reads nobody and is read by nobody
    cases = [
        (j == i + 1,),
        (sparse,),
        ((i - j).abs() <= 1,),
        (torch.zeros(1, 1, dtype=torch.bool),),
    ]
    return of_function(answer, _steps, cases, mistakes)


def _layers(n: int, width: int) -> list[int]:
    """By adding what each layer sees."""
    plain = dilated = 0
    sees, dilation = 1, 1
    while sees < n:
        plain, sees = plain + 1, sees + width - 1
    sees = 1
    while sees < n:
        dilated, sees, dilation = dilated + 1, sees + (width - 1) * dilation, dilation * width
    return [plain, dilated]


def _stacks(answer: Any, generator: Generator) -> Verdict:
    def other(place: int, count: Callable[[int, int], int]) -> Callable:
        def counts(n: int, width: int) -> list[int]:
            found = _layers(n, width)
            found[place] = count(n, width)
            return found

        return counts

    def log(n: int, width: int) -> float:
        return math.log(n) / math.log(width)

    mistakes = [
        Mistake(
            "a logarithm in floating point is off at a power of the width: log(125) / log(5) is "
            "just above 3",
            other(1, lambda n, width: math.ceil(log(n, width))),
        ),
        Mistake(
            "a logarithm in floating point is off at a power of the width: math.log(125, 5) is "
            "just above 3",
            other(1, lambda n, width: math.ceil(math.log(n, width))),
        ),
        Mistake("the dilated count is rounded down; the last layer is needed, too",
                other(1, lambda n, width: math.floor(log(n, width) + 1e-9))),
        Mistake("the dilations are powers of the width, not of 2",
                other(1, lambda n, width: math.ceil(math.log2(n)))),
        Mistake("a contiguous layer adds width - 1 tokens to what is seen, not width",
                other(0, lambda n, width: math.ceil(n / width))),
        Mistake("the token sees itself without any layer: n - 1 are left, not n",
                other(0, lambda n, width: math.ceil(n / (width - 1)))),
        Mistake("the contiguous count is rounded down; the last layer is needed, too",
                other(0, lambda n, width: (n - 1) // (width - 1))),
        Mistake("the two counts are exchanged", lambda n, width: _layers(n, width)[::-1]),
    ]  # fmt: skip
    random = torch.randint(2, 9, (4,), generator=generator).tolist()
    cases = [(125, 5), (20, 4), (1, 3), (1000, 10), (9, 2), *((w**3 + w, w) for w in random)]
    cases += [(243, 3), (216, 6), (244, 3)]
    return of_function(answer, _layers, cases, mistakes, tolerance=0.0)


def _as_mask(edges: Tensor, n: int) -> Tensor:
    mask = torch.zeros(n, n, dtype=torch.bool)
    mask[edges[:, 0], edges[:, 1]] = True
    return mask


def _sent(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
    return attention(q, k, v, _as_mask(edges, len(q)))


def _messages(answer: Any, generator: Generator) -> Verdict:
    def scores(q: Tensor, k: Tensor, edges: Tensor) -> Tensor:
        return (q[edges[:, 0]] * k[edges[:, 1]]).sum(-1) / math.sqrt(q.shape[1])

    def gathered(v: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        out = v.new_zeros(v.shape)
        return out.index_add(0, edges[:, 0], weights[:, None] * v[edges[:, 1]])

    def together(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
        return gathered(v, edges, scores(q, k, edges).softmax(0))

    def raw(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
        return gathered(v, edges, scores(q, k, edges).exp())

    def overflowing(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
        raised = scores(q, k, edges).exp()
        total = q.new_zeros(len(q)).index_add(0, edges[:, 0], raised)
        return gathered(v, edges, raised / total[edges[:, 0]])

    def one_maximum(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
        given = scores(q, k, edges)
        raised = (given - given.max()).exp()
        total = q.new_zeros(len(q)).index_add(0, edges[:, 0], raised)
        return gathered(v, edges, raised / total[edges[:, 0]])

    def of_keys(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
        table = torch.full((len(q), len(k)), -math.inf)
        table[edges[:, 0], edges[:, 1]] = scores(q, k, edges)
        return table.softmax(0).nan_to_num() @ v

    def empty_nan(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> Tensor:
        blind = ~_as_mask(edges, len(q)).any(1)
        return _sent(q, k, v, edges).masked_fill(blind[:, None], math.nan)

    mistakes = [
        Mistake("an edge is (query, key); yours leads the other way",
                lambda q, k, v, edges: _sent(q, k, v, edges.flip(1))),
        Mistake("the softmax runs over all edges; each query has its own", together),
        Mistake("the softmax runs over the queries of a key; each query's weights sum to 1", of_keys),
        Mistake("the messages are not divided by the sum of their weights", raw),
        Mistake("the exponentials overflow: subtract each query's largest score first", overflowing),
        Mistake(ONE_MAXIMUM, one_maximum),
        Mistake("a query without edges gets NaN; no message is zero", empty_nan),
        Mistake("the scores are not divided by √d_head",
                lambda q, k, v, edges: _sent(q * math.sqrt(q.shape[1]), k, v, edges)),
        Mistake("that is the plain mean of what arrives; scores should weigh it",
                lambda q, k, v, edges: _sent(q * 0, k, v, edges)),
        Mistake("the edges are not used: every query reads every key",
                lambda q, k, v, edges: attention(q, k, v)),
    ]  # fmt: skip
    cases = []
    for n, d, loud in ((6, 4, 0.0), (5, 2, 0.0), (7, 3, 14.0)):
        q, k = torch.randn(2, n, d, generator=generator)
        v = torch.randn(n, d, generator=generator)
        mask = torch.rand(n, n, generator=generator) < 0.4
        mask[0, :3], mask[1, 1:4] = True, True
        mask[-1] = False  # nobody sends to the last query
        edges = mask.nonzero()
        order = torch.randperm(len(edges), generator=generator)
        cases.append((q + loud, k + loud, v, edges[order]))
    q, k, v, edges = cases[0]
    levels = math.sqrt(4) * torch.tensor([0.0, 200.0, -300.0, 0.0, 200.0, 0.0])[:, None]
    q, k = torch.hstack([q[:, 1:], levels]), torch.hstack([k[:, 1:], torch.ones(6, 1)])
    cases.append((q, k, v, edges))
    return of_function(answer, _sent, cases, mistakes)


def _shift(x: Tensor) -> Tensor:
    return x.roll(1, 0)


def _flip(x: Tensor) -> Tensor:
    return x.flip(0)


def _traits(f: Callable, n: int, d: int) -> list[bool]:
    """Whether f commutes with a shuffle, a shift and a mirror."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, d, generator=generator)
    order = torch.tensor([2, 0, 3, 1, *range(4, n)])
    moves = (lambda y: y[order], _shift, _flip)
    return [bool(torch.allclose(f(m(x)), m(f(x)), atol=CLOSE)) for m in moves]


def _layers_to_test(generator: Generator) -> list[tuple[Callable, int, int]]:
    d = 4
    a, b, c = (torch.randn(d, d, generator=generator) / d**0.5 for _ in range(3))
    n = 2 * int(torch.randint(3, 6, (), generator=generator))
    past = torch.ones(n, n, dtype=torch.bool).tril()
    near = (torch.arange(n)[:, None] - torch.arange(n)).abs() <= 1

    def full_attention(x: Tensor) -> Tensor:
        return attend(x @ a, x @ b, x @ c)

    def window(x: Tensor) -> Tensor:
        return attend(x @ a, x @ b, x @ c, attn_mask=near)

    def causal_attention(x: Tensor) -> Tensor:
        return attend(x @ a, x @ b, x @ c, attn_mask=past)

    def one_way_kernel(x: Tensor) -> Tensor:
        return x @ a + x.roll(1, 0) @ b

    def mirrored_kernel(x: Tensor) -> Tensor:
        return x @ a + (x.roll(1, 0) + x.roll(-1, 0)) @ b

    def one_mean_for_all(x: Tensor) -> Tensor:
        return (x @ a).mean(0).expand(len(x), -1)

    def means_of_pairs(x: Tensor) -> Tensor:
        return (x @ a).unflatten(0, (-1, 2)).mean(1).repeat_interleave(2, 0)

    mixing = (full_attention, one_way_kernel, mirrored_kernel, window, causal_attention)
    layers = (*mixing, one_mean_for_all, means_of_pairs, torch.relu)
    return [(layer, n, d) for layer in layers]


def _symmetries(answer: Any, generator: Generator) -> Verdict:
    def tested(change: Callable, kept: Callable) -> Callable:
        """f(moved x) against what is made of f(x)."""

        def traits(f: Callable, n: int, d: int) -> list[bool]:
            x = torch.randn(n, d, generator=torch.Generator().manual_seed(3))
            order = torch.tensor([2, 0, 3, 1, *range(4, n)])
            moves = (lambda y: y[order], _shift, _flip)
            return [bool(torch.allclose(f(change(m)(x)), kept(m)(f(x)), atol=CLOSE)) for m in moves]

        return traits

    def moved(move: Callable) -> Callable:
        return move

    def left(move: Callable) -> Callable:
        return lambda y: y

    def on_features(f: Callable, n: int, d: int) -> list[bool]:
        x = torch.randn(n, d, generator=torch.Generator().manual_seed(3))
        moves = (lambda y: y[:, [2, 0, 3, 1]], lambda y: y.roll(1, 1), lambda y: y.flip(1))
        return [bool(torch.allclose(f(m(x)), m(f(x)), atol=CLOSE)) for m in moves]

    def a_shift_for_a_shuffle(f: Callable, n: int, d: int) -> list[bool]:
        _, shift, mirror = _traits(f, n, d)
        return [shift, shift, mirror]

    def a_mirror_for_a_shuffle(f: Callable, n: int, d: int) -> list[bool]:
        _, shift, mirror = _traits(f, n, d)
        return [mirror, shift, mirror]

    mistakes = [
        Mistake(
            "you ask whether the output stays as it was; it should move along with the input",
            tested(moved, left),
        ),
        Mistake("you move the features; tokens, axis 0, are to be moved", on_features),
        Mistake("all tokens are alike in your input, so no move can be noticed",
                lambda f, n, d: [True, True, True]),
        Mistake("your shuffle is a shift: take one that tears neighbours apart",
                a_shift_for_a_shuffle),
        Mistake("your shuffle is the mirror: take one that tears neighbours apart",
                a_mirror_for_a_shuffle),
        Mistake("the answers are upside down", lambda *inputs: [not t for t in _traits(*inputs)]),
    ]  # fmt: skip
    return of_function(answer, _traits, _layers_to_test(generator), mistakes)


EXERCISES = (
    Exercise(
        name="comparison/paths",
        title="From one end to the other",
        kind="predict",
        difficulty=1,
        minutes=8,
        points=3,
        goal="Say how many layers of each kind join the two ends of a text",
        examine=_paths,
        after="One, a line, a line, a logarithm: only dilated kernels earn what Table 2 gives to all.",
        drawn=False,
    ),
    Exercise(
        name="comparison/hops",
        title="How long a token waits",
        kind="implement",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Find the least number of layers between any two tokens of a mask",
        examine=_hops,
        after="The largest entry is the maximum path length of Table 2, infinite if a token never arrives.",
    ),
    Exercise(
        name="comparison/stacks",
        title="The logarithm and its rounding",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Derive the depth at which stacks of kernels see a whole text",
        examine=_stacks,
        after="The logarithm belongs to the dilated stack alone.",
    ),
    Exercise(
        name="comparison/messages",
        title="Attention as mail",
        kind="implement",
        difficulty=3,
        minutes=30,
        points=5,
        goal="Compute attention from a list of edges",
        examine=_messages,
        after="Edge by edge it costs what the edges cost, however many pairs there might have been.",
    ),
    Exercise(
        name="comparison/symmetries",
        title="What a layer cannot notice",
        kind="measure",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Find out by experiment which moves of the tokens a layer commutes with",
        examine=_symmetries,
        after="What a layer cannot notice it need not learn, and cannot learn either.",
    ),
)
