"""Patterns of pictures: pixels by double loops, counts on paper, hops, orders, and cost."""

import pytest
import torch

from tinyattn import attention
from tinyattn.engine import sparse_attention
from tinyattn.groups import schedule
from tinyattn.patterns import (
    Causal,
    Global,
    axial_columns,
    axial_rows,
    generation_order,
    image_1d,
    image_2d,
)
from tinyattn.patterns.grid import (
    BlockAndMemory,
    ImageBlocks,
    Tiles,
    raster_position,
    row_and_column,
)

from ..close import assert_same

SHAPES = [(1, 1), (1, 9), (9, 1), (4, 4), (5, 7), (8, 6)]  # tall, wide, and no multiple of a tile
BLOCKS = [((1, 1), (0, 0)), ((2, 3), (0, 0)), ((3, 2), (2, 1)), ((4, 4), (1, 3)), ((9, 9), (2, 2))]


def pixels(height, width):
    return [(row, col) for row in range(height) for col in range(width)]


def by_pixels(height, width, reads):
    """A mask from a question about two pixels, asked of each pair by a double loop."""
    mask = torch.zeros(height * width, height * width, dtype=torch.bool)
    for i, query in enumerate(pixels(height, width)):
        for j, key in enumerate(pixels(height, width)):
            mask[i, j] = reads(*query, *key)
    return mask


def on_the_grid(mask, height, width):
    return mask.view(height, width, height, width)


# ------------------------------------------------------------------------------- coordinates


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_positions_go_row_by_row_and_back(height, width):
    at = torch.arange(height * width)
    row, col = row_and_column(at, width)
    assert list(zip(row.tolist(), col.tolist(), strict=True)) == pixels(height, width)
    assert torch.equal(raster_position(row, col, width), at)


# -------------------------------------------------------------------------- rows and columns


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_axial_attention_reads_a_row_or_a_column(height, width):
    n = height * width
    rows, columns = axial_rows(width), axial_columns(width)
    assert torch.equal(rows.mask(n), by_pixels(height, width, lambda r, c, s, d: r == s))
    assert torch.equal(columns.mask(n), by_pixels(height, width, lambda r, c, s, d: c == d))
    assert rows.edges(n) == height * width**2
    assert columns.edges(n) == height**2 * width
    assert (rows | columns).edges(n) == n * (height + width - 1)


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_a_row_and_then_a_column_reach_every_pixel(height, width):
    n = height * width
    rows, columns = axial_rows(width).mask(n).float(), axial_columns(width).mask(n).float()
    assert torch.equal(columns @ rows, torch.ones(n, n))  # along exactly one path


@pytest.mark.parametrize(("height", "width"), [(5, 7), (8, 6)])
def test_columns_are_rows_of_the_picture_turned_over(height, width):
    n = height * width
    turned = torch.arange(n).view(height, width).T.flatten()
    columns = axial_columns(width).mask(n)[turned][:, turned]
    assert torch.equal(columns, axial_rows(height).mask(n))
    assert torch.equal(axial_rows(width).mask(n)[turned][:, turned], axial_columns(height).mask(n))


def test_rows_may_be_permuted_before_or_after_row_attention():
    q, k, v = torch.randn(3, 1, 2, 35, 4, generator=torch.Generator().manual_seed(0)).double()
    permuted = torch.arange(35).view(5, 7)[[3, 0, 4, 1, 2]].flatten()
    rows = axial_rows(7)
    before = sparse_attention(*(x[:, :, permuted] for x in (q, k, v)), rows)
    assert_same(before, sparse_attention(q, k, v, rows)[:, :, permuted])


# ------------------------------------------------------------------------------ blocks in 1-D


@pytest.mark.parametrize("n", [1, 6, 23, 24])
@pytest.mark.parametrize(("size", "memory"), [(1, 0), (4, 0), (4, 4), (5, 3), (3, 8), (40, 2)])
def test_a_block_reads_itself_so_far_and_the_memory_before_it(n, size, memory):
    mask = torch.zeros(n, n, dtype=torch.bool)
    for start in range(0, n, size):
        for i in range(start, min(start + size, n)):
            mask[i, max(0, start - memory) : i + 1] = True
    rule = image_1d(size, memory)
    assert torch.equal(rule.mask(n), mask)
    assert rule.edges(n) == int(mask.sum())
    assert rule.lookback == size - 1 + memory


# ------------------------------------------------------------------------------ blocks in 2-D


@pytest.mark.parametrize(("height", "width"), SHAPES)
@pytest.mark.parametrize(("block", "flange"), BLOCKS)
def test_a_tile_reads_itself_and_a_border_on_all_sides(height, width, block, flange):
    (tile_height, tile_width), (up, side) = block, flange

    def reads(row, col, key_row, key_col):
        rows = [r for r in range(height) if r // tile_height == row // tile_height]
        cols = [c for c in range(width) if c // tile_width == col // tile_width]
        near_rows = min(abs(key_row - r) for r in rows) <= up
        return near_rows and min(abs(key_col - c) for c in cols) <= side

    rule = image_2d(height, width, block, flange, causal=False)
    expected = by_pixels(height, width, reads)
    assert torch.equal(rule.mask(height * width), expected)
    assert rule.edges(height * width) == int(expected.sum())


@pytest.mark.parametrize(("height", "width"), SHAPES)
@pytest.mark.parametrize(("block", "flange"), BLOCKS)
def test_the_causal_tile_is_the_other_one_without_what_comes_later(height, width, block, flange):
    n = height * width
    order = generation_order(height, width, block).tolist()
    when = {pixel: time for time, pixel in enumerate(order)}
    tile = {
        row * width + col: (row // block[0], col // block[1]) for row, col in pixels(height, width)
    }
    around = image_2d(height, width, block, flange, causal=False).mask(n)
    mask = image_2d(height, width, block, flange).mask(n)
    for i in range(n):
        for j in range(n):
            below = tile[j][0] > tile[i][0]
            right = tile[j][0] == tile[i][0] and tile[j][1] > tile[i][1]
            later_here = tile[j] == tile[i] and when[j] > when[i]
            kept = bool(around[i, j]) and not (below or right or later_here)
            assert bool(mask[i, j]) == kept
            assert not (kept and when[j] > when[i])
    assert image_2d(height, width, block, flange).edges(n) == int(mask.sum())


@pytest.mark.parametrize(("height", "width"), SHAPES)
@pytest.mark.parametrize(("block", "flange"), BLOCKS)
def test_turning_picture_and_shapes_over_turns_the_mask_over(height, width, block, flange):
    n = height * width
    mask = image_2d(height, width, block, flange, causal=False).mask(n)
    turned = image_2d(width, height, block[::-1], flange[::-1], causal=False).mask(n)
    other = on_the_grid(turned, width, height).permute(1, 0, 3, 2)
    assert torch.equal(on_the_grid(mask, height, width), other)


@pytest.mark.parametrize(("height", "width", "block"), [(6, 8, (3, 4)), (5, 7, (2, 3))])
def test_every_pixel_is_generated_once_tile_by_tile(height, width, block):
    order = generation_order(height, width, block)
    assert sorted(order.tolist()) == list(range(height * width))
    row, col = row_and_column(order, width)
    keys = zip((row // block[0]).tolist(), (col // block[1]).tolist(), order.tolist(), strict=True)
    keys = list(keys)
    assert keys == sorted(keys)


def test_counts_are_those_worked_out_on_paper():
    assert image_2d(8, 8, 4, 2, causal=False).edges(64) == 2304
    assert image_2d(8, 12, (4, 3), 0, causal=False).edges(96) == 96 * 4 * 3
    # one tile: 10 pairs in a triangle of 4; three others read one strip or band more, or both
    assert image_2d(4, 4, 2, 1).edges(16) == 4 * 10 + 4 * 2 + 4 * 3 + 4 * (3 + 2)


def test_one_row_of_tiles_is_the_pattern_along_the_raster():
    for size, memory in [(3, 2), (4, 0), (5, 9)]:
        flat = image_2d(1, 23, (1, size), (0, memory)).mask(23)
        assert torch.equal(flat, image_1d(size, memory).mask(23))


def test_without_a_flange_tiles_never_meet_and_with_one_two_hops_suffice():
    alone = image_2d(8, 8, 4, 0, causal=False).mask(64).float()
    assert torch.equal(alone @ alone > 0, alone > 0)
    joined = image_2d(8, 8, 4, 2, causal=False).mask(64).float()
    assert (joined @ joined > 0).all()


def test_raster_order_may_not_be_taken_for_the_order_of_generation():
    """`& Causal()` hides the first tile's lower rows from the tile to its right."""
    rule = image_2d(4, 4, 2, 2)
    assert rule.mask(16)[2, 4]  # (0, 2) reads (1, 0), which was generated before
    assert not (rule & Causal()).mask(16)[2, 4]
    assert rule.mask(16).sum() > (rule & Causal()).mask(16).sum()


# ------------------------------------------------------------------------------------- leaks


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        (image_1d(5, 4), torch.arange(35)),
        (image_2d(5, 7, (2, 3), (1, 2)), generation_order(5, 7, (2, 3))),
        (axial_rows(7) & Causal(), torch.arange(35)),
    ],
)
def test_what_is_generated_later_changes_no_bit_of_what_was(rule, order):
    q, k, v = torch.randn(3, 1, 2, 35, 4, generator=torch.Generator().manual_seed(1))
    for time in (1, 9, 20, 34):
        past, future = order[:time], order[time:]
        before = sparse_attention(q, k, v, rule)[:, :, past]
        changed = [x.clone() for x in (q, k, v)]
        for x in changed:
            x[:, :, future] = 1e3
        assert torch.equal(sparse_attention(*changed, rule)[:, :, past], before)


def test_gradients_flow_along_the_order_of_generation():
    rule, order = image_2d(4, 6, (2, 3), (1, 1)), generation_order(4, 6, (2, 3))
    q, k, v = torch.randn(3, 1, 1, 24, 4, generator=torch.Generator().manual_seed(0))
    jacobian = torch.autograd.functional.jacobian(
        lambda v: sparse_attention(q, k, v, rule).sum(dim=(0, 1, 3)), v
    )
    reads = jacobian.abs().sum(dim=(1, 2, 4)) > 0
    assert torch.equal(reads, rule.mask(24))
    assert not reads[order][:, order].triu(1).any()


# -------------------------------------------------------------------------------- schedules


FAST = {
    "rows": axial_rows(23),
    "columns": axial_columns(23),
    "both": axial_rows(23) | axial_columns(23),
    "1-D": image_1d(50, 30),
    "2-D": image_2d(19, 23, (6, 8), (3, 4)),
    "2-D, around": image_2d(19, 23, (6, 8), (2, 5), causal=False),
    "2-D, tiles larger than a group": image_2d(19, 23, (19, 20), (3, 3)),
    "2-D, as wide as the picture": image_2d(19, 23, (4, 23), (3, 3)),
    "2-D with a global pixel": image_2d(19, 23, (6, 8), 2, causal=False) | Global(1),
    "2-D and columns": image_2d(19, 23, 5, 1, causal=False) | axial_columns(23),
    "two sizes of tiles": image_2d(19, 23, 5, 0) | image_2d(19, 23, (2, 7), 1),
}


@pytest.mark.parametrize("rule", FAST.values(), ids=FAST)
@pytest.mark.parametrize("n", [19 * 23, 400])
def test_reordered_schedules_equal_dense_attention(rule, n):
    rng = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 3, n, 4, generator=rng, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    )
    weights = torch.randn(2, 3, n, 4, generator=rng, dtype=torch.float64)
    ours, expected = sparse_attention(q, k, v, rule), attention(q, k, v, rule.mask(n))
    assert_same(ours, expected)
    grads = [torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (ours, expected)]
    for mine, other in zip(*grads, strict=True):
        assert_same(mine, other)


def test_tiles_compute_their_pairs_and_no_others():
    around = image_2d(64, 64, 16, 8, causal=False)
    lowered = schedule(around, 64 * 64)
    assert lowered.n_pairs == around.edges(64 * 64)
    assert len(lowered.groups) == 16
    assert all(group.masks == () for group in lowered.groups)
    assert all(len(group.keys.strips) == 1 for group in lowered.groups)  # one view each
    causal = schedule(image_2d(64, 64, 16, 8), 64 * 64)
    assert causal.n_pairs == image_2d(64, 64, 16, 8).edges(64 * 64) + 16 * 256 * 255 // 2
    assert len({id(group.masks) for group in causal.groups}) <= 9


@pytest.mark.parametrize("causal", [True, False])
def test_the_pairs_of_tiles_grow_in_proportion_to_the_picture(causal):
    small, large = (
        schedule(image_2d(64, width, 16, 8, causal=causal), 64 * width) for width in (256, 512)
    )
    assert large.n_pairs <= 2.05 * small.n_pairs
    assert len(large.groups) == 2 * len(small.groups)


@pytest.mark.parametrize("rule", [axial_rows(64), axial_columns(64)])
def test_rows_and_columns_compute_their_pairs_and_no_others(rule):
    lowered = schedule(rule, 64 * 64)
    assert lowered.n_pairs == rule.edges(64 * 64) == 64**3
    assert all(group.masks == () for group in lowered.groups)


def test_tiles_in_their_order_are_each_pixel_once():
    for n in (0, 1, 30, 35):
        groups = Tiles(5, 7, 2, 3).groups(n)
        assert sorted(at for group in groups for run in group for at in run) == list(range(n))


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: axial_rows(0), "width must be 1 or more pixels, got 0"),
        (lambda: axial_columns(-1), "width must be 1 or more pixels, got -1"),
        (lambda: image_1d(0, 1), "block_size must be 1 or more, got 0"),
        (lambda: image_1d(1, -1), "memory must be 0 or more keys, got -1"),
        (lambda: image_2d(0, 4, 2, 1), "height must be 1 or more pixels, got 0"),
        (lambda: image_2d(4, 0, 2, 1), "width must be 1 or more pixels, got 0"),
        (lambda: image_2d(4, 4, (2, 0), 1), "block must be 1 or more pixels a side, got 0"),
        (lambda: image_2d(4, 4, 2, (-1, 0)), "flange must be 0 or more pixels a side, got -1"),
        (lambda: image_2d(4, 4, 2, 1).mask(17), "4 rows and 4 columns has 16 pixels, got n=17"),
        (lambda: image_2d(4, 4, (2, 2, 2), 1), r"block must be a number or \(height, width\), got"),
        (lambda: generation_order(4, 4, 0), "block must be 1 or more pixels a side, got 0"),
        (lambda: generation_order(-4, 4, 2), "height must be 1 or more pixels, got -4"),
        (lambda: generation_order(0, 4, 2), "height must be 1 or more pixels, got 0"),
        (lambda: row_and_column(torch.tensor(1), 0), "width must be 1 or more pixels, got 0"),
    ],
)
def test_impossible_pictures_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.usefixtures("refusals")
def test_sides_that_are_no_whole_numbers_are_refused():
    with pytest.raises(TypeError, match=r"a whole number, got 2\.5"):
        image_2d(4, 4, 2.5, 1)
    with pytest.raises(TypeError, match=r"a whole number, got 2\.5"):
        image_2d(4, 4, (2, 2.5), 1)


def test_blocks_of_a_picture_look_back_only_unless_they_are_told():
    assert ImageBlocks(4, 4, (2, 2), (1, 1)) == image_2d(4, 4, (2, 2), (1, 1))
    assert ImageBlocks(4, 4, (2, 2), (1, 1)).causal


def test_runs_inside_a_block_with_equal_footprints_read_alike():
    rule, seen = BlockAndMemory(4, memory=2), {}
    runs = [range(start, stop) for start in range(12) for stop in range(start + 1, 13)]
    inside = [run for run in runs if run[0] // 4 == run[-1] // 4]
    for queries in inside:
        for keys in runs:
            allowed = rule.mask(12)[queries[0] : queries.stop, keys[0] : keys.stop]
            footprint = (rule.footprint(queries, keys), allowed.shape)
            if footprint[0] == "none":
                assert not allowed.any(), (queries, keys)
            assert torch.equal(seen.setdefault(footprint, allowed), allowed), (queries, keys)
