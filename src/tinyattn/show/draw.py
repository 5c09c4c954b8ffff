"""The figures that the book draws again and again: matrices of numbers, masks and curves."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize, to_rgb
from matplotlib.figure import Figure
from numpy import ndarray

from tinyattn.patterns import Pattern
from tinyattn.patterns.base import at_least
from tinyattn.show.describe import as_mask
from tinyattn.show.digests import DECORATION
from tinyattn.show.figures import style

ALLOWED, FORBIDDEN = "#0b3c5d", "#eef1f4"
LARGEST_WITH_NUMBERS = 10  # cells on a side that still have room for digits
LARGEST_WITH_DOTS = 32  # cells on a side that still have room for a grid and dots
SMALLEST_WITH_DOTS = 0.09  # inches of a cell, where panels share a figure
DIGIT, GAP = 0.09, 0.05  # inches: the width of a tick's digit, and what keeps ticks apart


def heatmap(
    values: object,
    *,
    row_labels: Sequence[object] | None = None,
    column_labels: Sequence[object] | None = None,
    row_name: str = "query",
    column_name: str = "key",
    title: str = "",
    annotate: bool | None = None,
    digits: int = 2,
    vmin: float | None = None,
    vmax: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a matrix of numbers: rows are queries, columns are keys, row 0 on top.

    Numbers from 0 up go from white to dark blue. If some are negative the scale runs from orange
    through white at 0 to purple. Cells that are not finite (a forbidden score is -inf) are grey.

    Args:
        values: matrix (n_q, n_k): tensor, array or nested list.
        row_labels, column_labels: one for each row or column; the numbers 0, 1, 2, ... if not given.
        row_name, column_name: what the rows and columns are; an empty name is left out.
        title: stands above the matrix.
        annotate: print the numbers in the cells; by default where 10 x 10 or fewer.
        digits: decimals of the printed numbers.
        vmin, vmax: ends of the colour scale; the data's own by default.
        ax: draw here instead of in a new figure.

    Raises:
        TypeError: if `values` holds no real numbers, labels are no list, `ax` no Axes, or `digits`
            no whole number.
        ValueError: if `values` is not a matrix, labels do not match its size, `digits` is
            negative, or `vmin` or `vmax` no finite number, or vmax not above vmin.
    """
    a = as_matrix(values)
    at_least("digits", digits, 0, "decimals")
    low, high = (_limit(name, end) for name, end in (("vmin", vmin), ("vmax", vmax)))
    if low is not None and high is not None and high <= low:
        raise ValueError(f"vmax must be above vmin, got vmin={vmin} and vmax={vmax}")
    rows = _labels(row_labels, a.shape[0], "row_labels")
    columns = _labels(column_labels, a.shape[1], "column_labels")
    if annotate is None:
        annotate = max(a.shape) <= LARGEST_WITH_NUMBERS
    cmap, norm = _colour_scale(a, low, high)
    with _canvas(ax, *_size(a.shape, rows, columns, title=title, bar=not annotate)) as axes:
        cell = _cell(a.shape, ax)
        image = axes.imshow(np.ma.masked_invalid(a), cmap=cmap, norm=norm)
        if annotate:
            for (i, j), value in np.ndenumerate(a):
                ink = _ink(cmap(norm(value))) if np.isfinite(value) else "black"
                axes.text(
                    j, i, _number(value, digits), ha="center", va="center", color=ink, size=9.5
                )
        else:
            axes.figure.colorbar(image, ax=axes, shrink=0.8)
            _mark(axes, ~np.isfinite(a), "x", "#6b6b6b", cell)
        _matrix_axes(axes, cell, rows, columns, row_name, column_name, title)
        return axes.figure


def draw_mask(
    mask: object,
    n: int | None = None,
    n_k: int | None = None,
    *,
    row_labels: Sequence[object] | None = None,
    column_labels: Sequence[object] | None = None,
    row_name: str = "query",
    column_name: str = "key",
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw who may read whom: a dark cell with a dot is allowed, a pale empty one is not.

    Args:
        mask: bool matrix (n_q, n_k), or a pattern.
        n, n_k: number of queries and keys, for a pattern; `n_k` is `n` by default.
        row_labels, column_labels, row_name, column_name, ax: as in `heatmap`.
        title: the pattern's own name by default.

    Raises:
        TypeError: if `mask` is neither a pattern nor a matrix of bools, labels are no list, or
            `ax` is no Axes.
        ValueError: if its size is missing or labels do not match it.
    """
    allowed = as_mask(mask, n, n_k)
    rows = _labels(row_labels, allowed.shape[0], "row_labels")
    columns = _labels(column_labels, allowed.shape[1], "column_labels")
    if title is None:
        title = repr(mask) if isinstance(mask, Pattern) else ""
    with _canvas(ax, *_size(allowed.shape, rows, columns, title=title, bar=False)) as axes:
        cell = _cell(allowed.shape, ax)
        axes.imshow(allowed, cmap=ListedColormap([FORBIDDEN, ALLOWED]), vmin=0, vmax=1)
        if max(allowed.shape) <= LARGEST_WITH_DOTS and cell >= SMALLEST_WITH_DOTS:
            _mark(axes, allowed, "o", "white", cell)
        _matrix_axes(axes, cell, rows, columns, row_name, column_name, title)
        return axes.figure


def curves(
    lines: Mapping[str, object],
    *,
    x: object = None,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    markers: bool | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw named curves over one x.

    Args:
        lines: for each name its y values; all of one length if `x` is given.
        x: positions; 0, 1, 2, ... if not given.
        xlabel, ylabel: what the axes measure, with units.
        title: stands above.
        log_x, log_y: logarithmic axes.
        markers: a mark at each point; by default where there are 20 or fewer.
        ax: draw here instead of in a new figure.

    Raises:
        TypeError: if `lines` has no names, a line holds no real numbers, or `ax` is no Axes.
        ValueError: if there is no line, or a line's length is not that of `x`.
    """
    if not isinstance(lines, Mapping):
        raise TypeError(
            f"lines must hold y values for each name, as in {{'loss': [3, 2, 1]}}, got {lines!r:.80}"
        )
    if not lines:
        raise ValueError("curves needs at least one line")
    with _canvas(ax, 5.0, 3.2) as axes:
        for number, (name, values) in enumerate(lines.items()):
            y = as_array(values)
            where = np.arange(y.size) if x is None else as_array(x)
            if y.ndim != 1 or where.shape != y.shape:
                raise ValueError(
                    f"line {name!r} must be 1-D and as long as x, got {y.shape} over {where.shape}"
                )
            dots = y.size <= 20 if markers is None else markers
            mark = "os^DvxP"[number % 7] if dots else None
            axes.plot(where, y, label=name, marker=mark, markersize=5)
        if log_x:
            axes.set_xscale("log")
            if where.size <= 8:
                axes.set_xticks(where, [f"{position:g}" for position in where])
                axes.xaxis.minorticks_off()
        if log_y:
            axes.set_yscale("log")
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axes.grid(color="#e3e3e3", linewidth=0.8, linestyle="-")
        axes.set_axisbelow(True)
        if len(lines) > 1:
            axes.legend()
        return axes.figure


def as_array(values: object) -> ndarray:
    """Numbers of a tensor (on any device, with or without gradient), array or list, as float64."""
    try:
        a = np.asarray(_without_gradient(values))
        if a.dtype.kind != "c":
            return a.astype(float)
    except (TypeError, ValueError) as error:
        raise type(error)(f"numbers in rows of one length are needed, got {values!r:.80}") from None
    raise TypeError(f"real numbers are needed to draw, got {a.dtype}")


def _without_gradient(values: object) -> object:
    """The array of a tensor, also of each in a list."""
    if isinstance(values, torch.Tensor):
        values = values.detach().to_dense().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    if isinstance(values, list | tuple):
        return [_without_gradient(value) for value in values]
    return values


def as_matrix(values: object) -> ndarray:
    a = as_array(values)
    if a.ndim != 2 or 0 in a.shape:
        raise ValueError(
            f"a heat map needs a matrix (rows, columns), got shape {a.shape}; "
            "pick one batch entry and one head, as in weights[0, 0]"
        )
    return a


@contextmanager
def _canvas(ax: Axes | None, width: float, height: float) -> Iterator[Axes]:
    """`ax`, or the axes of a new figure in the book's style, which an error closes again."""
    if not isinstance(ax, Axes | None):
        raise TypeError(f"ax must be one Axes to draw on, got {type(ax).__name__}")
    with style():
        own = plt.subplots(figsize=(width, height))[0] if ax is None else None
        try:
            yield own.axes[0] if ax is None else ax
        except Exception:
            if own is not None:
                plt.close(own)
            raise


def _cell(shape: tuple[int, ...], ax: Axes | None) -> float:
    """Inches of a cell's side: as large as is sensible, or as `ax` has room for."""
    side = min(0.5, 4.2 / max(shape))
    if ax is None:
        return side
    room = ax.get_position().size * ax.figure.get_size_inches()
    return float(min(side, room[0] / shape[1], room[1] / shape[0]))


def _mark(ax: Axes, which: ndarray, marker: str, colour: str, cell: float) -> None:
    """A sign in each chosen cell, so that colour is not the only one."""
    i, j = np.nonzero(which)
    points = 14 * cell  # a fifth of a cell
    ax.scatter(j, i, s=points**2, c=colour, marker=marker, gid=DECORATION)


def _size(
    shape: tuple[int, ...], rows: list[str], columns: list[str], *, title: str, bar: bool
) -> tuple[float, float]:
    """Inches that give each cell of a matrix its room and the labels theirs."""
    side = _cell(shape, None)
    left, top = (0.09 * max(map(len, labels)) + 0.35 for labels in (rows, columns))
    width = side * shape[1] + left + (0.8 if bar else 0.1)
    height = side * shape[0] + top + (0.35 if title else 0.1)
    return round(max(width, 2.4), 2), round(max(height, 1.5), 2)


def _labels(labels: Sequence[object] | None, size: int, name: str) -> list[str]:
    if labels is None:
        return [str(k) for k in range(size)]
    if not isinstance(labels, Collection):
        raise TypeError(f"{name} must be a list of {size} labels, got {type(labels).__name__}")
    if len(labels) != size:
        raise ValueError(f"{name} must have one label for each of {size}, got {len(labels)}")
    return [str(label) for label in labels]


def _colour_scale(
    a: ndarray, vmin: float | None, vmax: float | None
) -> tuple[mpl.colors.Colormap, Normalize]:
    finite = a[np.isfinite(a)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low < 0:
        reach = max(abs(low), abs(high))
        low, high, name = -reach, reach, "PuOr"
    else:
        low, name = 0.0, "Blues"
    low, high = low if vmin is None else vmin, high if vmax is None else vmax
    cmap = mpl.colormaps[name].with_extremes(bad="#d9d9d9")
    return cmap, Normalize(low, high if high > low else low + 1)


def _limit(name: str, end: float | None) -> float | None:
    """One end of a colour scale as a number."""
    if end is None:
        return None
    if isinstance(end, str) or np.ndim(as_array(end)) or not np.isfinite(as_array(end)):
        raise ValueError(f"{name} must be a finite number, got {end!r:.80}")
    return float(as_array(end))


def _ink(background: tuple[float, ...]) -> str:
    """Black or white, whichever stands out more (WCAG relative luminance)."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(background)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "white" if luminance < 0.179 else "black"


def _number(value: float, digits: int) -> str:
    """A cell's number; an exact 0 shows as 0, so that it differs from a small number."""
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "0" if value == 0 else f"{value:z.{digits}f}".replace("-", "−")


def _matrix_axes(
    ax: Axes,
    cell: float,
    rows: list[str],
    columns: list[str],
    row_name: str,
    column_name: str,
    title: str,
) -> None:
    """Columns named on top, rows on the left, thin white lines between cells."""
    for axis, labels in ((ax.xaxis, columns), (ax.yaxis, rows)):
        step = _tick_step(labels, cell)
        axis.set_ticks(range(0, len(labels), step), labels[::step])
    ax.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    if max(map(len, columns)) > 2:
        plt.setp(ax.get_xticklabels(), rotation=90)
    ax.xaxis.set_label_position("top")
    ax.set(xlabel=column_name, ylabel=row_name, title=title)
    ax.spines[:].set_visible(False)
    if max(len(rows), len(columns)) <= LARGEST_WITH_DOTS:
        ax.set_xticks(np.arange(0.5, len(columns) - 1), minor=True)
        ax.set_yticks(np.arange(0.5, len(rows) - 1), minor=True)
        line = min(1.0, 7 * cell)  # points: a tenth of a small cell
        ax.grid(which="minor", color="white", linewidth=line, linestyle="-")
        ax.tick_params(which="minor", length=0)


def _tick_step(labels: list[str], cell: float) -> int:
    """Every label if they are names; of numbers twelve at most, and none that meets the next."""
    if labels != [str(k) for k in range(len(labels))]:
        return 1
    step = -(-len(labels) // 12)
    while step * cell < DIGIT * len(labels[-1]) + GAP:
        step *= 2
    return step
