"""tools/tinybook/figures.py: which paragraphs are captions, and the figures they become."""

import pytest
from docutils import nodes
from docutils.utils import new_document

from tinybook import figures


def cell(*shown):
    """A cell whose last output has these forms."""
    first = nodes.container("", nodes.literal_block("", "print"), nb_element="mime_bundle")
    last = nodes.container("", *shown, nb_element="mime_bundle")
    return nodes.container("", nodes.container("", first, last), classes=["cell"])


def italic(*words):
    return nodes.paragraph("", "", *[nodes.emphasis("", word) for word in words])


PICTURE = cell(nodes.container("", nodes.image(uri="a.png")))
WIDGET = cell(nodes.raw("", '<div data-tinyattn-widget="frames">', format="html"))


def made(*parts):
    """The figures of a page with these parts, and the page."""
    document = new_document("page")
    document += [part.deepcopy() for part in parts]
    figures.Figures(document).apply()
    return list(document.findall(nodes.figure)), document


def test_a_picture_and_its_caption_become_one_figure_that_sphinx_can_count():
    [first, second], document = made(PICTURE, italic("One."), WIDGET, italic("Two."))
    assert [figure[-1].astext() for figure in (first, second)] == ["One.", "Two."]
    assert [type(figure[-1]) for figure in (first, second)] == [nodes.caption] * 2
    assert [figure["ids"] for figure in (first, second)] == [["figure-1"], ["figure-2"]]
    assert list(first.findall(nodes.image))
    assert list(second.findall(nodes.raw))
    assert not list(document.findall(nodes.paragraph))


def test_other_outputs_of_the_cell_stay_outside():
    [figure], document = made(PICTURE, italic("One."))
    assert "print" in document.astext()
    assert "print" not in figure.astext()


def test_a_picture_in_the_text_can_have_a_caption():
    [figure], _ = made(nodes.paragraph("", "", nodes.image(uri="a.png")), italic("One."))
    assert [type(child) for child in figure] == [nodes.image, nodes.caption]


def test_a_figure_that_has_a_name_gets_the_caption():
    named = nodes.figure("", nodes.image(uri="a.png"), ids=["fig-a"], names=["fig-a"])
    [figure], _ = made(cell(named), italic("One."))
    assert figure["ids"] == ["fig-a"]
    assert figure[-1].astext() == "One."


def test_a_caption_may_hold_formulas_between_its_words():
    mixed = nodes.paragraph("", "", nodes.emphasis("", "Row"), nodes.Text(" "), nodes.math("", "i"),
                            nodes.Text(" "), nodes.emphasis("", "is."))  # fmt: skip
    [figure], _ = made(PICTURE, mixed)
    assert [type(child) for child in figure[-1]] == [
        nodes.Text, nodes.Text, nodes.math, nodes.Text, nodes.Text,
    ]  # fmt: skip


def test_what_stood_out_upright_stands_out_in_italics():
    mixed = nodes.paragraph("", "", nodes.emphasis("", "Row"), nodes.Text(" are "),
                            nodes.emphasis("", "is ours."))  # fmt: skip
    [figure], _ = made(PICTURE, mixed)
    assert figure[-1].astext() == "Row are is ours."
    assert [word.astext() for word in figure[-1].findall(nodes.emphasis)] == ["are"]


@pytest.mark.parametrize(
    "parts",
    [
        [italic("Not below anything.")],
        [cell(nodes.literal_block("", "print")), italic("Below words.")],
        [PICTURE, nodes.paragraph("", "Not italic.")],
        [PICTURE, nodes.paragraph("")],
        [PICTURE, nodes.paragraph("", "", nodes.emphasis("", "One"), nodes.Text(" word of many."))],
        [PICTURE, nodes.paragraph("", "Between."), italic("Too late.")],
    ],
)
def test_other_italic_words_are_no_captions(parts):
    assert made(*parts)[0] == []
