"""The book's drawings show the data that went in, where they belong."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from tinyattn.patterns import Causal, Window
from tinyattn.show import curves, draw_mask, heatmap, style
from tinyattn.show.draw import _ink, _matrix_axes


def pixels(fig):
    """The drawn figure as an array (height, width, 3) from 0 to 255."""
    fig.set_dpi(100)
    fig.canvas.draw()
    return np.asarray(fig.canvas.buffer_rgba())[..., :3].astype(int)


def at_cell(fig, row, col, right=0.3, down=0.3):
    """The colour at a place in a cell, away from its number or dot."""
    picture = pixels(fig)
    x, y = fig.axes[0].transData.transform((col + right, row + down))
    return picture[picture.shape[0] - 1 - round(y), round(x)]


def texts(fig):
    return [text.get_text() for text in fig.axes[0].texts]


@pytest.mark.parametrize(
    ("background", "ink"),
    [("#ff0000", "black"), ("#00ff00", "black"), ("#0000ff", "white"), ("#bb05ff", "white")],
)
def test_ink_is_what_stands_out_more_from_what_is_below_it(background, ink):
    assert _ink(to_rgb(background)) == ink


@pytest.mark.parametrize(("cell", "width"), [(0.05, 0.35), (0.4, 1.0)])
def test_lines_between_small_cells_are_thin(cell, width):
    fig, ax = plt.subplots()
    _matrix_axes(ax, cell, ["a"] * 3, ["b"] * 3, "query", "key", "")
    lines = [tick.gridline for axis in (ax.xaxis, ax.yaxis) for tick in axis.get_minor_ticks()]
    assert [line.get_linewidth() for line in lines] == pytest.approx([width] * 4)
    plt.close(fig)


def test_row_0_is_on_top_and_columns_are_keys():
    weights = torch.zeros(3, 5)
    weights[0, 4] = 1
    fig = heatmap(weights)
    assert at_cell(fig, 0, 4).sum() < at_cell(fig, 2, 0).sum() - 300
    _, y_top = fig.axes[0].transData.transform((0, 0))
    _, y_bottom = fig.axes[0].transData.transform((0, 2))
    assert y_top > y_bottom
    assert (fig.axes[0].get_xlabel(), fig.axes[0].get_ylabel()) == ("key", "query")


def test_small_matrices_show_their_numbers():
    fig = heatmap([[0.125, 0.0], [-0.004, -1.5]], digits=1)
    assert texts(fig) == ["0.1", "0", "0.0", "−1.5"]
    assert texts(heatmap(np.ones((11, 2)))) == []
    assert texts(heatmap([[1.0]], annotate=False)) == []


def test_a_large_matrix_has_a_colour_bar_instead_of_numbers():
    assert [ax.get_label() for ax in heatmap(np.ones((12, 12))).axes][1:] == ["<colorbar>"]
    assert len(heatmap(np.ones((2, 2))).axes) == 1


def test_forbidden_scores_are_grey_and_say_so():
    fig = heatmap([[1.0, -torch.inf], [2.0, 3.0]])
    assert texts(fig) == ["1.00", "−∞", "2.00", "3.00"]
    red, green, blue = at_cell(fig, 0, 1)
    assert red == green == blue < 255


def test_forbidden_cells_of_a_large_matrix_are_crossed():
    values = np.where(np.tri(12) > 0, 1.0, -np.inf)
    (crosses,) = heatmap(values).axes[0].collections
    assert {tuple(cell) for cell in crosses.get_offsets().astype(int).tolist()} == {
        (j, i) for i in range(12) for j in range(12) if j > i
    }


def test_numbers_stand_out_from_their_cells():
    fig = heatmap(np.linspace(0, 1, 10)[None])
    colours = [text.get_color() for text in fig.axes[0].texts]
    assert (colours[0], colours[-1]) == ("black", "white")


def test_negative_values_make_zero_the_middle():
    fig = heatmap([[-1.0, 0.0, 4.0]])
    assert min(at_cell(fig, 0, 1)) > 235  # nearly white
    low, high = fig.axes[0].images[0].get_clim()
    assert (low, high) == (-4, 4)


def test_the_scale_starts_at_zero_and_can_be_set():
    assert heatmap([[0.2, 0.6]]).axes[0].images[0].get_clim() == (0, 0.6)
    assert heatmap([[0.2, 0.6]], vmin=0.1, vmax=1.0).axes[0].images[0].get_clim() == (0.1, 1)


def test_a_matrix_of_one_number_has_a_scale_too():
    assert heatmap(np.zeros((2, 2))).axes[0].images[0].get_clim() == (0, 1)
    assert heatmap(np.full((2, 2), 3.0), vmin=3.0).axes[0].images[0].get_clim() == (3, 4)


def test_labels_name_rows_and_columns():
    fig = heatmap(np.ones((2, 3)), row_labels=["a", "b"], column_labels=["the", "cat", "sat"])
    ax = fig.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["the", "cat", "sat"]


def test_tensors_with_gradients_are_drawn():
    values = torch.rand(2, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert len(texts(heatmap(values.bfloat16()))) == 4


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3, 3), (0, 3)])
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(
        ValueError, match=r"needs a matrix \(rows, columns\), got shape .*weights\[0, 0\]"
    ):
        heatmap(torch.ones(shape))


def test_labels_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="column_labels must have one label for each of 3, got 2"):
        heatmap(np.ones((2, 3)), column_labels=["a", "b"])
    with pytest.raises(ValueError, match="row_labels must have one label for each of 4, got 1"):
        draw_mask(Causal(), 4, row_labels=["a"])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("size", [6, 40])
def test_allowed_cells_are_dark_and_the_others_pale(size):
    mask = Causal().mask(size)
    fig = draw_mask(Causal(), size)
    assert at_cell(fig, 0, size - 1).sum() > at_cell(fig, size - 1, 0).sum() + 400
    for i, j in [(1, 0), (0, 1), (3, 3), (2, 5), (5, 2)]:
        assert (at_cell(fig, i, j).sum() < 300) == mask[i, j].item()


def test_allowed_cells_of_a_small_mask_have_dots():
    mask = torch.tensor([[True, False, False], [False, True, True]])
    (dots,) = draw_mask(mask).axes[0].collections
    assert dots.get_offsets().tolist() == [[0, 0], [1, 1], [2, 1]]
    assert not draw_mask(Causal(), 33).axes[0].collections


def panel(n, width):
    """A mask of n tokens in a panel that is `width` inches wide."""
    with style():
        fig = plt.figure(figsize=(width, 2 * width), layout="none")
        ax = fig.add_axes((0, 0, 1, 1))
    draw_mask(Causal(), n, ax=ax)
    return ax


@pytest.mark.parametrize(("n", "width"), [(8, 1.6), (16, 1.6), (16, 3.2), (8, 9.0)])
def test_a_dot_is_a_fifth_of_its_cell_however_narrow_the_panel(n, width):
    (dots,) = panel(n, width).collections
    points = dots.get_sizes()[0] ** 0.5
    assert points == pytest.approx(14 * min(width / n, 0.5))


def test_cells_without_room_have_no_dots():
    assert not panel(20, 1.6).collections


@pytest.mark.parametrize(("n", "width"), [(10, 1.6), (16, 1.6), (30, 1.2), (64, 1.0), (120, 0.9)])
def test_numbers_beside_a_narrow_panel_keep_apart(n, width):
    ax = panel(n, width)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
    assert len(boxes) >= 2


def test_a_mask_is_titled_by_its_pattern():
    assert draw_mask(Causal(), 4).axes[0].get_title() == "Causal()"
    assert draw_mask(Causal(), 4, title="decoder").axes[0].get_title() == "decoder"
    assert draw_mask(Causal().mask(4)).axes[0].get_title() == ""


def test_fewer_queries_than_keys_are_drawn_as_they_are():
    assert draw_mask(Causal(), 2, 5).axes[0].images[0].get_array().tolist() == [
        [True, True, True, True, False],
        [True, True, True, True, True],
    ]


def test_a_strip_has_a_label_and_a_line_between_for_each_row_and_column():
    (ax,) = draw_mask(Causal(), 2, 5).axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "2", "3", "4"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1"]
    assert ax.get_xticks(minor=True).tolist() == [0.5, 1.5, 2.5, 3.5]
    assert ax.get_yticks(minor=True).tolist() == [0.5]


def test_drawings_fit_into_given_axes():
    with style():
        fig, axes = plt.subplots(1, 3)
    assert heatmap(np.ones((2, 2)), ax=axes[0]) is fig
    assert draw_mask(Causal(), 3, ax=axes[1]) is fig
    assert curves({"a": [1, 2]}, xlabel="x", ylabel="y", ax=axes[2]) is fig
    assert plt.get_fignums() == [fig.number]


def test_curves_differ_in_colour_line_and_mark():
    names = ["a", "b", "c", "d", "e", "f", "g"]
    fig = curves({name: [1, 2, k] for k, name in enumerate(names)}, xlabel="x", ylabel="y")
    lines = fig.axes[0].lines
    assert [line.get_label() for line in lines] == names
    for look in ("get_color", "get_marker"):
        assert len({getattr(line, look)() for line in lines}) == 7
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == 7


def test_fourteen_curves_have_no_look_twice():
    fig = curves({str(k): [1, k] for k in range(14)}, xlabel="x", ylabel="y", markers=False)
    looks = [(line.get_color(), str(line._unscaled_dash_pattern)) for line in fig.axes[0].lines]
    assert len(set(looks)) == 14


def test_curves_share_x_and_may_be_logarithmic():
    fig = curves({"dense": [1, 16]}, x=[64, 256], xlabel="n", ylabel="s", log_x=True, log_y=True)
    (ax,) = fig.axes
    assert ax.lines[0].get_xdata().tolist() == [64, 256]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "256"]
    assert ax.get_legend() is None


def test_up_to_eight_places_of_a_logarithmic_axis_are_named_one_by_one():
    for n_places in (8, 9):
        x = [3 * 2**k for k in range(n_places)]
        fig = curves({"a": x}, x=x, xlabel="n", ylabel="s", log_x=True)
        named = [label.get_text() for label in fig.axes[0].get_xticklabels()]
        assert (named == [str(place) for place in x]) == (n_places == 8)


def test_curves_are_as_wide_as_a_page():
    fig = curves({"a": [1, 2]}, xlabel="n", ylabel="s")
    assert fig.get_size_inches().tolist() == [5.0, 3.2]


def test_curves_that_do_not_match_x_are_refused():
    with pytest.raises(ValueError, match=r"line 'b' must be 1-D and as long as x, got \(3,\) over"):
        curves({"b": [1, 2, 3]}, x=[1, 2], xlabel="x", ylabel="y")
    with pytest.raises(ValueError, match="at least one line"):
        curves({}, xlabel="x", ylabel="y")
    assert plt.get_fignums() == []


NAMED = {"xlabel": "x", "ylabel": "y"}
RAGGED = [[1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("draw", "error", "reason"),
    [
        (lambda: heatmap(RAGGED), ValueError, r"rows of one length are needed, got \[\[1.0\], \["),
        (lambda: heatmap("ab"), ValueError, "numbers in rows of one length are needed, got 'ab'"),
        (lambda: heatmap(Causal()), TypeError, r"numbers .* are needed, got Causal\(\)"),
        (lambda: heatmap(np.eye(2) * 1j), TypeError, "real numbers .*, got complex128"),
        (lambda: heatmap(torch.eye(2) * 1j), TypeError, "real numbers .*, got complex64"),
        (lambda: heatmap(None), ValueError, r"needs a matrix \(rows, columns\), got shape \(\)"),
        (
            lambda: heatmap([[1.0]], row_labels=5),
            TypeError,
            "row_labels must be a list of 1 labels",
        ),
        (lambda: heatmap([[1.0]], ax=5), TypeError, "ax must be one Axes to draw on, got int"),
        (
            lambda: heatmap([[1.0]], digits=-1),
            ValueError,
            "digits must be 0 or more decimals, got -1",
        ),
        (lambda: heatmap([[1.0]], digits=1.5), TypeError, "digits must be a whole number, got 1.5"),
        (lambda: heatmap([[1.0]], vmin="0"), ValueError, "vmin must be a finite number, got '0'"),
        (
            lambda: heatmap([[1.0]], vmax=np.nan),
            ValueError,
            "vmax must be a finite number, got nan",
        ),
        (
            lambda: heatmap([[1.0]], vmax=[1, 2]),
            ValueError,
            "vmax must be a finite number, got .1, 2",
        ),
        (lambda: draw_mask([[True], [True, False]]), ValueError, "got rows of unequal lengths"),
        (lambda: draw_mask("causal", 8), TypeError, "a pattern or a bool matrix, got 'causal'"),
        (lambda: draw_mask(None), TypeError, "a pattern or a bool matrix, got None"),
        (lambda: draw_mask(Causal, 8), TypeError, r"such as Causal\(\), got the class Causal"),
        (lambda: draw_mask(Causal(), 3, ax=[1]), TypeError, "ax must be one Axes .*, got list"),
        (
            lambda: draw_mask(Causal(), 3, column_labels=iter("abc")),
            TypeError,
            "column_labels must be a list of 3 labels, got str_",
        ),
        (lambda: curves([[1, 2]], **NAMED), TypeError, r"y values for each name.*got \[\[1, 2\]\]"),
        (lambda: curves(torch.zeros(3), **NAMED), TypeError, "y values for each name.*got tensor"),
        (lambda: curves({"a": RAGGED}, **NAMED), ValueError, "rows of one length are needed"),
        (lambda: curves({"a": iter([1])}, **NAMED), TypeError, "numbers .* are needed, got <list_"),
        (lambda: curves({"a": [1j]}, **NAMED), TypeError, "real numbers are needed"),
        (lambda: curves({"a": [1]}, ax=5, **NAMED), TypeError, "ax must be one Axes"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(draw, error, reason, refusals):
    with pytest.raises(error, match=reason):
        draw()
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "values",
    [
        torch.eye(3, requires_grad=True),
        torch.eye(3, dtype=torch.bfloat16),
        torch.eye(3).bool(),
        torch.eye(3).to_sparse(),
        list(torch.eye(3, requires_grad=True)),
        [[1, 0, 0], [0, 1, 0], (0, 0, 1)],
        np.eye(3, dtype=int),
    ],
)
def test_numbers_of_any_kind_are_drawn(values):
    (image,) = heatmap(values).axes[0].images
    assert np.array_equal(image.get_array(), np.eye(3))


def test_what_is_missing_is_a_gap_in_a_curve():
    (line,) = curves({"a": [1.0, None, float("nan")]}, **NAMED).axes[0].lines
    assert np.array_equal(np.isnan(line.get_ydata()), [False, True, True])


def test_the_ends_of_a_scale_may_be_tensors(refusals):
    (image,) = heatmap([[1.0, 2.0]], vmin=torch.tensor(0.5), vmax=np.float32(4)).axes[0].images
    assert image.get_clim() == (0.5, 4.0)


def test_a_line_is_a_row_of_numbers_even_where_x_is_none():
    table = [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match=r"line 'a' must be 1-D and as long as x, got \(2, 2\)"):
        curves({"a": table}, x=table, xlabel="x", ylabel="y")


def test_lines_between_cells_have_no_ticks_at_the_edge():
    fig = draw_mask(Window(1), 6)
    for axis in (fig.axes[0].xaxis, fig.axes[0].yaxis):
        assert axis.get_minor_ticks()
        for tick in axis.get_minor_ticks():
            assert tick.tick1line.get_markersize() == 0
    plt.close(fig)


@pytest.mark.parametrize(("vmin", "vmax"), [(3.0, 1.0), (2.0, 2.0)])
def test_a_colour_scale_has_two_ends(vmin, vmax):
    with pytest.raises(
        ValueError, match=f"vmax must be above vmin, got vmin={vmin} and vmax={vmax}"
    ):
        heatmap(torch.zeros(2, 2), vmin=vmin, vmax=vmax)
