"""Answers to the exercises of chapter 9."""

import torch

from tests.exercises.answers import Answers


def sides(left, right):
    return {"left": left, "right": right}


def parent_by_spans(node, n):
    spans = [(at, size) for size in powers(n) for at in range(0, n, size)]
    at, size = spans[node]
    return spans.index((at // (2 * size) * 2 * size, 2 * size))


def powers(n):
    return [2**level for level in range(n.bit_length())]


def by_pixels(rule):
    """A mask from a rule for query (row, col), key (row, col), tile and flange: four loops."""

    def answer(height, width, block, flange):
        pixels = [(row, col) for row in range(height) for col in range(width)]
        rows = [[bool(rule(*q, *k, *block, *flange)) for k in pixels] for q in pixels]
        return torch.tensor(rows)

    return answer


def inside(at, key, size, border):
    start = at - at % size
    return start - border <= key < start + size + border


def tile(r, c, y, x, bh, bw, fh, fw):
    return inside(r, y, bh, fh) and inside(c, x, bw, fw)


def tiles_by_intervals(height, width, block, flange):
    mask = torch.zeros(height, width, height, width, dtype=torch.bool)
    for top in range(0, height, block[0]):
        for left in range(0, width, block[1]):
            rows = slice(max(top - flange[0], 0), top + block[0] + flange[0])
            columns = slice(max(left - flange[1], 0), left + block[1] + flange[1])
            mask[top : top + block[0], left : left + block[1], rows, columns] = True
    return mask.view(height * width, height * width)


def wrong_raster(height, width, block, flange):
    at = [(i // height, i % height) for i in range(height * width)]
    return torch.tensor([[tile(*q, *k, *block, *flange) for k in at] for q in at])


def by_sorting(key):
    def answer(height, width, block):
        pixels = range(height * width)
        return sorted(pixels, key=lambda at: key(at // width, at % width, *block))

    return answer


def in_tiles(r, c, bh, bw):
    return (r // bh, c // bw, r, c)


def order_by_splits(height, width, block):
    at = torch.arange(height * width).view(height, width)
    return torch.cat([t.flatten() for rows in at.split(block[0]) for t in rows.split(block[1], 1)])


def numbers(height, width, block):
    out = torch.empty(height * width, dtype=torch.long)
    out[order_by_splits(height, width, block)] = torch.arange(height * width)
    return out


def seams_by_search(height, width, block):
    when = numbers(height, width, block).tolist()
    n = height * width
    pairs = [(i, j) for i in range(n) for j in range(n)]
    hidden = next((i, j) for i, j in pairs if when[j] < when[i] and j > i)
    leak = next((i, j) for i, j in pairs if when[j] > when[i] and j < i)
    return hidden, leak


def seam(height, width, block):
    """Around the upper edge between the first two tiles."""
    right, below = block[1], width
    return (right, below), (below, right)


ANSWERS = {
    "extended/walk": Answers(
        right=(sides([1, 2, 2], [1, 1, 4, 4]), sides((1, 2, 2), torch.tensor([1, 1, 4, 4]))),
        wrong=(
            ("where they overlap", sides([1, 2, 4], [1, 2, 4, 8])),
            ("(7, 8) is no pair", sides([1, 2, 2], [1, 2, 4, 3])),
            ("changed places", sides([1, 1, 4, 4], [1, 2, 2])),
            ("the nearest node first", sides([2, 2, 1], [4, 4, 1, 1])),
            ("not right yet: 'left'", sides([1, 2, 1], [1, 1, 4, 4])),
            ("keys 'left', 'right'", {"left": [1, 2, 2]}),
        ),
    ),
    "extended/parent": Answers(
        right=(parent_by_spans, lambda node, n: n + (node >> 1)),
        wrong=(
            ("root has number 0", lambda node, n: (node + 1) // 2 - 1),
            ("root has number 1", lambda node, n: node >> 1),
            ("right for the words", lambda node, n: n + (node % n) // 2),
            ("round down", lambda node, n: n + -(-node // 2)),
            ("the sibling", lambda node, n: node + 1 - 2 * (node % 2)),
            ("half of both", lambda node, n: (node + n) // 2),
            ("raised IndexError", lambda node, n: [n, n][node]),
        ),
    ),
    "extended/corner": Answers(
        right=(
            lambda i, j, height, width: j - j % width + i % width,
            lambda i, j, height, width: next(
                m for m in range(i % width, height * width, width) if m // width == j // width
            ),
        ),
        wrong=(
            ("the other corner", lambda i, j, height, width: i - i % width + j % width),
            ("not by the height", lambda i, j, height, width: j - j % height + i % height),
            ("not yet a position", lambda i, j, height, width: j // width + i % width),
            ("width apart", lambda i, j, height, width: j // width * height + i % width),
            ("not in the key's row", lambda i, j, height, width: i),
            ("does not read the key", lambda i, j, height, width: j),
        ),
    ),
    "extended/tiles": Answers(
        right=(by_pixels(tile), tiles_by_intervals),
        wrong=(
            (
                "of the tile have changed places",
                by_pixels(
                    lambda r, c, y, x, bh, bw, fh, fw: inside(r, y, bw, fh) and inside(c, x, bh, fw)
                ),
            ),
            (
                "of the flange have changed places",
                by_pixels(
                    lambda r, c, y, x, bh, bw, fh, fw: inside(r, y, bh, fw) and inside(c, x, bw, fh)
                ),
            ),
            ("a row is width long", wrong_raster),
            (
                "surround the pixel's tile",
                by_pixels(lambda r, c, y, x, bh, bw, fh, fw: abs(r - y) <= fh and abs(c - x) <= fw),
            ),
            (
                "on all four sides",
                by_pixels(
                    lambda r, c, y, x, bh, bw, fh, fw: (
                        0 <= y - r // bh * bh + fh < bh + fh
                        and 0 <= x - c // bw * bw + fw < bw + fw
                    )
                ),
            ),
            (
                "the flange is missing",
                by_pixels(
                    lambda r, c, y, x, bh, bw, fh, fw: r // bh == y // bh and c // bw == x // bw
                ),
            ),
            (
                "rows *and* columns",
                by_pixels(
                    lambda r, c, y, x, bh, bw, fh, fw: inside(r, y, bh, fh) or inside(c, x, bw, fw)
                ),
            ),
            (
                "no run of pixels",
                lambda h, w, b, f: torch.block_diag(
                    *[
                        torch.ones(len(run), len(run))
                        for run in torch.arange(h * w).split(b[0] * b[1])
                    ]
                ).bool(),
            ),
            (
                "query's tile counts",
                by_pixels(lambda r, c, y, x, *sizes: tile(y, x, r, c, *sizes)),
            ),
        ),
    ),
    "extended/order": Answers(
        right=(by_sorting(in_tiles), order_by_splits),
        wrong=(
            ("the inverse", numbers),
            ("raster order", by_sorting(lambda r, c, bh, bw: (r, c))),
            ("have changed places", by_sorting(lambda r, c, bh, bw: (r // bw, c // bh, r, c))),
            (
                "come in rows, as pixels do",
                by_sorting(lambda r, c, bh, bw: (c // bw, r // bh, c, r)),
            ),
            ("inside a tile", by_sorting(lambda r, c, bh, bw: (r // bh, c // bw, c, r))),
            ("the shape is", lambda h, w, b: order_by_splits(h, w, b).view(h, w)),
        ),
    ),
    "extended/seams": Answers(
        right=(seams_by_search, seam, lambda *given: torch.tensor(seam(*given))),
        wrong=(
            ("so it is rightly hidden", lambda h, w, b: seam(h, w, b)[::-1]),
            ("so it is not hidden", lambda h, w, b: ((1, 0), (w, b[1]))),
            ("leaks nothing", lambda h, w, b: (seam(h, w, b)[0],) * 2),
            ("so the mask forbids it", lambda h, w, b: (seam(h, w, b)[0], (0, 1))),
            ("outside the picture", lambda h, w, b: ((h * w, 0), (0, 0))),
            ("one pixel", lambda h, w, b: ((0, 0), (0, 0))),
            ("return two pairs", lambda h, w, b: seam(h, w, b)[0]),
        ),
    ),
}
