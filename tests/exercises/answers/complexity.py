"""Answers to the exercises of chapter 4."""

import math

import numpy as np
import torch

from tests.exercises.answers import Answers


def product(rows, inner, columns):
    return rows * inner * columns


def layer_of_products(n_q, n_k, d, h, forget=()):
    products = {
        "query": product(n_q, d, d),
        "key": product(n_k, d, d),
        "value": product(n_k, d, d),
        "scores": h * product(n_q, d // h, n_k),
        "read": h * product(n_q, n_k, d // h),
        "out": product(n_q, d, d),
    }
    return sum(count for name, count in products.items() if name not in forget)


def counted_by_torch(n_q, n_k, d, h):
    from torch.utils.flop_counter import FlopCounterMode

    x, memory, w = torch.zeros(n_q, d), torch.zeros(n_k, d), torch.zeros(d, d)
    with FlopCounterMode(display=False) as counter:
        q = (x @ w).view(n_q, h, -1).transpose(0, 1)
        k = (memory @ w).view(n_k, h, -1).transpose(0, 1)
        v = (memory @ w).view(n_k, h, -1).transpose(0, 1)
        out = (q @ k.transpose(1, 2)) @ v
        out.transpose(0, 1).reshape(n_q, d) @ w
    return counter.get_total_flops() // 2


def searched(d, d_ff):
    """By trying lengths until the layer is dear enough."""
    return next(n for n in range(1, 10**6) if 4 * d * d + 2 * n * d >= 2 * d * d_ff)


def memory(one_layer=256, all_layers=3072, longest=16384):
    return {"one_layer": one_layer, "all_layers": all_layers, "longest": longest}


def by_the_larger(out_1, log_1, out_2, log_2):
    most = torch.maximum(log_1, log_2)
    a, b = torch.exp(log_1 - most)[:, None], torch.exp(log_2 - most)[:, None]
    return (a * out_1 + b * out_2) / (a + b), most + torch.log((a + b)[:, 0])


def by_softmax(out_1, log_1, out_2, log_2):
    logs = torch.stack((log_1, log_2))
    shares = logs.softmax(0)
    return torch.einsum("pq,pqd->qd", shares, torch.stack((out_1, out_2))), logs.logsumexp(0)


def mean_merge(out_1, log_1, out_2, log_2):
    return 0.5 * out_1 + 0.5 * out_2, torch.stack((log_1, log_2)).logsumexp(0)


def exchanged(out_1, log_1, out_2, log_2):
    return by_softmax(out_2, log_1, out_1, log_2)


def naive(out_1, log_1, out_2, log_2):
    a, b = log_1.exp(), log_2.exp()
    return (a[:, None] * out_1 + b[:, None] * out_2) / (a + b)[:, None], torch.log(a + b)


def one_top_for_all(out_1, log_1, out_2, log_2):
    top = max(log_1.max(), log_2.max())
    out, log = naive(out_1, log_1 - top, out_2, log_2 - top)
    return out, log + top


def half_naive(out_1, log_1, out_2, log_2):
    return by_softmax(out_1, log_1, out_2, log_2)[0], torch.log(log_1.exp() + log_2.exp())


def only_out(out_1, log_1, out_2, log_2):
    return by_softmax(out_1, log_1, out_2, log_2)[0]


def with_logs(combine):
    def answer(out_1, log_1, out_2, log_2):
        return by_softmax(out_1, log_1, out_2, log_2)[0], combine(log_1, log_2)

    return answer


def scattered():
    mask = torch.zeros(32, 32, dtype=torch.bool)
    for i in range(32):
        for part in range(2):
            mask[i, 4 * (2 * (i % 4) + part) + i // 8] = True
    return mask


def strided():
    i, j = torch.arange(32)[:, None], torch.arange(32)
    return (j % 16) == (4 * i + i // 4 % 4) % 16


def banded(keys):
    def answer():
        i, j = torch.arange(32)[:, None], torch.arange(32)
        return ((j - i) % 32) < keys

    return answer


def polynomial_fit(lengths, costs):
    return float(np.polyfit(np.log(lengths), np.log(costs), 1)[0])


def normal_equations(lengths, costs):
    x, y = [math.log2(n) for n in lengths], [math.log2(c) for c in costs]
    n = len(x)
    products = sum(a * b for a, b in zip(x, y, strict=True))
    return (n * products - sum(x) * sum(y)) / (n * sum(a * a for a in x) - sum(x) ** 2)


def through_origin(lengths, costs):
    return float(np.linalg.lstsq(np.log(lengths)[:, None], np.log(costs), rcond=None)[0][0])


ANSWERS = {
    "complexity/count": Answers(
        right=(layer_of_products, counted_by_torch),
        wrong=(
            ("multiplications and additions", lambda *s: 2 * layer_of_products(*s)),
            ("projected for n_k tokens", lambda n, m, d, h: 4 * n * d**2 + 2 * n * m * d),
            ("projected for n_q tokens", lambda n, m, d, h: 4 * m * d**2 + 2 * n * m * d),
            ("output has a projection", lambda *s: layer_of_products(*s, forget=("out",))),
            ("two products", lambda *s: layer_of_products(*s, forget=("read",))),
            ("core alone", lambda n, m, d, h: 2 * n * m * d),
            ("core is missing", lambda *s: layer_of_products(*s, forget=("scores", "read"))),
            ("are two projections", lambda *s: layer_of_products(*s, forget=("value",))),
            (
                "n_heads times cheaper",
                lambda n, m, d, h: 2 * (n + m) * d * d + 2 * h * n * m * d,
            ),
            ("number changes nothing", lambda n, m, d, h: h * layer_of_products(n, m, d, 1)),
            ("yours is", lambda n, m, d, h: n * m),
        ),
    ),
    "complexity/crossover": Answers(
        right=(searched, lambda d, d_ff: d_ff - 2 * d if d_ff > 2 * d else 1),
        wrong=(
            ("core alone", lambda d, d_ff: d_ff),
            ("d_ff = 4 * d_model only", lambda d, d_ff: 2 * d),
            ("one too far", lambda d, d_ff: searched(d, d_ff) + 1),
            ("not positive", lambda d, d_ff: d_ff - 2 * d),
            ("at least one token.", lambda d, d_ff: max(d_ff - 2 * d, 0)),
            ("two matrices", lambda d, d_ff: max(1, -(-(d_ff - 4 * d) // 2))),
            ("four projections", lambda d, d_ff: max(1, math.ceil((2 * d_ff - 3 * d) / 2))),
            ("the core has two", lambda d, d_ff: max(1, 2 * d_ff - 4 * d)),
            ("yours is", lambda d, d_ff: d),
        ),
    ),
    "complexity/bytes": Answers(
        right=(memory(), memory(256.0, 3 * 1024, torch.tensor(2**14))),
        wrong=(
            ("a matrix of its own", memory(32)),
            ("not n and d_head", memory(8 * 4096 * 64 * 2 / 2**20)),
            ("two bytes a number", memory(512)),
            ("not a million", memory(268.4)),
            ("one_layer: the answer is wanted in MiB", memory(8 * 4096 * 4096 * 2)),
            ("until its backward pass", memory(all_layers=256)),
            ("not the scores", memory(all_layers=6144)),
            ("all_layers: the answer is wanted", memory(all_layers=3)),
            ("four times the memory", memory(longest=65536)),
            ("not one", memory(longest=8192)),
            ("not three", memory(longest=32768)),
        ),
    ),
    "complexity/merge": Answers(
        right=(by_the_larger, by_softmax),
        wrong=(
            ("weigh the same", mean_merge),
            ("exchanged", exchanged),
            ("logarithms are added", with_logs(torch.add)),
            ("larger logarithm is not", with_logs(torch.maximum)),
            ("subtract before you exponentiate", naive),
            ("use torch.logaddexp", half_naive),
            ("one maximum for all rows", one_top_for_all),
            ("must be averaged", lambda o_1, a, o_2, b: (o_1 + o_2, torch.logaddexp(a, b))),
            ("2 results are wanted", only_out),
        ),
    ),
    "complexity/blocks": Answers(
        right=(
            scattered,
            strided,
            lambda: strided().T.contiguous().T,
            lambda: scattered().tolist(),
            strided().numpy(),
        ),
        wrong=(
            ("16 of 64 blocks", banded(2)),
            ("query 0 reads 3", banded(3)),
            ("yours is torch.int32", lambda: scattered().int()),
            ("got 'all' (str)", lambda: "all"),
            ("got a tensor of shape (16, 32)", lambda: scattered()[:16]),
            ("raised ZeroDivisionError", lambda: 1 / 0),
        ),
    ),
    "complexity/exponent": Answers(
        right=(polynomial_fit, normal_equations),
        wrong=(
            ("straight line to the costs", lambda n, c: float(np.polyfit(n, c, 1)[0])),
            ("of the lengths as well", lambda n, c: float(np.polyfit(n, np.log(c), 1)[0])),
            ("of the costs as well", lambda n, c: float(np.polyfit(np.log(n), c, 1)[0])),
            ("upside down", lambda n, c: polynomial_fit(c, n)),
            (
                "first and the last point",
                lambda n, c: (math.log(c[-1]) - math.log(c[0])) / math.log(n[-1] / n[0]),
            ),
            ("through the origin", through_origin),
            ("yours is", lambda n, c: 2.0),
        ),
    ),
}
