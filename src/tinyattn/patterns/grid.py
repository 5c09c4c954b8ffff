"""Patterns of pictures: pixels in raster order, read along rows, down columns and in tiles.

Pixel (row, col) of a picture stands at position row * width + col. Other orders, in which the
pixels of a tile or a column are neighbours, belong to the schedule and change no meaning.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor

from tinyattn.patterns.base import (
    Order,
    Pattern,
    at_least,
    clipped,
    in_int64,
    keep,
    listed,
    merged,
    whole_blocks,
)
from tinyattn.patterns.positional import BlockLocal, Causal, Strided


def row_and_column(
    position: Integer[Tensor, "..."], width: int
) -> tuple[Integer[Tensor, "..."], Integer[Tensor, "..."]]:
    """Where on a picture of that width the raster positions lie.

    Example:
        >>> row_and_column(torch.tensor(7), width=5)
        (tensor(1), tensor(2))
    """
    width = at_least("width", width, 1, "pixels")
    return position // width, position % width


def raster_position(
    row: Integer[Tensor, "..."], col: Integer[Tensor, "..."], width: int
) -> Integer[Tensor, "..."]:
    """The inverse of `row_and_column`.

    Example:
        >>> raster_position(torch.tensor(1), torch.tensor(2), width=5)
        tensor(7)
    """
    width = at_least("width", width, 1, "pixels")
    return row * width + col


# ---------------------------------------------------------------------------- rows and columns


def axial_rows(width: int) -> Pattern:
    """A pixel reads its row: height * width² pairs.

    In raster order a row is a block. Followed by a layer of columns, or together with them in
    one (`axial_rows(width) | axial_columns(width)`, height * width * (height + width - 1)
    pairs), every pixel reaches every other in two hops.

    Args:
        width: of the picture, in pixels.

    Raises:
        ValueError: if `width` is below 1.

    Source:
        Ho et al. 2019, section 3 (arXiv:1912.12180).

    Example:
        >>> axial_rows(3).edges(2 * 3)
        18
    """
    at_least("width", width, 1, "pixels")
    return BlockLocal(width)


def axial_columns(width: int) -> Pattern:
    """A pixel reads its column: height² * width pairs.

    In raster order a column is every width-th position.

    Args:
        width: of the picture, in pixels.

    Raises:
        ValueError: if `width` is below 1.

    Source:
        Ho et al. 2019, section 3 (arXiv:1912.12180). Lin et al. 2022, section 4.1.1.3, describe
        axial attention as strided, with a gap of the width where rows are stored one after the
        other (down a column, as here), and of the height where columns are (along a row).

    Example:
        >>> axial_columns(3).edges(2 * 3)
        12
    """
    at_least("width", width, 1, "pixels")
    return Strided(width)


# ------------------------------------------------------------------------------ blocks in 1-D


def image_1d(block_size: int, memory: int) -> Pattern:
    """Blocks along the raster: a pixel reads its block so far, and `memory` pixels before it.

    n pixels cost about n * (block_size / 2 + memory) pairs. What lies above a pixel is a width
    away, so a block has to be as long as some rows to hold it.

    Args:
        block_size: pixels in a block of queries.
        memory: pixels before the block that all of its queries read.

    Raises:
        ValueError: if `block_size` is below 1 or `memory` negative.

    Source:
        Parmar et al. 2018, section 3.3, "1D local attention" (arXiv:1802.05751); block_size is
        their l_q, memory their l_m. Colour channels, if any, are positions of their own.

    Example:
        >>> image_1d(2, memory=1).mask(5).int()
        tensor([[1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [0, 1, 1, 0, 0],
                [0, 1, 1, 1, 0],
                [0, 0, 0, 1, 1]], dtype=torch.int32)
    """
    return BlockAndMemory(block_size, memory) & Causal()


@dataclass(frozen=True)
class BlockAndMemory(Pattern):
    """A query reads its own block, and some keys before that block.

    Args:
        block_size: tokens in a block.
        memory: keys before it.

    Example:
        >>> BlockAndMemory(2, memory=1).edges(6)
        16
    """

    block_size: int
    memory: int

    def __post_init__(self) -> None:
        block_size = at_least("block_size", self.block_size, 1)
        keep(self, block_size=block_size, memory=at_least("memory", self.memory, 0, "keys"))

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        start = i - i % self.block_size
        return (j >= start - self.memory) & (j < start + self.block_size)

    def reach(self, queries: range, n_k: int) -> list[range]:
        first, last = (at - at % self.block_size for at in (queries[0], queries[-1]))
        return clipped(first - self.memory, last + self.block_size, n_k)

    @property
    def lookback(self) -> int:
        return self.block_size - 1 + self.memory

    def borders(self, n: int) -> list[int]:
        return whole_blocks(self.block_size, n)

    def footprint(self, queries: range, keys: range) -> Hashable:
        first = queries[0] - queries[0] % self.block_size
        last = queries[-1] - queries[-1] % self.block_size
        if keys[0] >= last + self.block_size or keys[-1] < first - self.memory:
            return "none"
        return queries[0] - first, queries.step, keys[0] - first, keys.step


# ------------------------------------------------------------------------------ blocks in 2-D


def image_2d(
    height: int,
    width: int,
    block: int | tuple[int, int],
    flange: int | tuple[int, int],
    *,
    causal: bool = True,
) -> Pattern:
    """Tiles of a picture: a pixel reads its tile, and a border around it.

    A causal picture is generated tile by tile, the tiles and the pixels inside each in raster
    order (`generation_order`). A pixel reads its tile so far, `flange` rows above the tile, as
    wide as the tile with a flange on each side, and a flange to the left of it. All of that was
    generated before; what is to the right was not. The causal rule is about that order, and
    `Causal()`, which is about raster order, must not be added.

    Without `causal` the border is on all four sides. n pixels cost O(n * (tile + border)) pairs.
    Tiles at the right and the bottom are cut short if they do not divide the picture.

    Args:
        height: of the picture, in pixels.
        width: of the picture.
        block: height and width of a tile; one number stands for both.
        flange: height and width of the border; one number stands for both.
        causal: whether a pixel reads only what was generated before it.

    Raises:
        ValueError: if a side of the picture or of the tile is below 1, or a flange negative; when
            used on more than height * width tokens.

    Source:
        Parmar et al. 2018, section 3.3, "2D local attention" (arXiv:1802.05751). tensor2tensor
        pads both axes by both flanges, which is another picture where the two differ.

    Example:
        >>> image_2d(8, 8, block=4, flange=2, causal=False).edges(64)
        2304
        >>> image_2d(8, 8, block=4, flange=2).edges(64)
        1184
    """
    sides = _both_sides("block", block), _both_sides("flange", flange)
    return ImageBlocks(height, width, *sides, causal)


def generation_order(height: int, width: int, block: int | tuple[int, int]) -> Int64[Tensor, "n"]:
    """Raster positions of the pixels in the order in which `image_2d` generates them.

    Raises:
        ValueError: if a side of the picture or of the tile is below 1.

    Example:
        >>> generation_order(2, 4, block=2)
        tensor([0, 1, 4, 5, 2, 3, 6, 7])
    """
    picture = ImageBlocks(height, width, _both_sides("block", block), (0, 0))
    tiles = picture.order.groups(picture.height * picture.width)
    return torch.tensor([at for tile in tiles for run in tile for at in run])


@dataclass(frozen=True)
class Tiles(Order):
    """The pixels of a tile together, tile by tile."""

    height: int
    width: int
    block_height: int
    block_width: int

    def groups(self, n: int) -> list[list[range]]:
        tiles = []
        for top in range(0, self.height, self.block_height):
            bottom = min(top + self.block_height, self.height)
            for left in range(0, self.width, self.block_width):
                right = min(left + self.block_width, self.width)
                starts = range(top * self.width, bottom * self.width, self.width)
                rows = [range(start + left, min(start + right, n)) for start in starts]
                tiles.append(merged(rows))
        return tiles


@dataclass(frozen=True)
class ImageBlocks(Pattern):
    """What `image_2d` returns; block and flange are (rows, columns)."""

    height: int
    width: int
    block: tuple[int, int]
    flange: tuple[int, int]
    causal: bool = True

    def __post_init__(self) -> None:
        keep(
            self,
            height=at_least("height", self.height, 1, "pixels"),
            width=at_least("width", self.width, 1, "pixels"),
            block=tuple(at_least("block", side, 1, "pixels a side") for side in self.block),
            flange=tuple(at_least("flange", side, 0, "pixels a side") for side in self.flange),
        )
        for side, border in zip(self.block, self.flange, strict=True):
            in_int64("block + flange", side + border)

    def check(self, n: int) -> None:
        if n > self.height * self.width:
            raise ValueError(
                f"a picture of {self.height} rows and {self.width} columns has "
                f"{self.height * self.width} pixels, got n={n} tokens"
            )

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        (tile_height, tile_width), (up, side) = self.block, self.flange
        row, col = row_and_column(i, self.width)
        row, col = row - row % tile_height, col - col % tile_width  # the tile's corner
        down, right = row_and_column(j, self.width)
        down, right = down - row, right - col  # the key, seen from there
        near = (right >= -side) & (right < tile_width + side)
        if not self.causal:
            return near & (down >= -up) & (down < tile_height + up)
        above = near & (down >= -up) & (down < 0)
        beside = (right >= -side) & (right < tile_width) & (down >= 0) & (down < tile_height)
        return above | (beside & ((right < 0) | (j <= i)))

    def _count(self, n: int) -> int:
        if n < self.height * self.width:
            return super()._count(n)
        total = 0
        for top, bottom in _cuts(self.height, self.block[0]):
            for left, right in _cuts(self.width, self.block[1]):
                tile = (bottom - top) * (right - left)
                first, last = max(left - self.flange[1], 0), min(right + self.flange[1], self.width)
                above = min(top, self.flange[0]) * (last - first)
                beside = (bottom - top) * (left - first)
                if self.causal:
                    total += tile * (above + beside) + tile * (tile + 1) // 2
                else:
                    below = min(self.height - bottom, self.flange[0]) * (last - first)
                    total += tile * (above + below + (bottom - top) * (last - first))
        return total

    def reach(self, queries: range, n_k: int) -> list[range]:
        corner = self._corner(queries)
        if corner is not None:
            return _memory(self, *corner, n_k)
        row, last_row = queries[0] // self.width, queries[-1] // self.width
        top = row - row % self.block[0] - self.flange[0]
        bottom = last_row - last_row % self.block[0] + self.block[0] + self.flange[0]
        return clipped(max(top, 0) * self.width, bottom * self.width, n_k)

    @property
    def order(self) -> Tiles:
        return Tiles(self.height, self.width, *self.block)

    def footprint(self, queries: range, keys: range) -> Hashable | None:
        corner = self._corner(queries)
        if corner is None:
            return None
        row, col = divmod(queries[0], self.width)
        key_row, key_col = divmod(keys[0], self.width)
        seen = row - corner[0], col - corner[1], key_row - corner[0], key_col - corner[1]
        one_row = keys[-1] // self.width == key_row
        return seen if one_row else (*seen, key_col)  # where rows wrap around, the place matters

    def _corner(self, queries: range) -> tuple[int, int] | None:
        return _corner_of(queries[0], queries[-1], self.width, *self.block)


@lru_cache(maxsize=4096)
def _corner_of(
    first: int, last: int, width: int, tile_height: int, tile_width: int
) -> tuple[int, int] | None:
    """Row and column where the tile begins that holds these pixels in one row; None if none does."""
    (row, col), (last_row, last_col) = divmod(first, width), divmod(last, width)
    if row != last_row or col // tile_width != last_col // tile_width:
        return None
    return row - row % tile_height, col - col % tile_width


@lru_cache(maxsize=4096)
def _memory(rule: ImageBlocks, top: int, left: int, n_k: int) -> list[range]:
    """What the tile with that corner reads, row by row."""
    (tile_height, tile_width), (up, side) = rule.block, rule.flange
    bottom = min(top + tile_height, rule.height)
    right = min(left + tile_width, rule.width)
    wide = range(max(left - side, 0), min(right + side, rule.width))
    beside = range(wide.start, right)
    rows = [(row, wide) for row in range(max(top - up, 0), top)]
    rows += [(row, beside if rule.causal else wide) for row in range(top, bottom)]
    if not rule.causal:
        rows += [(row, wide) for row in range(bottom, min(bottom + up, rule.height))]
    starts = [(row * rule.width, cols) for row, cols in rows]
    return merged([range(at + cols.start, min(at + cols.stop, n_k)) for at, cols in starts])


def _cuts(length: int, size: int) -> list[tuple[int, int]]:
    """Where blocks of that size begin and end; the last one may be short."""
    return [(start, min(start + size, length)) for start in range(0, length, size)]


def _both_sides(name: str, sides: int | tuple[int, int]) -> tuple[int, int]:
    if not isinstance(sides, tuple | list):
        sides = sides, sides
    if len(sides) != 2:
        raise ValueError(f"{name} must be a number or (height, width), got {sides}")
    height, width = listed(name, sides, "two numbers, (height, width)")
    return height, width
