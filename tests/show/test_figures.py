"""A figure is shown with words, in few bytes, and closed."""

import base64
import io

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

import tinyattn.show.figures
from tinyattn.show import digest, heatmap, show, style
from tinyattn.show.figures import COLOURS, LINE_STYLES, STYLE, TWICE, png

ALT = "The loss falls from 3.2 to 1.5 bits in 50 steps."


def figure():
    with style():
        fig, ax = plt.subplots()
        ax.plot([3.2, 2.0, 1.5])
    return fig


@pytest.fixture
def shown(monkeypatch):
    """What `show` gives to Jupyter: data and metadata of the last figure."""
    bundles = []
    monkeypatch.setattr(
        tinyattn.show.figures, "display", lambda it: bundles.append(it._repr_mimebundle_())
    )
    return bundles


def test_a_figure_comes_with_alt_text_digest_and_size(shown):
    fig = figure()
    data_digest = digest(fig)
    assert show(fig, ALT) is None
    data, metadata = shown[0]
    assert data["text/plain"] == f"[figure] {ALT}\n{data_digest}"
    assert metadata == {"image/png": {"alt": ALT, "height": 320, "width": 500}}


def test_the_picture_has_one_and_a_half_pixels_for_each_of_the_page_and_32_colours(shown):
    show(figure(), ALT)
    png = base64.b64decode(shown[0][0]["image/png"])
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.size == (750, 480)
        assert len(picture.convert("RGB").getcolors()) <= 32
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        assert picture.info == {}  # no date, no version: the same bytes on every run
    assert len(png) < 15_000


def test_a_heat_map_keeps_its_colours_and_the_bar_has_no_steps():
    fig = heatmap(torch.linspace(0, 1, 36).pow(3).reshape(6, 6))
    for _ in range(2):
        png(fig, dpi=100)  # the layout settles while it is drawn
    drawn = io.BytesIO()
    fig.savefig(drawn, format="png", dpi=100, facecolor="white")
    files = (drawn, io.BytesIO(png(fig, dpi=100)))
    full, kept = (np.asarray(Image.open(it).convert("RGB")).astype(int) for it in files)
    plt.close(fig)
    off = abs(full - kept).max(axis=2)
    assert np.percentile(off, 99) <= 10  # of 255: 37 with 32 colours, 16 with 64


def test_no_fewer_bytes_would_do_for_the_same_picture(shown):
    show(figure(), ALT)
    png = base64.b64decode(shown[0][0]["image/png"])
    again = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        picture.save(again, "PNG", optimize=True)
    assert len(png) <= len(again.getvalue())


def test_no_text_is_smaller_than_ten_points_and_a_title_is_the_largest():
    sizes = {
        name: size
        for name, size in STYLE.items()
        if name.endswith(("font.size", "labelsize", "titlesize", "fontsize"))
    }
    assert len(sizes) == 6
    assert min(sizes.values()) == 10  # on a phone two thirds of it
    assert sizes.pop("axes.titlesize") == 12 > max(sizes.values())


def test_a_shown_figure_is_closed(shown):
    show(figure(), ALT)
    assert plt.get_fignums() == []


def test_outside_jupyter_the_text_is_printed(capsys):
    show(figure(), ALT)
    assert capsys.readouterr().out.startswith(f"[figure] {ALT}\naxes 0; line")


def test_an_alt_text_may_span_lines(shown):
    show(figure(), "The loss falls from 3.2\n    to 1.5 bits in 50 steps.")
    assert shown[0][1]["image/png"]["alt"] == ALT


def test_values_of_a_trained_model_stay_out_of_the_text(shown):
    show(figure(), ALT, trained=True)
    assert shown[0][0]["text/plain"].endswith("line x 3 y 3")


@pytest.mark.parametrize("alt", ["", "   ", "A plot", "Figure 3", "x" * 19])
def test_an_alt_text_that_says_too_little_is_refused(alt):
    with pytest.raises(ValueError, match="at least 20 characters, got"):
        show(figure(), alt)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    "alt", ["attention_weights_heatmap.png", "../_images/0a1b2c3d4e5f6a7b.SVG"]
)
def test_a_file_name_is_no_alt_text(alt):
    with pytest.raises(ValueError, match="got the file name"):
        show(figure(), alt)


def test_a_missing_alt_text_is_refused(refusals):
    with pytest.raises(
        TypeError, match="alt must be a string that says what the figure shows, got None"
    ):
        show(figure(), None)
    assert plt.get_fignums() == []


def test_what_is_no_figure_is_refused():
    with pytest.raises(TypeError, match="a matplotlib Figure is needed, got list"):
        show([1, 2], ALT)
    fig, ax = plt.subplots()
    with pytest.raises(TypeError, match=r"got Axes; pass ax\.figure"):
        show(ax, ALT)
    plt.close(fig)


def test_an_empty_figure_is_refused():
    with pytest.raises(ValueError, match="the figure has no axes"):
        show(plt.figure(), ALT)
    assert plt.get_fignums() == []


def test_the_style_holds_inside_its_block_only():
    before = mpl.rcParams["font.size"]
    with style():
        assert mpl.rcParams["font.size"] == 11
    assert mpl.rcParams["font.size"] == before


def luminance(colour):
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in mpl.colors.to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colour", COLOURS)
def test_line_colours_stand_out_from_white(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_fourteen_lines_look_different_and_every_dash_ends():
    looks = {(line["color"], str(line["linestyle"])) for line in TWICE}
    assert len(looks) == 2 * len(COLOURS)
    assert all(length > 0 for _, dashes in LINE_STYLES[4:] for length in dashes)


def test_both_axes_look_alike():
    assert STYLE["xtick.labelsize"] == STYLE["ytick.labelsize"]
    assert STYLE["axes.spines.top"] is STYLE["axes.spines.right"] is False


def test_long_labels_stay_inside_their_figure():
    with style():
        fig, ax = plt.subplots(figsize=(3, 2))
    ax.set(xlabel="tokens\nof\na\nsequence", ylabel="seconds\nfor\nall\nof\nthem")
    fig.canvas.draw()
    box = fig.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    plt.close(fig)
