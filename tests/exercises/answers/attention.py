"""Answers to the exercises of chapter 1."""

import math

import torch
import torch.nn.functional as F

from tests.exercises.answers import Answers


def row(ratio, *words):
    return {"words": list(words), "ratio": ratio}


def masked_by_loops(q, k, v, mask):
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2])
    for b in range(q.shape[0]):
        for i in range(q.shape[1]):
            keys = [j for j in range(k.shape[1]) if mask[i, j]]
            raised = [math.exp(float(q[b, i] @ k[b, j]) / math.sqrt(q.shape[2])) for j in keys]
            for share, j in zip(raised, keys, strict=True):
                out[b, i] += share / sum(raised) * v[b, j]
    return out


def masked_by_exponentials(q, k, v, mask):
    raised = torch.exp(q @ k.mT / q.shape[-1] ** 0.5) * mask
    return raised @ v / raised.sum(-1, keepdim=True).clamp(min=1e-9)


def weights(q, k, mask, scale=None, forbidden=-math.inf, axis=-1):
    scores = torch.einsum("bid,bjd->bij", q, k) * (scale or q.shape[-1] ** -0.5)
    return F.softmax(torch.where(mask, scores, forbidden), dim=axis)


def late(q, k, v, mask):
    everything = torch.ones_like(mask)
    return torch.where(mask, weights(q, k, everything), 0.0) @ v


def in_place(q, k, v, mask):
    q /= q.shape[-1] ** 0.5
    return masked_by_exponentials(q * q.shape[-1] ** 0.5, k, v, mask)


def cut(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def permuted(x, n_heads):
    b, n, d_model = x.shape
    return x.view(b, n, n_heads, d_model // n_heads).permute(0, 2, 1, 3)


def spread_of(draw_a, draw_b=None, scale=lambda d: 1.0, measure=torch.std):
    def answer(d_head):
        a, b = draw_a(20_000, d_head), (draw_b or draw_a)(20_000, d_head)
        return float(measure((a * b).sum(-1) * scale(d_head)))

    return answer


def many_inputs(n_q=6, n_k=5, spread=1.0, blind=True, everything=False, batch=()):
    def answer():
        generator = torch.Generator().manual_seed(7)
        q, k, v = (
            spread * torch.randn(*batch, n, d, generator=generator)
            for n, d in ((n_q, 4), (n_k, 4), (n_k, 3))
        )
        mask = torch.rand(n_q, n_k, generator=generator) < 0.5
        mask[0] = True
        mask[-1] = not blind
        return q, k, v, mask | everything

    return answer


def saturated():
    q, k, v, mask = many_inputs(blind=False)()
    return 100 * q, k, v, mask


def equal_tokens():
    return torch.ones(2, 4), torch.ones(2, 4), torch.eye(2), torch.tensor([[1, 0], [0, 0]]) > 0


def nan_values():
    """No number is far from NaN, and none is near."""
    q, k, _, mask = many_inputs()()
    return q, k, torch.full((5, 3), math.nan), mask


def no_keys():
    return torch.ones(2, 4), torch.ones(0, 4), torch.ones(0, 3), torch.ones(2, 0) > 0


def of_two_dtypes():
    q, k, v, mask = many_inputs()()
    return q.double(), k, v, mask


def half_precision():
    """-1e9 is no float16: the mask with a large number fails, which exposes it."""
    q, k, v, mask = many_inputs(n_q=9, n_k=12)()
    return q.half(), k.half(), v.half(), mask


def more_queries_than_keys():
    """Queries in a batch, keys and values without one."""
    q, k, v, mask = many_inputs(n_q=9, n_k=12)()
    return torch.stack([q, 2 * q]).requires_grad_() * 1, k, v, mask


ANSWERS = {
    "attention/row": Answers(
        right=(row(4.113, "are", "for"), row(torch.tensor(math.exp(2**0.5)), "for", "are")),
        wrong=(
            ("divide the products by √2", row(math.e**2, "are", "for")),
            ("difference of two scores", row(1.414, "are", "for")),
            ("upside down", row(0.2431, "for", "are")),
            ("win for the query (1, 0)", row(4.113, "Objects", "abstraction")),
            ("'ratio'", row(11.0, "for", "are")),
            ("'words'", row(4.113, "for", "data")),
            ("keys 'words', 'ratio'", {"ratio": 4.113}),
            ("right yet: 'words', 'ratio'", {"words": [1, "are"], "ratio": "4.113"}),
        ),
    ),
    "attention/masked": Answers(
        right=(masked_by_loops, masked_by_exponentials),
        wrong=(
            ("mask is not used", lambda q, k, v, m: weights(q, k, torch.ones_like(m)) @ v),
            ("upside down", lambda q, k, v, m: masked_by_loops(q, k, v, m.logical_not())),
            (
                "not divided by √d_head",
                lambda q, k, v, m: weights(q, k, m, 1.0).nan_to_num() @ v,
            ),
            (
                "by d_head instead of its square root",
                lambda q, k, v, m: weights(q, k, m, 1 / q.shape[-1]).nan_to_num() @ v,
            ),
            (
                "root of the number of keys",
                lambda q, k, v, m: weights(q, k, m, k.shape[1] ** -0.5).nan_to_num() @ v,
            ),
            ("after the softmax", late),
            ("exp(0) is 1", lambda q, k, v, m: F.softmax((q @ k.mT) / 5**0.5 * m, -1) @ v),
            ("over the queries", lambda q, k, v, m: weights(q, k, m, axis=1) @ v),
            ("gets NaN", lambda q, k, v, m: weights(q, k, m) @ v),
            (
                "mean of all values",
                lambda q, k, v, m: weights(q, k, m, forbidden=-1e6) @ v,
            ),
            ("changed its input number 1", in_place),
            ("the shape is (2, 3, 4)", lambda q, k, v, m: weights(q, k, m)),
            ("raised TypeError", lambda q, k, v: v),
        ),
    ),
    "attention/heads": Answers(
        right=(cut, permuted),
        wrong=(
            ("pieces of different tokens", lambda x, h: x.reshape(len(x), h, x.shape[1], -1)),
            (
                "every n_heads-th",
                lambda x, h: torch.stack([x[..., head::h] for head in range(h)], 1),
            ),
            ("behind the tokens", lambda x, h: x.reshape(*x.shape[:2], h, -1)),
            ("places with the batch", lambda x, h: torch.stack(x.chunk(h, -1))),
            ("the shape is", lambda x, h: x),
        ),
    ),
    "attention/tell_apart": Answers(
        right=(
            many_inputs(),
            many_inputs(n_q=9, n_k=12, batch=(2, 2)),
            half_precision,
            more_queries_than_keys,
        ),
        wrong=(
            ("the mask is not used", many_inputs(everything=True, blind=False)),
            ("gets NaN", many_inputs(blind=False)),
            ("expose 4 of 11", saturated),
            ("expose 8 of 11", equal_tokens),
            ("return four tensors", lambda: (torch.ones(2, 2), torch.ones(2, 2))),
            ("attention refuses", lambda: [torch.ones(2, 2)] * 4),
            ("one row for each query", lambda: (*many_inputs()()[:3], torch.tensor(True))),
            ("must be finite", nan_values),
            ("must be a tensor", lambda: (*many_inputs()()[:3], None)),
            ("expose 2 of 11", no_keys),
            ("share one float dtype", of_two_dtypes),
        ),
    ),
    "attention/spread": Answers(
        right=(spread_of(torch.randn), lambda d: torch.randn(50_000, d).norm(dim=-1).mean()),
        wrong=(
            ("that is the variance", spread_of(torch.randn, measure=torch.var)),
            ("your spread is 1 for every d_head", spread_of(torch.randn, scale=lambda d: d**-0.5)),
            ("between -1 and 1", spread_of(lambda *s: 2 * torch.rand(*s) - 1)),
            ("not centred", spread_of(torch.rand)),
            ("yours is", spread_of(torch.randn, measure=lambda x: 3 * x.std())),
        ),
    ),
}
