"""The digest changes with the data, and with nothing else."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.show import digest, heatmap, style
from tinyattn.show.digests import _rounded

Y = np.array([3.0, 1.0, 4.0, 1.5, 9.0])
MATRIX = np.arange(12.0).reshape(3, 4)


def figure(draw, **options):
    fig, ax = plt.subplots(**options)
    draw(ax)
    return fig


def of(draw, **options):
    return digest(figure(draw, **options))


def test_a_line_is_given_by_name_ranges_means_and_tilts():
    said = of(lambda ax: (ax.plot([0, 1, 2], [1.0, 2.0, 6.0], label="loss"), ax.set_title("Fall")))
    assert said == (
        "axes 0; 'Fall'; line 'loss' x 3 [0, 2] mean 1 tilt 0.667 y 3 [1, 6] mean 3 tilt 1.667"
    )


def test_an_image_is_given_by_shape_range_mean_and_tilts():
    said = of(lambda ax: ax.imshow([[0.0, 0.0], [0.5, 1.0]]))
    assert said == "axes 0; image 2x2 [0, 1] mean 0.375 tilt 0.375, 0.125"


@pytest.mark.parametrize(
    ("draw", "other"),
    [
        (lambda ax: ax.plot(Y), lambda ax: ax.plot(Y + 0.05 * (Y == 4))),
        (lambda ax: ax.plot(Y), lambda ax: ax.plot(Y[::-1])),
        (lambda ax: ax.plot(Y), lambda ax: ax.plot(np.arange(5) + 1, Y)),
        (lambda ax: ax.plot(Y), lambda ax: ax.plot(np.append(Y, Y.mean()))),
        (lambda ax: ax.plot(Y, label="a"), lambda ax: ax.plot(Y, label="b")),
        (lambda ax: ax.imshow(MATRIX), lambda ax: ax.imshow(MATRIX[::-1])),
        (lambda ax: ax.imshow(MATRIX), lambda ax: ax.imshow(MATRIX[:, ::-1])),
        (lambda ax: ax.imshow(MATRIX[:, :3]), lambda ax: ax.imshow(MATRIX[:, :3].T)),
        (lambda ax: ax.imshow(MATRIX), lambda ax: ax.imshow(np.where(MATRIX == 5, 6, MATRIX))),
        (lambda ax: ax.imshow(MATRIX), lambda ax: ax.imshow(np.where(MATRIX < 1, np.nan, MATRIX))),
        (lambda ax: ax.bar(range(5), Y), lambda ax: ax.bar(range(5), Y[::-1])),
        (lambda ax: ax.scatter(Y, Y), lambda ax: ax.scatter(Y, -Y)),
        (lambda ax: ax.scatter(Y, Y, c=Y), lambda ax: ax.scatter(Y, Y, c=Y[::-1])),
        (lambda ax: ax.text(0, 0, "relay"), lambda ax: ax.text(0, 0, "token")),
        (lambda ax: ax.axvspan(0, 1), lambda ax: (ax.axvspan(0, 1), ax.axvspan(2, 3))),
        (lambda ax: ax.fill_between(Y, Y), lambda ax: ax.plot(Y, Y)),
        (lambda ax: ax.set_title("a"), lambda ax: ax.set_title("b")),
        (lambda ax: ax.set_xlabel("a"), lambda ax: ax.set_xlabel("b")),
        (lambda ax: ax.set_yticks([0, 1], "ab"), lambda ax: ax.set_yticks([0, 1], "ac")),
        (lambda ax: ax.loglog(Y, Y), lambda ax: ax.plot(Y, Y)),
    ],
)
def test_other_data_give_another_digest(draw, other):
    assert of(draw) != of(other)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: (ax.plot(Y, label="y"), ax.legend(), ax.set_xlabel("step")),
        lambda ax: ax.imshow(MATRIX),
        lambda ax: ax.figure.colorbar(ax.imshow(MATRIX)),
        lambda ax: ax.loglog(Y, Y),
    ],
)
def test_size_resolution_and_style_do_not_show(draw, tmp_path):
    small = figure(draw, figsize=(2, 2))
    small.savefig(tmp_path / "small.png", dpi=30)
    with style():
        large = figure(draw, figsize=(9, 5))
        large.savefig(tmp_path / "large.png", dpi=200)
    assert digest(small) == digest(large)


@given(st.integers(0, 1000), st.sampled_from([1e-6, 1.0, 3e8]))
def test_the_last_digits_of_floats_do_not_show(seed, scale):
    rng = np.random.default_rng(seed)
    exact = rng.integers(-64, 65, (5, 7)) / 64 * scale  # halves are the hard case for rounding
    noisy = exact * (1 + 1e-8 * rng.standard_normal((5, 7)))
    try:
        assert of(lambda ax: ax.imshow(exact)) == of(lambda ax: ax.imshow(noisy))
    finally:
        plt.close("all")


def test_a_mean_that_is_zero_but_for_noise_shows_as_zero():
    noise = 1e-9 * np.array([1, -1, 1, -1, 1])
    assert "mean 0 " in of(lambda ax: ax.plot(np.array([-1, 1, 0, 1, -1]) + noise))


def test_a_colour_bar_is_not_data():
    assert of(lambda ax: ax.figure.colorbar(ax.imshow(MATRIX))) == of(lambda ax: ax.imshow(MATRIX))


def test_infinite_and_missing_values_are_counted():
    said = of(lambda ax: ax.plot([1, np.nan, np.inf, -np.inf, 2]))
    assert "y 5 1 nan 1 inf 1 -inf [1, 2] mean 1.5" in said
    assert of(lambda ax: ax.plot([np.nan] * 3)).endswith("y 3 3 nan")


def test_a_constant_needs_no_tilt_unless_something_is_missing_somewhere():
    assert of(lambda ax: ax.plot([0, 1, 2], [2.0, 2.0, 2.0])).endswith("y 3 all 2")
    first, last = (
        of(lambda ax, y=y: ax.plot([0, 1, 2], y)) for y in ([np.nan, 2, 2], [2, 2, np.nan])
    )
    assert first.endswith("y 3 1 nan all 2 tilt 0.667")
    assert last.endswith("y 3 1 nan all 2 tilt -0.667")


def test_numbers_are_rounded_to_a_thousandth_and_halves_with_their_noise():
    assert _rounded(0.000_497, 1.0) == "0"
    assert _rounded(0.187_499_99, 1.0) == _rounded(0.1875, 1.0)


def test_a_logarithmic_axis_is_described_by_its_logarithms():
    assert "y 3 log10 [0, 6] mean 3" in of(lambda ax: ax.semilogy([1, 1e3, 1e6]))


def test_numbers_in_cells_are_counted_and_words_are_quoted():
    said = of(lambda ax: [ax.text(0, 0, text) for text in ("0.12", "−∞", "−1.5", "here")])
    assert said == "axes 0; 4 texts: 'here'"


def test_of_many_words_the_first_twelve_are_quoted():
    said = of(lambda ax: [ax.text(0, 0, f"word {n}") for n in range(14)])
    assert said.endswith("14 texts: " + " ".join(f"'word {n}'" for n in range(12)))


def test_every_axes_has_its_line():
    fig, (left, right) = plt.subplots(1, 2)
    left.plot(Y)
    right.imshow(MATRIX)
    first, second = digest(fig).split("\n")
    assert first.startswith("axes 0; line")
    assert second.startswith("axes 1; image 3x4")


def test_a_trained_figure_keeps_names_and_shapes_only():
    def draw(values):
        fig = heatmap(values, title="Alignment", row_labels=["a", "b"], column_labels=["c", "d"])
        fig.axes[0].plot([0, 1], [values[0][0], 1], label="path")
        fig.axes[0].text(0, 0, f"about {values[0][0]}")
        return digest(fig, trained=True)

    said = draw([[0.25, 0.5], [0.75, 1.0]])
    assert said == draw([[0.2, 0.6], [0.7, -1.0]])
    assert said == (
        "axes 0; 'Alignment'; x 'key': 2 ticks; y 'query': 2 ticks; "
        "image 2x2; line 'path' x 2 y 2; 5 texts"
    )
    assert said != draw([[0.25, 0.5], [0.75, 1.0]]).replace("2x2", "2x3")
