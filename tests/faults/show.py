"""Faults to plant in figures and widgets."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "keys are counted for each key instead of each query",
        "show/describe.py",
        "per_row = allowed.sum(axis=1)",
        "per_row = allowed.sum(axis=0)",
        "show/test_describe.py::test_counts_are_those_of_the_mask",
    ),
    Fault(
        "distances are named from the top left",
        "show/describe.py",
        "[:, None] - (n_keys - n_queries)",
        "[:, None]",
        "show/test_describe.py::test_the_named_distances_rebuild_the_mask",
    ),
    Fault(
        "the digest of a matrix is that of its transpose",
        "show/digests.py",
        "(profile * place).mean()",
        "profile.mean()",
        "show/test_digests.py::test_other_data_give_another_digest",
    ),
    Fault(
        "values of a trained model stand in the digest",
        "show/digests.py",
        "    if trained:\n        return shape\n",
        "",
        "show/test_digests.py::test_a_trained_figure_keeps_names_and_shapes_only",
    ),
    Fault(
        "a heat map is drawn with queries as columns",
        "show/draw.py",
        "axes.imshow(np.ma.masked_invalid(a), cmap",
        "axes.imshow(np.ma.masked_invalid(a).T, cmap",
        "show/test_draw.py::test_row_0_is_on_top_and_columns_are_keys",
    ),
    Fault(
        "allowed cells are pale",
        "show/draw.py",
        "ListedColormap([FORBIDDEN, ALLOWED])",
        "ListedColormap([ALLOWED, FORBIDDEN])",
        "show/test_draw.py::test_allowed_cells_are_dark_and_the_others_pale",
    ),
    Fault(
        "dots are as large in a narrow panel as in a figure of its own",
        "show/draw.py",
        "    return float(min(side, room[0] / shape[1], room[1] / shape[0]))",
        "    return float(min(side, *room))",
        "show/test_draw.py::test_a_dot_is_a_fifth_of_its_cell_however_narrow_the_panel",
    ),
    Fault(
        "numbers beside a narrow panel run together",
        "show/draw.py",
        "        step *= 2\n",
        "        break\n",
        "show/test_draw.py::test_numbers_beside_a_narrow_panel_keep_apart",
    ),
    Fault(
        "the second round of curves looks like the first",
        "show/figures.py",
        "LINE_STYLES + LINE_STYLES[1:] + LINE_STYLES[:1]",
        "LINE_STYLES * 2",
        "show/test_draw.py::test_fourteen_curves_have_no_look_twice",
    ),
    Fault(
        "a picture comes without its alt text",
        "show/figures.py",
        '{"alt": alt, "height": height',
        '{"height": height',
        "show/test_figures.py::test_a_figure_comes_with_alt_text_digest_and_size",
    ),
    Fault(
        "a shown figure stays open",
        "show/figures.py",
        "        plt.close(fig)\n    display(shown)",
        "        pass\n    display(shown)",
        "show/test_figures.py::test_a_shown_figure_is_closed",
    ),
    Fault(
        "words of a widget become markup",
        "show/widgets.py",
        "html.escape(state)",
        "state",
        "show/test_widgets.py::test_words_cannot_become_markup",
    ),
    Fault(
        "a slider keeps showing what the cell computed",
        "show/widgets.py",
        'frame, _ = self._compute(change["new"])',
        "frame = self._frames[0]",
        "show/test_widgets.py::test_the_slider_shows_what_f_returns_now",
    ),
]
