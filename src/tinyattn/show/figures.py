"""Figures with words: an alt text for readers, a digest for tests, and one style for the book."""

import base64
import io
import re
from contextlib import AbstractContextManager

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageChops

from tinyattn.show.digests import digest

PIXELS_PER_INCH = 100  # on the page; the picture itself holds more
COLOURS_KEPT = (32, 64, 128)  # lines need few; with few the bar beside a heat map goes in steps
LARGEST_SHIFT = 10  # of 255, which 99 of 100 pixels keep to if one of these does
SHORTEST_ALT = 20
FILE_NAME = re.compile(r"^\S*\.(png|jpe?g|svg|gif|webp|pdf|tiff?|bmp)$", re.IGNORECASE)

# Each is at least 3 : 1 against white and they stay apart for readers who do not see red or green;
# line styles differ too, because a printed page has no colours.
COLOURS = ("#0072b2", "#c44e00", "#007a58", "#a8438a", "#2b2b2b", "#7a6200", "#6b6b6b")
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (2, 1)))
TWICE = cycler(color=COLOURS * 2)  # the second time each colour has the next one's line
TWICE += cycler(linestyle=LINE_STYLES + LINE_STYLES[1:] + LINE_STYLES[:1])

STYLE = {
    "figure.figsize": (5.0, 3.2),  # on a phone of 360 pixels this shrinks to two thirds
    "figure.dpi": PIXELS_PER_INCH,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",  # opaque: dark pages show the same picture
    "savefig.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": TWICE,
    "lines.linewidth": 1.8,
    "image.interpolation": "nearest",
    "svg.hashsalt": "tinyattn",
}


def style() -> AbstractContextManager:
    """The book's look for figures made by hand: `with style(): fig, ax = plt.subplots()`.

    It holds inside the block only, so nothing of the reader's own settings changes.
    """
    return plt.rc_context(STYLE)


class _Shown:
    """What `show` displays: a picture for browsers, text for terminals and tests."""

    def __init__(self, png: bytes, text: str, metadata: dict[str, object]):
        self.png, self.text, self.metadata = png, text, metadata

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, object], dict[str, object]]:
        picture = base64.b64encode(self.png).decode()
        return {"image/png": picture, "text/plain": self.text}, {"image/png": self.metadata}


def show(fig: object, alt: object, *, trained: bool = False) -> None:
    """Display a figure with its alt text, then close it.

    Readers who cannot see the picture get `alt`: say what it shows and what to notice, with the
    numbers that matter. Tests compare the text form, which is `alt` and the `digest` of the data.

    Args:
        fig: a matplotlib Figure.
        alt: a sentence or two. Line breaks count as spaces.
        trained: keep the values of a trained model out of the digest (see `digest`).

    Raises:
        TypeError: if `fig` is no Figure or `alt` is no string.
        ValueError: if the figure is empty, or `alt` is missing, too short or a file name.
    """
    fig, alt = checked(fig, alt)
    try:
        width, height = size_on_page(fig)
        metadata = {"alt": alt, "height": height, "width": width}
        text = f"[figure] {alt}\n{digest(fig, trained=trained)}"
        shown = _Shown(png(fig, dpi=150), text, metadata)
    finally:
        plt.close(fig)
    display(shown)


def checked(fig: object, alt: object) -> tuple[Figure, str]:
    """The figure and its alt text on one line, if they are fit to be shown."""
    if not isinstance(fig, Figure):
        hint = "; pass ax.figure" if isinstance(fig, Axes) else ""
        raise TypeError(f"a matplotlib Figure is needed, got {type(fig).__name__}{hint}")
    try:
        if not fig.axes:
            raise ValueError("the figure has no axes, so there is nothing to see")
        return fig, checked_alt(alt)
    except (TypeError, ValueError):
        plt.close(fig)
        raise


def checked_alt(alt: object) -> str:
    """`alt` on one line, if it can stand in for a picture."""
    if not isinstance(alt, str):
        raise TypeError(f"alt must be a string that says what the figure shows, got {alt!r}")
    alt = " ".join(alt.split())
    if FILE_NAME.match(alt):
        raise ValueError(f"alt must say what the figure shows, got the file name {alt!r}")
    if len(alt) < SHORTEST_ALT:
        raise ValueError(
            f"alt must say what the figure shows in at least {SHORTEST_ALT} characters, got {alt!r}"
        )
    return alt


def size_on_page(fig: Figure) -> tuple[int, int]:
    """Width and height of the figure in pixels of the page."""
    width, height = fig.get_size_inches() * PIXELS_PER_INCH
    return round(width), round(height)


def png(fig: Figure, *, dpi: int) -> bytes:
    """The picture with as few colours as it needs: a third of the bytes, or less."""
    drawn = io.BytesIO()
    fig.savefig(drawn, format="png", dpi=dpi, facecolor="white")
    with Image.open(drawn) as opened:
        picture = opened.convert("RGB")
    for n_colours in COLOURS_KEPT:
        reduced = picture.quantize(n_colours, kmeans=1)
        shift = np.asarray(ImageChops.difference(picture, reduced.convert("RGB"))).max(axis=2)
        if np.percentile(shift, 99) <= LARGEST_SHIFT:
            break
    packed = io.BytesIO()
    reduced.save(packed, "PNG", optimize=True)
    return packed.getvalue()
