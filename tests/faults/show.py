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
    Fault(
        "complex numbers are drawn without their imaginary part",
        "show/draw.py",
        'if a.dtype.kind != "c":',
        "if True:",
        "show/test_draw.py::test_what_cannot_be_drawn_is_refused_in_a_sentence",
    ),
    Fault(
        "labels are counted before they are known to be a list",
        "show/draw.py",
        "if not isinstance(labels, Collection):",
        "if not labels:",
        "show/test_draw.py::test_what_cannot_be_drawn_is_refused_in_a_sentence",
    ),
    Fault(
        "the first frame is computed twice",
        "show/widgets.py",
        'if self.frame.get("index") == change["new"]:',
        'if self.frame.get("index") is change["new"]:',
        "show/test_widgets.py::test_each_frame_is_computed_once_and_anew_when_the_slider_comes_back",
    ),
    Fault(
        "scores are measured before they are known to be a tensor",
        "show/studio.py",
        "if not isinstance(scores, Tensor) or scores.is_complex():",
        "if isinstance(scores, Tensor) and scores.is_complex():",
        "show/test_studio.py::test_wrong_arguments_are_refused",
    ),
]
