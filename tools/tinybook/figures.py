"""Numbers for figures: an italic paragraph below a picture or a widget is its caption."""

from docutils import nodes

WIDGETS = ("data-tinyattn-widget", "tinyattn-tree")


def number_figures(app, doctree, docname) -> None:
    """Put "Figure 3.2." before each caption: chapter and place in it."""
    chapter = app.env.toc_secnumbers.get(docname, {}).get("", ())
    captions = [
        paragraph for paragraph in doctree.findall(nodes.paragraph) if is_caption(paragraph)
    ]
    for place, caption in enumerate(captions, start=1):
        number = ".".join(map(str, [*chapter, place]))
        caption["ids"].append(f"figure-{number.replace('.', '-')}")
        caption["classes"].append("caption-of-figure")
        caption.insert(0, nodes.strong("", f"Figure {number}."))
        caption.insert(1, nodes.Text(" "))


def is_caption(paragraph: nodes.paragraph) -> bool:
    """Whether all words are italic, and what stands before it shows something."""
    words = [child for child in paragraph if isinstance(child, nodes.emphasis | nodes.Text)]
    if not paragraph.children or not words or not isinstance(words[-1], nodes.emphasis):
        return False
    plain = "".join(word for word in words if isinstance(word, nodes.Text))
    if not isinstance(paragraph[0], nodes.emphasis) or plain.strip(" ,.;:()\n"):
        return False
    place = paragraph.parent.index(paragraph)
    return place > 0 and shows_something(paragraph.parent[place - 1])


def shows_something(node: nodes.Node) -> bool:
    """Whether a cell, or a paragraph with nothing but a picture, shows one."""
    if isinstance(node, nodes.paragraph):
        return [type(child) for child in node] == [nodes.image]
    if "cell" not in getattr(node, "attributes", {}).get("classes", []):
        return False
    drawn = any(True for _ in node.findall(nodes.image))
    return drawn or any(word in raw.astext() for raw in node.findall(nodes.raw) for word in WIDGETS)


def setup(app) -> None:
    app.connect("doctree-resolved", number_figures)
