"""Answers to the exercises of chapter 3."""

import math

import torch
import torch.nn.functional as F

from tests.exercises.answers import Answers


def passes(with_cache=14, without=60, numbers=3584):
    return {"with_cache": with_cache, "without": without, "numbers": numbers}


def causal_by_loops(n_q, n_k, reads=lambda i, j, n_q, n_k: j <= i + n_k - n_q):
    return torch.tensor([[reads(i, j, n_q, n_k) for j in range(n_k)] for i in range(n_q)])


def last_rows(n_q, n_k):
    return torch.ones(n_k, n_k).tril()[-n_q:] == 1


def bits_by_loops(logits, tokens, real):
    total, questions = 0.0, 0
    for b in range(tokens.shape[0]):
        for t in range(tokens.shape[1] - 1):
            if real[b, t + 1]:
                p = logits[b, t].exp() / logits[b, t].exp().sum()
                total -= math.log2(p[tokens[b, t + 1]])
                questions += 1
    return total / questions


def cross_entropy(logits, tokens, real, log2=True, reduction="mean", ignore=True, shift=1):
    n = tokens.shape[1]
    read = logits[:, : n - shift] if shift >= 0 else logits[:, 1:]
    say = tokens[:, shift:] if shift >= 0 else tokens[:, : n - 1]
    asked = real[:, shift:] if shift >= 0 else real[:, : n - 1]
    if ignore:
        say = say.masked_fill(~asked, -100)
    loss = F.cross_entropy(read.transpose(1, 2), say, reduction=reduction)
    return loss / math.log(2) if log2 else loss


def means_of_texts(logits, tokens, real):
    rows = range(len(tokens))
    return sum(
        bits_by_loops(logits[b : b + 1], tokens[b : b + 1], real[b : b + 1]) for b in rows
    ) / len(rows)


def wrong_axis(logits, tokens, real):
    p = logits.softmax(dim=1)[:, :-1]
    hit = p.gather(2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    return -(hit.log2() * real[:, 1:]).sum() / real[:, 1:].sum()


def through_p(logits, tokens, real, average):
    p = logits.softmax(dim=2)[:, :-1].gather(2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    return average(p, real[:, 1:], real)


def whole_again(new, k_old, v_old, table, maps):
    """One token after the other, by loops."""
    w_q, w_k, w_v = maps
    k, v, out = list(k_old), list(v_old), []
    for x in new:
        x = x + table[len(k)]
        k.append(x @ w_k)
        v.append(x @ w_v)
        scores = torch.stack([x @ w_q @ key for key in k]) / math.sqrt(len(x))
        out.append(sum(w * value for w, value in zip(scores.softmax(0), v, strict=True)))
    return torch.stack(out), torch.stack(k), torch.stack(v)


def at_once(new, k_old, v_old, table, maps, start=None, mask=last_rows, d=None, old_first=True):
    n_old, n_new = len(k_old), len(new)
    start = n_old if start is None else start(n_old)
    x = new + table[start : start + n_new]
    pair = (k_old, x @ maps[1]), (v_old, x @ maps[2])
    k, v = (torch.vstack(p if old_first else p[::-1]) for p in pair)
    allowed = mask(n_new, n_old + n_new)
    out = F.scaled_dot_product_attention(x @ maps[0], k, v, attn_mask=allowed, scale=d)
    return out, k, v


def forgets(new, k_old, v_old, table, maps):
    return whole_again(new, k_old, v_old, table, maps)[0], k_old, v_old


def only_new(new, k_old, v_old, table, maps):
    out, k, v = whole_again(new, k_old, v_old, table, maps)
    return out, k[len(k_old) :], v[len(k_old) :]


def blind(new, k_old, v_old, table, maps):
    x = new + table[len(k_old) : len(k_old) + len(new)]
    q, k, v = x @ maps[0], x @ maps[1], x @ maps[2]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), k, v


def dice_by_loops(logits, temperature, u):
    chosen = []
    for row, die in zip(logits.tolist(), u.tolist(), strict=True):
        raised = [math.exp(value / temperature) for value in row]
        total, index = raised[0], 0
        while total <= die * sum(raised):
            index += 1
            total += raised[index]
        chosen.append(index)
    return torch.tensor(chosen)


def dice(logits, temperature, u, right=True):
    sums = torch.softmax(logits / temperature, dim=1).cumsum(dim=1)
    return torch.searchsorted(sums, u[:, None], right=right)[:, 0]


def dice_after(logits, temperature, u):
    sums = (logits.softmax(1) / temperature).cumsum(1)
    return torch.searchsorted(sums, u[:, None])[:, 0].clamp(0, logits.shape[1] - 1)


def dice_sorted(logits, temperature, u):
    order = logits.argsort(dim=1, descending=True)
    return order[torch.arange(len(u)), dice(logits.gather(1, order), temperature, u)]


EVEN = [1 / 3, 1 / 3, 1 / 3]
SURE = [1.0, 0.0, 0.0]


def normalised_zeros():
    then = torch.tensor([EVEN, SURE, [0.0, 0.0, 0.0]])
    return then / then.sum(1, keepdim=True)


ANSWERS = {
    "usage/passes": Answers(
        right=(passes(), passes(14.0, torch.tensor(60), 2 * 2 * 14 * 64)),
        wrong=(
            ("with_cache: nothing reads on", passes(with_cache=15)),
            ("prompt has to pass", passes(with_cache=4)),
            ("without: nothing reads on", passes(without=75)),
            ("begin the sum at 10", passes(without=105)),
            ("not only the prompt", passes(without=50)),
            ("one token longer", passes(without=70)),
            ("keeps a key and a value", passes(numbers=1792)),
            ("four vectors a token", passes(numbers=896)),
            ("not in the cache", passes(numbers=3840)),
            ("the prompt alone", passes(numbers=2560)),
        ),
    ),
    "usage/causal": Answers(
        right=(causal_by_loops, last_rows),
        wrong=(
            ("aligned at the top left", lambda n_q, n_k: torch.ones(n_q, n_k).tril().bool()),
            (
                "one key short",
                lambda n_q, n_k: causal_by_loops(n_q, n_k, lambda i, j, q, k: j < i + k - q),
            ),
            (
                "one key of the future",
                lambda n_q, n_k: causal_by_loops(n_q, n_k, lambda i, j, q, k: j <= i + k - q + 1),
            ),
            ("says what is forbidden", lambda n_q, n_k: ~last_rows(n_q, n_k)),
            ("reads the future", lambda n_q, n_k: torch.ones(n_k, n_k).triu().bool()[-n_q:]),
            ("read each other freely", lambda n_q, n_k: torch.ones(n_q, n_k) > 0),
            ("the dtype is", lambda n_q, n_k: last_rows(n_q, n_k).float()),
            ("the shape is (7, 7)", lambda n_q, n_k: torch.ones(n_k, n_k).tril() > 0),
        ),
    ),
    "usage/cached": Answers(
        right=(whole_again, at_once),
        wrong=(
            ("start at 0 again", lambda *inputs: at_once(*inputs, start=lambda n: 0)),
            ("one too small", lambda *inputs: at_once(*inputs, start=lambda n: max(n - 1, 0))),
            (
                "aligned at the top left",
                lambda *inputs: at_once(*inputs, mask=lambda q, k: torch.ones(q, k).tril() > 0),
            ),
            (
                "read their future",
                lambda *inputs: at_once(*inputs, mask=lambda q, k: torch.ones(q, k) > 0),
            ),
            (
                "stand before the old ones",
                lambda *inputs: at_once(*inputs, old_first=False),
            ),
            ("cache is not read", blind),
            ("has not grown", forgets),
            ("old ones are lost", only_new),
            ("not divided", lambda *inputs: at_once(*inputs, d=1.0)),
            ("3 results are wanted", lambda *inputs: whole_again(*inputs)[0]),
        ),
    ),
    "usage/bits": Answers(
        right=(bits_by_loops, cross_entropy),
        wrong=(
            ("no shift", lambda *inputs: cross_entropy(*inputs, shift=0)),
            ("the wrong way", lambda *inputs: cross_entropy(*inputs, shift=-1)),
            ("these are nats", lambda *inputs: cross_entropy(*inputs, log2=False)),
            ("padding is asked for", lambda *inputs: cross_entropy(*inputs, ignore=False)),
            (
                "answered for nothing",
                lambda *inputs: through_p(*inputs, lambda p, r, _: -(p.log2() * r).mean()),
            ),
            (
                "is never asked for",
                lambda *inputs: through_p(
                    *inputs, lambda p, r, everything: -p.log2()[r].sum() / everything.sum()
                ),
            ),
            ("weighs short texts", means_of_texts),
            ("over the positions", wrong_axis),
            ("that is the sum", lambda *inputs: cross_entropy(*inputs, reduction="sum")),
            (
                "logarithms first",
                lambda *inputs: through_p(*inputs, lambda p, r, _: -p[r].mean().log2()),
            ),
            ("minus the logarithm", lambda *inputs: -bits_by_loops(*inputs)),
        ),
    ),
    "usage/sample": Answers(
        right=(dice_by_loops, dice),
        wrong=(
            ("you multiply by the temperature", lambda x, t, u: dice(x * t, 1.0, u)),
            ("temperature is not used", lambda x, t, u: dice(x, 1.0, u)),
            ("likeliest token each time", lambda x, t, u: x.topk(1).indices.flatten()),
            ("before the softmax", dice_after),
            ("one too large", lambda x, t, u: dice(x, t, u) + 1),
            ("one too small", lambda x, t, u: dice(x, t, u) - 1),
            ("follows the vocabulary's order", dice_sorted),
            ("the shape is (60, 1)", lambda x, t, u: dice(x, t, u)[:, None]),
        ),
    ),
    "usage/greedy": Answers(
        right=(
            ([0.36, 0.32, 0.32], [EVEN, SURE, EVEN]),
            (torch.tensor([0.49, 0.51, 0.0]), torch.tensor([SURE, EVEN, EVEN])),
        ),
        wrong=(
            ("equally likely", ([0.4, 0.4, 0.2], [EVEN, SURE, EVEN])),
            ("greedy finds it", ([0.8, 0.1, 0.1], [EVEN, SURE, EVEN])),
            ("1.20 times as probable", ([0.6, 0.4, 0], [[0.5, 0.5, 0], [0.9, 0.1, 0], EVEN])),
            ("must sum to 1", ([0.6, 0.5, 0.4], [EVEN, SURE, EVEN])),
            ("negative", ([0.6, 0.5, -0.1], [EVEN, SURE, EVEN])),
            ("not a finite number", (torch.tensor([0.36, 0.32, 0.32]), normalised_zeros())),
            ("hold numbers", ([0.36, 0.32, 0.32], ["EVEN", SURE, EVEN])),
            ("three characters", ([0.6, 0.4], [[0.5, 0.5], [1.0, 0.0]])),
            ("two tables", [EVEN, SURE, EVEN]),
        ),
    ),
}
