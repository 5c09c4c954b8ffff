"""Figures from captions: an italic paragraph below a picture or a widget, as readers of notebooks
see it, becomes the caption of a numbered figure.

A cell that draws may name its figure, so that prose can refer to it as {numref}`fig-name`:

    "mystnb": {"figure": {"name": "fig-name"}}

The same metadata may hold the caption itself; then myst-nb makes the figure.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

WIDGETS = ("data-tinyattn-widget", "tinyattn-tree")


class Figures(SphinxTransform):
    default_priority = 400  # when names are known, and before Sphinx counts figures

    def apply(self, **options) -> None:
        paragraphs = list(self.document.findall(nodes.paragraph))
        for place, caption in enumerate(filter(is_caption, paragraphs), start=1):
            figure = figure_before(caption)
            figure += nodes.caption("", "", *upright(caption))
            caption.parent.remove(caption)
            if not figure["ids"]:
                figure["ids"].append(f"figure-{place}")


def is_caption(paragraph: nodes.paragraph) -> bool:
    """Whether its words are italic from the first to the last, and what is before shows something."""
    words = [child for child in paragraph if isinstance(child, nodes.emphasis | nodes.Text)]
    if not words or not isinstance(words[-1], nodes.emphasis):
        return False
    if not isinstance(paragraph[0], nodes.emphasis):
        return False
    place = paragraph.parent.index(paragraph)
    return place > 0 and shows_something(paragraph.parent[place - 1])


def shows_something(node: nodes.Node) -> bool:
    """Whether a cell, or a paragraph with nothing but a picture, shows one."""
    if isinstance(node, nodes.paragraph):
        return [type(child) for child in node] == [nodes.image]
    return "cell" in getattr(node, "attributes", {}).get("classes", []) and draws(node)


def draws(node: nodes.Element) -> bool:
    """Whether it holds a picture or a widget."""
    drawn = any(True for _ in node.findall(nodes.image))
    return drawn or any(word in raw.astext() for raw in node.findall(nodes.raw) for word in WIDGETS)


def figure_before(caption: nodes.paragraph) -> nodes.figure:
    """The figure that a name made, or a new one around what is shown before the caption."""
    shown = caption.parent[caption.parent.index(caption) - 1]
    named = [
        figure
        for figure in shown.findall(nodes.figure)
        if not isinstance(figure[-1], nodes.caption)
    ]
    if named:
        return named[-1]
    if not isinstance(shown, nodes.paragraph):  # the output of a cell, in all its forms
        shown = [node for node in shown.findall(is_output) if draws(node)][-1]
    figure = nodes.figure()
    shown.replace_self(figure)
    figure += shown[0] if isinstance(shown, nodes.paragraph) else shown
    return figure


def is_output(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def upright(caption: nodes.paragraph) -> list[nodes.Node]:
    """The same words the other way round: a word that stands out in italics is upright there."""
    found: list[nodes.Node] = []
    for child in caption.children:
        if isinstance(child, nodes.emphasis):
            found += child.children
        elif isinstance(child, nodes.Text) and child.strip(" ,.;:()\n"):
            before, word, after = margins(child)
            found += [nodes.Text(before), nodes.emphasis("", word), nodes.Text(after)]
        else:
            found.append(child)
    return found


def margins(text: str) -> tuple[str, str, str]:
    """Blanks before, words, blanks after."""
    word = text.strip()
    before, after = text.split(word, 1)
    return before, word, after


def setup(app) -> None:
    app.add_transform(Figures)
