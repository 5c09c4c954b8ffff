"""Answers to the exercises of chapter 7."""

import math

import torch

from tests.exercises.answers import Answers


def by_pairs(rule):
    """A mask from a rule for one pair, written as two loops."""

    def answer(n, *parameters):
        rows = [[bool(rule(i, j, *parameters)) for j in range(n)] for i in range(n)]
        return torch.tensor(rows, dtype=torch.bool).view(n, n)

    return answer


def dilated_by_steps(n, w, dilation, causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for m in range(-w, 1 if causal else w + 1):
        if abs(m * dilation) < n:
            mask.diagonal(m * dilation).fill_(True)
    return mask


def by_range(start, stop):
    """The keys at i + m * dilation for the m of a range."""

    def answer(n, w, dilation, causal):
        mask = torch.zeros(n, n, dtype=torch.bool)
        for i in range(n):
            for m in range(start(w), stop(w)):
                j = i + m * dilation
                if 0 <= j < n and not (causal and j > i):
                    mask[i, j] = True
        return mask

    return answer


def unguarded(n, w, dilation, causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for m in range(-w, w + 1):
            j = i + m * dilation
            if j >= n or (causal and m > 0):
                continue
            mask[i, max(j, -n) if j >= -n else 0] = True
    return mask


def fits(i, j, far, step, causal=False):
    return abs(i - j) <= far and (i - j) % step == 0 and not (causal and j > i)


def crosses(n, positions, causal):
    mask = torch.zeros(n, n, dtype=torch.bool)
    mask[list(positions)] = True
    mask[:, list(positions)] = True
    return mask.tril() if causal else mask


def crosses_inside(n, positions):
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[list(positions)] = True
    return torch.outer(chosen, chosen)


def pairs_one_by_one(n, w, dilation):
    return n + 2 * sum(max(0, n - m * dilation) for m in range(1, w + 1))


def pairs_in_parts(n, w, dilation):
    """Each residue class is a plain band of its own."""
    total = 0
    for first in range(min(n, dilation)):
        size = math.ceil((n - first) / dilation)
        reach = min(w, size - 1)
        total += size * (2 * reach + 1) - reach * (reach + 1)
    return total


def receptive_by_search(mask, n_layers):
    n = len(mask)
    rows = []
    for i in range(n):
        found = {i}
        for _ in range(n_layers):
            found |= {j for m in found for j in range(n) if mask[m, j]}
        rows.append([j in found for j in range(n)])
    return torch.tensor(rows)


def receptive_by_power(mask, n_layers, identity=1.0):
    step = mask.double() + identity * torch.eye(len(mask), dtype=torch.float64)
    return torch.linalg.matrix_power(step, n_layers) > 0


def live_by_draws(n, r, block_size):
    drawn = torch.randint(n, (n, r)) // block_size
    n_blocks = n // block_size
    blocks = torch.arange(n)[:, None] // block_size * n_blocks + drawn
    return blocks.unique().numel() / n_blocks**2


def live_by_mask(n, r, block_size, rows=None):
    mask = torch.zeros(n, n, dtype=torch.bool)
    mask.scatter_(1, torch.rand(n, n).topk(r, dim=1).indices, True)
    rows = rows or block_size
    tiles = mask.view(n // rows, rows, n // block_size, block_size)
    return tiles.any(dim=3).any(dim=1).float().mean()


ANSWERS = {
    "atomic/dilated": Answers(
        right=(dilated_by_steps, by_range(lambda w: -w, lambda w: w + 1)),
        wrong=(
            ("counts both sides", by_range(lambda w: -(w // 2), lambda w: w // 2 + 1)),
            ("on each side is missing", by_range(lambda w: -w + 1, lambda w: w)),
            ("range(-w, w) ends before w", by_range(lambda w: -w, lambda w: w)),
            ("m = 0 belongs", by_pairs(lambda i, j, w, d, c: i != j and fits(i, j, w * d, d, c))),
            ("causal is ignored", by_pairs(lambda i, j, w, d, c: fits(i, j, w * d, d))),
            ("upside down", by_pairs(lambda i, j, w, d, c: fits(j, i, w * d, d, c))),
            (
                "j = i is allowed",
                by_pairs(lambda i, j, w, d, c: fits(i, j, w * d, d) and (j < i or not c)),
            ),
            ("counts keys and not positions", by_pairs(lambda i, j, w, d, c: fits(i, j, w, d, c))),
            (
                "skips that many keys",
                by_pairs(lambda i, j, w, d, c: fits(i, j, w * (d + 1), d + 1, c)),
            ),
            ("a plain window", by_pairs(lambda i, j, w, d, c: fits(i, j, w, 1, c))),
            ("the gaps are filled", by_pairs(lambda i, j, w, d, c: fits(i, j, w * d, 1, c))),
            ("up to the ends", by_pairs(lambda i, j, w, d, c: fits(i, j, 99, d, c))),
            ("counts from the end in Python", unguarded),
            ("the dtype is torch.float32", lambda *a: dilated_by_steps(*a).float()),
        ),
    ),
    "atomic/global": Answers(
        right=(
            crosses,
            by_pairs(lambda i, j, p, c: (i in p or j in p) and (j <= i or not c)),
        ),
        wrong=(
            ("only the rows", by_pairs(lambda i, j, p, c: i in p and not (c and j > i))),
            ("only the columns", by_pairs(lambda i, j, p, c: j in p and not (c and j > i))),
            ("read each other only", lambda n, p, c: crosses(n, p, c) & crosses_inside(n, p)),
            (
                "*or* includes both",
                by_pairs(lambda i, j, p, c: (i in p) != (j in p) and not (c and j > i)),
            ),
            (
                "read themselves",
                lambda n, p, c: crosses(n, p, c) | torch.eye(n, dtype=torch.bool),
            ),
            ("take the positions given", lambda n, p, c: crosses(n, range(len(p)), c)),
            ("causal is ignored", lambda n, p, c: crosses(n, p, False)),
            (
                "what comes after it either",
                by_pairs(lambda i, j, p, c: i in p or (j in p and not (c and j > i))),
            ),
        ),
    ),
    "atomic/pairs": Answers(
        right=(pairs_one_by_one, pairs_in_parts),
        wrong=(
            ("sticks out", lambda n, w, d: n + 2 * n * w),
            ("only one of the two", lambda n, w, d: n + 2 * n * w - d * sum(range(w + 1))),
            ("triangles at the ends are larger", lambda n, w, d: pairs_one_by_one(n, w, 1)),
            ("right while n >", lambda n, w, d: n + 2 * sum(n - m * d for m in range(1, w + 1))),
            (
                "fewer than that fit",
                lambda n, w, d: n + 2 * sum(n - m * d for m in range(1, min(w, n - 1) + 1)),
            ),
            (
                "pairs of a decoder",
                lambda n, w, d: sum(max(0, n - m * d) for m in range(w + 1)),
            ),
            ("own key is missing", lambda n, w, d: pairs_in_parts(n, w, d) - n),
            ("yours is", lambda n, w, d: min(n * n, n * (2 * w + 1))),
        ),
    ),
    "atomic/receptive": Answers(
        right=(receptive_by_search, receptive_by_power),
        wrong=(
            ("forgets itself", lambda mask, n_layers: receptive_by_power(mask, n_layers, 0.0)),
            (
                "in all layers or in none",
                lambda mask, n_layers: (
                    receptive_by_power(mask, n_layers, 0.0) | torch.eye(len(mask)).bool()
                ),
            ),
            ("one layer too many", lambda m, n_layers: receptive_by_power(m, n_layers + 1)),
            ("one layer too few", lambda m, n_layers: receptive_by_power(m, max(0, n_layers - 1))),
            ("changed places", lambda m, n_layers: receptive_by_power(m.T, n_layers)),
            ("however many", lambda m, n_layers: m | receptive_by_power(m, 0)),
            ("dtype", lambda m, n_layers: receptive_by_power(m, n_layers).double()),
        ),
    ),
    "atomic/widest": Answers(
        right=(
            lambda n_layers, w: [(2 * w + 1) ** layer for layer in range(n_layers)],
            lambda n_layers, w: (
                torch.full((n_layers,), 2 * w + 1).cumprod(0).flip(0) // (2 * w + 1)
            ),
        ),
        wrong=(
            ("[1, 1, 1] leave no gap and see 7", lambda n_layers, w: [1] * n_layers),
            ("[1, 2, 4] leave no gap", lambda n_layers, w: [2**layer for layer in range(n_layers)]),
            ("the input 2 positions", lambda n_layers, w: [4**layer for layer in range(n_layers)]),
            ("the input 1 positions", lambda n_layers, w: [3] * n_layers),
            ("a list of 3 whole numbers", lambda n_layers, w: [1, 3]),
            ("got [0.5", lambda n_layers, w: [0.5] * n_layers),
            ("with w = 3", lambda n_layers, w: [3**layer for layer in range(n_layers)]),
        ),
    ),
    "atomic/live": Answers(
        right=(live_by_draws, live_by_mask),
        wrong=(
            ("share of pairs", lambda n, r, b: r / n),
            ("blocks of one query", lambda n, r, b: live_by_mask(n, r, b, rows=1)),
            ("share of dead", lambda n, r, b: 1 - live_by_draws(n, r, b)),
            ("divide by the number", lambda n, r, b: live_by_draws(n, r, b) * (n / b) ** 2),
            ("yours is", lambda n, r, b: live_by_draws(n, 2 * r, b)),
        ),
    ),
}
