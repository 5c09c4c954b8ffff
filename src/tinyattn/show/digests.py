"""A few words of text that change when a figure's data changes, and only then.

A test cannot compare PNG files: another matplotlib draws other bytes. It can compare this text,
which is the same at any size, resolution, font and platform.
"""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

DECORATION = "decoration"  # the gid of artists that repeat what another one shows


def digest(fig: Figure, *, trained: bool = False) -> str:
    """Say what is plotted, one line for each axes of `fig`.

    Each image, line, set of points and set of bars is given by its shape, its least, mean and
    greatest value, and its tilt: the mean of value times place, with places from -1 to 1 along
    each axis. Tilts tell a matrix from its transpose and a series from its reverse, and unlike a
    checksum they stay put when the last digits of a float differ.

    Args:
        fig: the figure.
        trained: leave out every value, and keep shapes, titles and names. The last digits of a
            trained model depend on the machine, and its values drift away with them.
    """
    lines = []
    for number, ax in enumerate(ax for ax in fig.axes if ax.get_label() != "<colorbar>"):
        parts = [f"axes {number}", *_names(ax, trained), *_contents(ax, trained)]
        lines.append("; ".join(parts))
    return "\n".join(lines)


def _names(ax: Axes, trained: bool) -> Iterator[str]:
    if ax.get_title():
        yield repr(ax.get_title())
    for letter, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        ticks = _tick_labels(axis)
        said = [repr(axis.get_label_text())] if axis.get_label_text() else []
        if ticks:
            said.append(f"{len(ticks)} ticks" if trained else " ".join(ticks))
        if said:
            yield f"{letter} {': '.join(said)}"


def _tick_labels(axis: Axis) -> list[str]:
    """Labels that the author wrote; those matplotlib chooses depend on the figure's size."""
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    if isinstance(locator, FixedLocator) and isinstance(formatter, (FixedFormatter, FuncFormatter)):
        return formatter.format_ticks(locator.locs)
    return []


def _contents(ax: Axes, trained: bool) -> Iterator[str]:
    log_x, log_y = ax.get_xscale() == "log", ax.get_yscale() == "log"
    for image in ax.images:
        yield f"image {_summary(image.get_array(), trained)}"
    for line in ax.lines:
        x, y = (np.asarray(data, dtype=float) for data in line.get_data(orig=False))
        name = line.get_label()
        name = "" if name.startswith("_") else f" {name!r}"
        yield f"line{name} x {_summary(x, trained, log_x)} y {_summary(y, trained, log_y)}"
    bars = [container for container in ax.containers if isinstance(container, BarContainer)]
    for container in bars:
        yield f"bars {_summary(container.datavalues, trained)}"
    for collection in ax.collections:
        if collection.get_gid() != DECORATION:
            yield f"{type(collection).__name__} {_collection(collection, trained)}"
    in_bars = {id(patch) for container in bars for patch in container}
    patches = Counter(type(patch).__name__ for patch in ax.patches if id(patch) not in in_bars)
    for name, count in sorted(patches.items()):
        yield f"{count} {name}"
    if ax.texts:
        words = [text.get_text() for text in ax.texts if not _is_number(text.get_text())]
        said = "" if trained or not words else ": " + " ".join(map(repr, words[:12]))
        yield f"{len(ax.texts)} texts{said}"


def _collection(collection: Collection, trained: bool) -> str:
    if isinstance(collection, PathCollection):
        points = np.ma.filled(np.ma.asarray(collection.get_offsets(), dtype=float), np.nan)
        said = f"x {_summary(points[:, 0], trained)} y {_summary(points[:, 1], trained)}"
    else:
        said = f"{len(collection.get_paths())} paths"
    if collection.get_array() is not None:
        said += f" values {_summary(collection.get_array(), trained)}"
    return said


def _summary(values: object, trained: bool, logarithm: bool = False) -> str:
    """Shape, least, mean and greatest finite value, and one tilt for each axis."""
    a = np.ma.filled(np.ma.asarray(values).astype(float), np.nan)
    if a.ndim == 3 and a.shape[-1] in (3, 4):
        a = a[..., :3].mean(axis=-1)  # the colours of a picture
    shape = "x".join(map(str, a.shape))
    if trained:
        return shape
    if logarithm:
        shape += " log10"
        a = np.log10(np.where(a > 0, a, np.nan))
    finite = np.isfinite(a)
    counts = [("nan", np.isnan(a)), ("inf", a == np.inf), ("-inf", a == -np.inf)]
    said = [shape, *(f"{hits.sum()} {name}" for name, hits in counts if hits.any())]
    if not finite.any():
        return " ".join(said)
    scale = np.abs(a[finite]).max()
    least, mean, greatest = (_rounded(f(a[finite]), scale) for f in (np.min, np.mean, np.max))
    said.append(f"[{least}, {greatest}] mean {mean}" if least != greatest else f"all {mean}")
    if least != greatest or not finite.all():
        zeroed = np.where(finite, a, 0)
        tilts = []
        for axis, size in enumerate(a.shape):
            place = np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
            profile = zeroed.mean(axis=tuple(k for k in range(a.ndim) if k != axis))
            tilts.append(_rounded(float((profile * place).mean()), scale))
        said.append(f"tilt {', '.join(tilts)}")
    return " ".join(said)


def _rounded(x: float, scale: float) -> str:
    """`x` to a thousandth of `scale`, so that a float's noise does not show.

    Rounding first to a millionth keeps halves like 0.1875 and 0.18749999 together.
    """
    if scale == 0:
        return "0"
    decimals = 3 - math.floor(math.log10(float(f"{scale:.6g}")))
    x = round(round(float(x), decimals + 3), decimals) + 0.0  # + 0.0 turns -0 into 0
    return f"{x:.4g}"


def _is_number(text: str) -> bool:
    try:
        float(text.replace("−", "-").replace("∞", "inf"))
    except ValueError:
        return False
    return True
