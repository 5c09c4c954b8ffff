"""Exercises to chapter 2: clocks, norms, sub-layers in order, parameters, and who hears whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.exercises.base import Exercise, Mistake, Verdict, of_function, of_parts
from tinyattn.transformer import sinusoidal_positions

SEEN = 1e-4  # a change of an output that counts


def _with_positions(x: Tensor) -> Tensor:
    return x + sinusoidal_positions(x.shape[1], x.shape[2], dtype=x.dtype)


def _waves(x: Tensor, exponents: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
    """Sines and cosines, each (n, number of exponents)."""
    angles = torch.arange(start, start + x.shape[1])[:, None] * 10_000.0**-exponents
    return angles.sin(), angles.cos()


def _pairs(d_model: int) -> Tensor:
    return torch.arange(0, d_model, 2) / d_model


def _positions(answer: Any, generator: Generator) -> Verdict:
    def halves(x: Tensor) -> Tensor:
        return x + torch.cat(_waves(x, _pairs(x.shape[2])), dim=-1)

    def without_the_two(x: Tensor) -> Tensor:
        return x + torch.stack(_waves(x, _pairs(x.shape[2]) / 2), dim=-1).flatten(-2)

    def each_dimension(x: Tensor) -> Tensor:
        d_model = x.shape[2]
        sine, cosine = _waves(x, torch.arange(d_model) / d_model)
        return x + torch.where(torch.arange(d_model) % 2 == 0, sine, cosine)

    def from_one(x: Tensor) -> Tensor:
        return x + torch.stack(_waves(x, _pairs(x.shape[2]), start=1), dim=-1).flatten(-2)

    def cosine_first(x: Tensor) -> Tensor:
        return x + torch.stack(_waves(x, _pairs(x.shape[2]))[::-1], dim=-1).flatten(-2)

    def on_the_batch(x: Tensor) -> Tensor:
        return _with_positions(x.transpose(0, 1)).transpose(0, 1)

    mistakes = [
        Mistake(
            "all sines stand before all cosines; a sine and its cosine are neighbours here", halves
        ),
        Mistake("the exponent is -m / d_model in your clocks, it should be -2m", without_the_two),
        Mistake(
            "every dimension has a frequency of its own; a sine and its cosine share one",
            each_dimension,
        ),
        Mistake("your first token stands at position 1, it should stand at 0", from_one),
        Mistake("sines belong at the even dimensions, yours hold cosines", cosine_first),
        Mistake(
            "the position counts members of the batch; it should count tokens, axis 1",
            on_the_batch,
        ),
    ]
    sizes = ((2, 7, 6), (3, 4, 2), (1, 400, 10))
    cases = [(torch.randn(*size, generator=generator),) for size in sizes]
    return of_function(answer, _with_positions, cases, mistakes)


def _normed(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta, eps)


def _norm(over: int | tuple[int, ...] = -1, correction: int = 0, power: float = 0.5) -> Callable:
    """LayerNorm with other axes, another count or another power of the variance."""

    def norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        centred = x - x.mean(over, keepdim=True)
        n = centred.numel() / x.mean(over).numel() - correction
        variance = centred.square().sum(over, keepdim=True) / n
        return gamma * centred / (variance + eps) ** power + beta

    return norm


def _layer_norm(answer: Any, generator: Generator) -> Verdict:
    def outside(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        spread = x.var(-1, keepdim=True, correction=0).sqrt()
        return gamma * (x - x.mean(-1, keepdim=True)) / (spread + eps) + beta

    def not_centred(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        return gamma * x / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() + beta

    def shift_first(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        return gamma * (_normed(x, torch.ones_like(gamma), torch.zeros_like(beta), eps) + beta)

    mistakes = [
        Mistake("the variance divides by d_model - 1; it should divide by d_model", _norm(-1, 1)),
        Mistake("mean and variance run over the tokens; each token has its own", _norm(-2)),
        Mistake(
            "mean and variance run over tokens and features together; each token has its own",
            _norm((-2, -1)),
        ),
        Mistake(
            "mean and variance run over the whole batch, as in BatchNorm; each token has its own",
            _norm((0, 1)),
        ),
        Mistake("eps is added to the spread; it belongs under the root", outside),
        Mistake("eps is not used: a constant token divides by 0", lambda *a: _norm()(*a[:3], 0.0)),
        Mistake("you divide by the variance instead of its square root", _norm(power=1.0)),
        Mistake("the mean is not subtracted", not_centred),
        Mistake(
            "gamma and beta are not used",
            lambda x, gamma, beta, eps: _normed(x, gamma / gamma, beta * 0, eps),
        ),
        Mistake("beta is added before the multiplication by gamma", shift_first),
    ]
    cases = []
    for b, n, d_model in ((2, 3, 5), (1, 4, 2), (3, 2, 7)):
        x, gamma, beta = (
            torch.randn(size, generator=generator)
            for size in ((b, n, d_model), (d_model,), (d_model,))
        )
        x[0, 0] = 1.5  # a constant token
        eps = 0.05 + 0.2 * float(torch.rand((), generator=generator))
        cases.append((x + 0.5, gamma, beta, eps))
    return of_function(answer, _normed, cases, mistakes)


def _post(x: Tensor, f: Callable, norm: Callable) -> Tensor:
    return norm(x + f(x))


def _pre(x: Tensor, f: Callable, norm: Callable) -> Tensor:
    return x + f(norm(x))


def _layer(post: Callable = _post, pre: Callable = _pre) -> Callable:
    """An encoder layer with these two ways to put a sub-layer between residual and norm."""

    def layer(x, attention, feed_forward, norm_1, norm_2, norm_first):
        around = pre if norm_first else post
        return around(around(x, attention, norm_1), feed_forward, norm_2)

    return layer


def _draw_layer(generator: Generator, n: int, d_model: int, norm_first: bool) -> list[Any]:
    mix = torch.rand(n, n, generator=generator).softmax(-1)
    x, weight, *gammas = (
        torch.randn(*size, generator=generator)
        for size in ((n, d_model), (d_model, d_model), (d_model,), (d_model,))
    )

    def attention(x: Tensor) -> Tensor:
        return mix @ x

    def feed_forward(x: Tensor) -> Tensor:
        return (x @ weight).relu()

    def norm_1(x: Tensor) -> Tensor:
        return _normed(x, gammas[0], gammas[1], 1e-5)

    def norm_2(x: Tensor) -> Tensor:
        return _normed(x, gammas[1], gammas[0], 1e-5)

    return [x, attention, feed_forward, norm_1, norm_2, norm_first]


def _order(answer: Any, generator: Generator) -> Verdict:
    def parallel(x, attention, feed_forward, norm_1, norm_2, norm_first):
        if norm_first:
            return x + attention(norm_1(x)) + feed_forward(norm_2(x))
        return norm_2(norm_1(x + attention(x)) + feed_forward(x))

    def back_to_x(x, attention, feed_forward, norm_1, norm_2, norm_first):
        if norm_first:
            return x + feed_forward(norm_2(x + attention(norm_1(x))))
        return norm_2(x + feed_forward(norm_1(x + attention(x))))

    mistakes = [
        Mistake("the two layouts are exchanged: norm_first means before the sub-layer",
                _layer(_pre, _post)),
        Mistake("norm_first changes nothing: you normalise after the sum always",
                _layer(_post, _post)),
        Mistake("norm_first changes nothing: you normalise before the sub-layer always",
                _layer(_pre, _pre)),
        Mistake(
            "with norm_first the sum starts from the normalised x; the residual path carries x "
            "itself",
            _layer(pre=lambda x, f, norm: norm(x) + f(norm(x))),
        ),
        Mistake(
            "post-norm normalises the sum; yours normalises what the sub-layer gives and adds x",
            _layer(post=lambda x, f, norm: x + norm(f(x))),
        ),
        Mistake(
            "nothing is added: both residual connections are missing",
            _layer(lambda x, f, norm: norm(f(x)), lambda x, f, norm: f(norm(x))),
        ),
        Mistake("the feed-forward layer reads x; it should read what attention left", parallel),
        Mistake("the second residual adds x once more; it should add h", back_to_x),
        Mistake(
            "both sub-layers use norm_1; the second has a norm of its own",
            lambda x, a, f, norm_1, norm_2, first: _layer()(x, a, f, norm_1, norm_1, first),
        ),
    ]  # fmt: skip
    sizes = ((4, 3, False), (3, 5, True), (1, 4, False), (6, 3, True))
    cases = [_draw_layer(generator, *size) for size in sizes]
    return of_function(answer, _layer(), cases, mistakes)


def _parameters(answer: Any, generator: Generator) -> Verdict:
    """A decoder-only model of width 10: 3 layers, d_ff 40, 50 tokens, tied, pre-norm."""
    wanted = {"attention": 440, "feed_forward": 850, "layer": 1330, "model": 4510}
    per_head = "the heads share the width: their number changes nothing"
    mistakes = {
        "attention": [
            Mistake("four matrices have four biases of d_model numbers", 400),
            Mistake("the output map is missing: query, key, value and out", 330),
            Mistake(per_head, 880),
            Mistake(per_head, 800),
        ],
        "feed_forward": [
            Mistake("both biases are missing, of d_ff and of d_model numbers", 800),
            Mistake("the first bias has d_ff numbers, the second d_model", 820),
            Mistake("the first bias has d_ff numbers, the second d_model", 880),
        ],
        "layer": [
            Mistake("two LayerNorms belong to a layer", 1290),
            Mistake("a LayerNorm has two vectors, gamma and beta", 1310),
            Mistake("a layer has two LayerNorms, one around each sub-layer", 1310),
            Mistake("a decoder-only layer has no cross-attention, and no norm for it", 1790),
        ],
        "model": [
            Mistake("the embedding is missing: 50 vectors", 4010),
            Mistake("a pre-norm stack ends with one more LayerNorm", 4490),
            Mistake("the output map is the embedding itself: count it once", 5010),
            Mistake("there are three layers", 1850),
        ],
    }
    return of_parts(answer, wanted, mistakes)


def _shift(d_model: int, k: int) -> Tensor:
    angles = k * 10_000.0 ** -_pairs(d_model).double()
    blocks = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angles]
    return torch.block_diag(*blocks).float()


def _move(answer: Any, generator: Generator) -> Verdict:
    def one_speed(d_model: int, k: int) -> Tensor:
        return torch.block_diag(*[_shift(2, k)] * (d_model // 2))

    def halves(d_model: int, k: int) -> Tensor:
        order = torch.arange(d_model).view(-1, 2).T.flatten()
        return _shift(d_model, k)[order][:, order]

    def without_the_two(d_model: int, k: int) -> Tensor:
        return _shift(2 * d_model, k)[:d_model, :d_model]

    def one_step(d_model: int, k: int) -> Tensor:
        return _shift(d_model, 1)

    mistakes = [
        Mistake(
            "your matrix moves k positions back: rows times matrix, so its signs turn over",
            lambda d_model, k: _shift(d_model, k).T,
        ),
        Mistake("every pair turns by k radians; pair m turns by k times omega_m", one_speed),
        Mistake("your pairs are m and m + d_model / 2; here they are neighbours", halves),
        Mistake("the exponent of omega_m is -m / d_model, it should be -2m", without_the_two),
        Mistake("your matrix moves one position, whatever k", one_step),
    ]
    cases = [
        (d_model, int(torch.randint(low, 2 * low, (), generator=generator)))
        for d_model, low in ((4, 2), (2, 30), (6, 1000))
    ]
    return of_function(answer, _shift, cases, mistakes)


def _reads(f: Callable, x: Tensor) -> Tensor:
    jacobian = torch.autograd.functional.jacobian(f, x)  # (n, d_out, n, d_in)
    return jacobian.abs().amax(dim=(1, 3)) > 0


def _layer_norm_of(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


def _batch_norm_of(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()


def _running_mean(x: Tensor) -> Tensor:
    return x.cumsum(0) / torch.arange(1, len(x) + 1)[:, None]


def _last_of_the_next(x: Tensor) -> Tensor:
    """Token i hears the last feature of token i + 1; the last token hears itself."""
    following = torch.cat([x[1:], x[-1:]])
    return following[:, -1:].expand_as(x).square()


def _last_of_the_one_before(x: Tensor) -> Tensor:
    """The last feature without the one before it: neither the first nor their mean is heard."""
    before = torch.cat([x[:1], x[:-1]])
    return (before[:, -1:] - before[:, -2:-1]).expand_as(x)


def _to_and_fro(x: Tensor) -> Tensor:
    """The first feature of the token before, added here and subtracted there: the sum is 0."""
    before = torch.cat([x[:1], x[:-1]])
    return before[:, :1] * (-1) ** torch.arange(x.shape[1])


def _changed(f: Callable, x: Tensor, others: list[Callable[[Tensor], Tensor]]) -> Tensor:
    """Which outputs change when a token becomes another, for any of these."""
    mask = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        for other in others:
            moved = x.clone()
            moved[j] = other(x[j])
            mask[:, j] |= ((f(moved) - f(x)).abs() > SEEN).any(-1)
    return mask


def _hears(answer: Any, generator: Generator) -> Verdict:
    def signed(f: Callable, x: Tensor) -> Tensor:
        jacobian = torch.autograd.functional.jacobian(f, x)
        return jacobian.sum(1).abs().amax(-1) > SEEN

    def constant(f: Callable, x: Tensor) -> Tensor:
        return _changed(f, x, [lambda token: token + 1])

    def first_feature(f: Callable, x: Tensor) -> Tensor:
        return _changed(f, x, [lambda token: token + torch.eye(len(token))[0]])

    def total(f: Callable, x: Tensor) -> Tensor:
        return _reads(f, x).any(0).expand(len(x), -1)

    mistakes = [
        Mistake(
            "rows and columns are exchanged: row i says which inputs output i hears",
            lambda f, x: _reads(f, x).T,
        ),
        Mistake(
            "a nudge of all features by the same number is invisible to LayerNorm, which subtracts "
            "the mean",
            constant,
        ),
        Mistake(
            "a token and its negative look alike to a square: nudge a token by other numbers, too",
            lambda f, x: _changed(f, x, [lambda token: -token]),
        ),
        Mistake(
            "twice a token looks like the token to LayerNorm, which divides by the spread",
            lambda f, x: _changed(f, x, [lambda token: 2 * token]),
        ),
        Mistake("you nudge the first feature only; an output may hear another", first_feature),
        Mistake(
            "positive and negative influences cancel in your sum; take absolute values first",
            signed,
        ),
        Mistake("all rows are alike: look at each output by itself", total),
    ]
    functions = (
        _layer_norm_of,
        _running_mean,
        _to_and_fro,
        _last_of_the_next,
        _batch_norm_of,
        _last_of_the_one_before,
    )
    sizes = ((5, 4), (7, 3), (6, 4), (4, 5), (6, 4), (5, 3))
    cases = [
        (f, torch.randn(n, d, generator=generator))
        for f, (n, d) in zip(functions, sizes, strict=True)
    ]
    return of_function(answer, _reads, cases, mistakes)


EXERCISES = (
    Exercise(
        name="transformer/positions",
        title="A clock for every token",
        kind="implement",
        difficulty=1,
        minutes=15,
        points=3,
        goal="Add sinusoidal positions to a batch of token vectors",
        examine=_positions,
        after="Neighbouring dimensions are one hand: a sine and a cosine at the same speed.",
    ),
    Exercise(
        name="transformer/layer_norm",
        title="A ruler of its own",
        kind="implement",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Normalise each token over its features, a constant token too",
        examine=_layer_norm,
        after="It agrees with torch, down to where eps stands.",
    ),
    Exercise(
        name="transformer/order",
        title="Before or after",
        kind="implement",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Put residuals and norms around two sub-layers in both known orders",
        examine=_order,
        after="In pre-norm x itself runs from top to bottom; in post-norm every sum is rescaled.",
    ),
    Exercise(
        name="transformer/parameters",
        title="Every number of a small model",
        kind="predict",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Count the parameters of a decoder-only model by hand",
        examine=_parameters,
        after="The layer is 12 d² + 13 d; around the layers stand one table and one norm.",
        drawn=False,
    ),
    Exercise(
        name="transformer/move",
        title="One matrix moves every clock",
        kind="prove",
        difficulty=3,
        minutes=20,
        points=5,
        goal="Show that moving k positions is the same linear map wherever one starts",
        examine=_move,
        after="One linear map turns any position into the one k further on, and its transpose turns it back.",
    ),
    Exercise(
        name="transformer/hears",
        title="Who hears whom",
        kind="measure",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Find out which tokens a black box lets through, without reading its code",
        examine=_hears,
        after="The same test finds a BatchNorm that lets tokens hear from their future.",
    ),
)
