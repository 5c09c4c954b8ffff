"""Answers to the exercises of chapter 2."""

import math

import torch
import torch.nn.functional as F

from tests.exercises.answers import Answers


def clocks(x, exponent=lambda m, d: 2 * m / d, first=0, sine=math.sin, cosine=math.cos):
    table = torch.zeros(x.shape[1:])
    for t in range(x.shape[1]):
        for m in range(x.shape[2] // 2):
            angle = (t + first) / 10000 ** exponent(m, x.shape[2])
            table[t, 2 * m], table[t, 2 * m + 1] = sine(angle), cosine(angle)
    return x + table


def vectorised_clocks(x, order="interleaved", batch=False):
    b, n, d_model = x.shape
    t = torch.arange(b if batch else n, dtype=torch.float)
    angles = torch.outer(t, torch.exp(-math.log(10000) * torch.arange(0, d_model, 2) / d_model))
    if order == "halves":
        return x + torch.cat((angles.sin(), angles.cos()), 1)
    table = torch.empty(len(t), d_model)
    table[:, ::2], table[:, 1::2] = angles.sin(), angles.cos()
    return x + (table.unsqueeze(1) if batch else table)


def as_the_survey_prints(x):
    table = torch.tensor(
        [
            [
                (math.cos if i % 2 else math.sin)(t / 10000 ** (i / x.shape[2]))
                for i in range(x.shape[2])
            ]
            for t in range(x.shape[1])
        ]
    )
    return x + table


def clocks_in_place(x):
    x += clocks(torch.zeros_like(x))
    return x


def ruler(x, gamma, beta, eps):
    out = torch.empty_like(x)
    for place in range(x[..., 0].numel()):
        token = x.flatten(0, 1)[place]
        mean = sum(token) / len(token)
        variance = sum((token - mean) ** 2) / len(token)
        out.view(-1, x.shape[2])[place] = gamma * (token - mean) / math.sqrt(variance + eps) + beta
    return out


def moments(x, gamma, beta, eps):
    mean = x.mean(-1, keepdim=True)
    variance = (x**2).mean(-1, keepdim=True) - mean**2
    return (x - mean) * torch.rsqrt(variance + eps) * gamma + beta


def standardised(axis, root=lambda variance, eps: (variance + eps).sqrt(), unbiased=False):
    def answer(x, gamma, beta, eps):
        variance = x.var(axis, unbiased=unbiased, keepdim=True)
        return (x - x.mean(axis, keepdim=True)) / root(variance, eps) * gamma + beta

    return answer


def written_out(x, attention, feed_forward, norm_1, norm_2, norm_first):
    if norm_first:
        h = x + attention(norm_1(x))
        return h + feed_forward(norm_2(h))
    h = norm_1(x + attention(x))
    return norm_2(h + feed_forward(h))


def in_a_loop(x, attention, feed_forward, norm_1, norm_2, norm_first):
    for part, norm in [(attention, norm_1), (feed_forward, norm_2)]:
        residual = x
        if norm_first:
            x = norm(x)
        x = residual + part(x)
        if not norm_first:
            x = norm(x)
    return x


def residual_too_late(x, attention, feed_forward, norm_1, norm_2, norm_first):
    for part, norm in [(attention, norm_1), (feed_forward, norm_2)]:
        if norm_first:
            x = norm(x)
            x = x + part(x)
        else:
            x = norm(x + part(x))
    return x


def norm_inside(x, attention, feed_forward, norm_1, norm_2, norm_first):
    if norm_first:
        return written_out(x, attention, feed_forward, norm_1, norm_2, True)
    x = x + norm_1(attention(x))
    return x + norm_2(feed_forward(x))


def no_residual(x, attention, feed_forward, norm_1, norm_2, norm_first):
    if norm_first:
        return feed_forward(norm_2(attention(norm_1(x))))
    return norm_2(feed_forward(norm_1(attention(x))))


def both_read_x(x, attention, feed_forward, norm_1, norm_2, norm_first):
    if norm_first:
        h = x + attention(norm_1(x))
        return h + feed_forward(norm_2(x))
    h = norm_1(x + attention(x))
    return norm_2(h + feed_forward(x))


def x_again(x, attention, feed_forward, norm_1, norm_2, norm_first):
    if norm_first:
        h = x + attention(norm_1(x))
        return x + feed_forward(norm_2(h))
    h = norm_1(x + attention(x))
    return norm_2(x + feed_forward(h))


def counts(attention=440, feed_forward=850, layer=1330, model=4510):
    return {
        "attention": attention,
        "feed_forward": feed_forward,
        "layer": layer,
        "model": model,
    }


def turned(d_model, k, sign=1, exponent=2):
    matrix = torch.zeros(d_model, d_model)
    for m in range(d_model // 2):
        angle = k / 10000 ** (exponent * m / d_model)
        matrix[2 * m, 2 * m] = matrix[2 * m + 1, 2 * m + 1] = math.cos(angle)
        matrix[2 * m + 1, 2 * m] = sign * math.sin(angle)
        matrix[2 * m, 2 * m + 1] = -sign * math.sin(angle)
    return matrix


def fitted(d_model, k):
    t = torch.arange(400, dtype=torch.float64)
    speeds = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)

    def table(t):
        angles = t[:, None] * speeds
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)

    return torch.linalg.lstsq(table(t), table(t + k)).solution


def kronecker(d_model, k):
    small = torch.tensor([[math.cos(k), -math.sin(k)], [math.sin(k), math.cos(k)]])
    return torch.kron(torch.eye(d_model // 2), small)


def half_and_half(d_model, k):
    angles = k * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    cosine, sine = angles.cos().diag(), angles.sin().diag()
    return torch.cat((torch.cat((cosine, -sine), 1), torch.cat((sine, cosine), 1)))


def by_nudges(f, x, features=None, nudge=lambda n: torch.eye(n)):
    mask = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        for change in nudge(x.shape[1])[:features]:
            other = x.clone()
            other[j] = other[j] + 0.5 * change
            mask[:, j] |= ~torch.isclose(f(other), f(x), atol=1e-5).all(1)
    return mask


def by_random_nudges(f, x):
    reached = []
    for j in range(len(x)):
        other = x.clone()
        other[j] = torch.randn(x.shape[1])
        reached.append((f(other) - f(x)).abs().sum(1) > 1e-5)
    return torch.stack(reached, dim=1)


def by_gradients(f, x):
    x = x.clone().requires_grad_()
    rows = []
    for i in range(len(x)):
        found = torch.zeros(len(x))
        for feature in range(x.shape[1]):
            (gradient,) = torch.autograd.grad(f(x)[i, feature], x)
            found += gradient.abs().sum(1)
        rows.append(found > 1e-5)
    return torch.stack(rows)


def gradients_of_sums(f, x):
    x = x.clone().requires_grad_()
    rows = [torch.autograd.grad(f(x)[i].sum(), x)[0].abs().sum(1) for i in range(len(x))]
    return torch.stack(rows) > 1e-5


def of_the_sum(f, x):
    x = x.clone().requires_grad_()
    f(x).square().sum().backward()
    return (x.grad.abs().sum(1) > 1e-6).repeat(len(x), 1)


def by_change(f, x, factor):
    mask = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        other = x.clone()
        other[j] *= factor
        mask[:, j] = (f(other) - f(x)).abs().amax(dim=1) > 1e-4
    return mask


ANSWERS = {
    "transformer/positions": Answers(
        right=(clocks, vectorised_clocks),
        wrong=(
            ("before all cosines", lambda x: vectorised_clocks(x, "halves")),
            ("it should be -2m", lambda x: clocks(x, lambda m, d: m / d)),
            ("frequency of its own", as_the_survey_prints),
            ("stands at position 1", lambda x: clocks(x, first=1)),
            ("yours hold cosines", lambda x: clocks(x, sine=math.cos, cosine=math.sin)),
            ("members of the batch", lambda x: vectorised_clocks(x, batch=True)),
            ("changed its input number 1", clocks_in_place),
            ("the shape is (7, 6)", lambda x: clocks(x)[0]),
        ),
    ),
    "transformer/layer_norm": Answers(
        right=(ruler, moments),
        wrong=(
            ("divides by d_model - 1", standardised(-1, unbiased=True)),
            ("run over the tokens;", standardised(1)),
            ("over tokens and features together", standardised((1, 2))),
            ("as in BatchNorm", standardised((0, 1))),
            ("under the root", standardised(-1, lambda variance, eps: variance.sqrt() + eps)),
            ("eps is not used", standardised(-1, lambda variance, eps: variance.sqrt())),
            ("instead of its square root", standardised(2, lambda variance, eps: variance + eps)),
            (
                "mean is not subtracted",
                lambda x, g, b, eps: x * (x.var(2, False, keepdim=True) + eps) ** -0.5 * g + b,
            ),
            ("gamma and beta", lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], eps=eps)),
            (
                "before the multiplication",
                lambda x, g, b, eps: (F.layer_norm(x, x.shape[2:], eps=eps) + b) * g,
            ),
        ),
    ),
    "transformer/order": Answers(
        right=(written_out, in_a_loop),
        wrong=(
            ("exchanged", lambda *inputs: in_a_loop(*inputs[:5], not inputs[5])),
            ("after the sum always", lambda *inputs: in_a_loop(*inputs[:5], False)),
            ("before the sub-layer always", lambda *inputs: in_a_loop(*inputs[:5], True)),
            ("starts from the normalised x", residual_too_late),
            ("what the sub-layer gives", norm_inside),
            ("residual connections are missing", no_residual),
            ("feed-forward layer reads x", both_read_x),
            ("adds x once more", x_again),
            (
                "both sub-layers use norm_1",
                lambda x, a, f, norm_1, norm_2, first: written_out(x, a, f, norm_1, norm_1, first),
            ),
            ("yours is", lambda x, *others: x),
        ),
    ),
    "transformer/parameters": Answers(
        right=(counts(), counts(440.0, torch.tensor(850))),
        wrong=(
            ("attention: four matrices", counts(400, 800, 1240, 4240)),
            ("output map is missing", counts(330)),
            ("heads share the width", counts(880)),
            ("both biases are missing", counts(feed_forward=800)),
            ("the first bias has d_ff", counts(feed_forward=820)),
            ("two LayerNorms belong", counts(layer=1290)),
            ("two vectors, gamma and beta", counts(layer=1310)),
            ("no cross-attention", counts(layer=1790)),
            ("embedding is missing", counts(model=4010)),
            ("one more LayerNorm", counts(model=4490)),
            ("count it once", counts(model=5010)),
            ("model: 9 is too small", counts(model=9)),
        ),
    ),
    "transformer/move": Answers(
        right=(turned, fitted),
        wrong=(
            ("moves k positions back", lambda d_model, k: turned(d_model, -k)),
            ("every pair turns by k radians", kronecker),
            ("pairs are m and m + d_model / 2", half_and_half),
            ("it should be -2m", lambda d_model, k: turned(d_model, k, exponent=1)),
            ("one position, whatever k", lambda d_model, k: turned(d_model, 1)),
            ("yours is", lambda d_model, k: torch.eye(d_model)),
        ),
    ),
    "transformer/hears": Answers(
        right=(by_nudges, by_random_nudges, by_gradients),
        wrong=(
            ("rows and columns are exchanged", lambda f, x: by_nudges(f, x).t()),
            (
                "invisible to LayerNorm",
                lambda f, x: by_nudges(f, x, nudge=lambda n: torch.ones(1, n)),
            ),
            ("look alike to a square", lambda f, x: by_change(f, x, -1)),
            ("divides by the spread", lambda f, x: by_change(f, x, 2)),
            ("first feature only", lambda f, x: by_nudges(f, x, features=1)),
            ("influences cancel", gradients_of_sums),
            ("all rows are alike", of_the_sum),
            ("yours is", lambda f, x: torch.eye(len(x), dtype=torch.bool)),
            ("the dtype is", lambda f, x: by_nudges(f, x).float()),
        ),
    ),
}
