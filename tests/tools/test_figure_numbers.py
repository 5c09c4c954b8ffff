"""tools/tinybook/figures.py: which paragraphs are captions, and what number they get."""

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from tinybook import figures


def cell(*shown):
    return nodes.container("", *shown, classes=["cell"])


def italic(*words):
    return nodes.paragraph("", "", *[nodes.emphasis("", word) for word in words])


PICTURE = cell(nodes.container("", nodes.image(uri="a.png")))
WIDGET = cell(nodes.raw("", '<div data-tinyattn-widget="frames">', format="html"))


def numbered(parts, chapter=(3,)):
    document = new_document("page")
    document += [part.deepcopy() for part in parts]
    numbers = {"book/a": {"": chapter}} if chapter else {}
    app = SimpleNamespace(env=SimpleNamespace(toc_secnumbers=numbers))
    figures.number_figures(app, document, "book/a")
    return [node.astext() for node in document.findall(nodes.strong)], document


def test_captions_are_counted_within_their_chapter():
    found, document = numbered([PICTURE, italic("One."), WIDGET, italic("Two.")])
    assert found == ["Figure 3.1.", "Figure 3.2."]
    assert [node["ids"] for node in document.findall(nodes.paragraph)] == [
        ["figure-3-1"],
        ["figure-3-2"],
    ]


def test_a_page_without_a_number_counts_alone():
    assert numbered([PICTURE, italic("One.")], chapter=())[0] == ["Figure 1."]


def test_a_caption_may_hold_formulas_between_its_words():
    mixed = nodes.paragraph("", "", nodes.emphasis("", "Row"), nodes.Text(" "), nodes.math("", "i"),
                            nodes.Text(" "), nodes.emphasis("", "is."))  # fmt: skip
    assert numbered([PICTURE, mixed])[0] == ["Figure 3.1."]


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
    assert numbered(parts)[0] == []
