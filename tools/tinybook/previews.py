"""What a link means, in the link itself: book.js shows it when it is pointed at or focused.

A page in a folder on disk may not read another page, so the words have to be in the page.
"""

import html
import re

from docutils import nodes

TERM = re.compile(r'<a class="reference internal" href="[^"]*#(term-[^"]+)"')
CITATION = re.compile(r'(<a class="reference internal" href="#[^"]+") title="([^"]+)"')
SIGNS = [
    (r"\\top", "ᵀ"), (r"\^ᵀ", "ᵀ"), (r"\\sqrt\{?", "√"), (r"\\infty", "∞"), (r"\\exp", "exp"),
    (r"_\{(\w+)\}", r"_\1"), (r"[{}$]", ""),
]  # fmt: skip


def definitions(app) -> dict[str, str]:
    """The meaning of each term of the glossary by the anchor that links lead to."""
    if not hasattr(app.env, "tinybook_terms"):
        found = {}
        for docname in {docname for docname, _ in app.env.get_domain("std")._terms.values()}:
            for item in app.env.get_doctree(docname).findall(nodes.definition_list_item):
                meaning = item.next_node(nodes.definition)
                for term in item.findall(nodes.term):
                    found |= dict.fromkeys(term["ids"], in_plain_words(meaning))
        app.env.tinybook_terms = found
    return app.env.tinybook_terms


def in_plain_words(node: nodes.Node) -> str:
    """Text without markup; formulas as they would be typed."""
    copy = node.deepcopy()
    for formula in list(copy.findall(nodes.math)):
        text = formula.astext()
        for pattern, sign in SIGNS:
            text = re.sub(pattern, sign, text)
        formula.parent.replace(formula, nodes.Text(text))
    return re.sub(r"\s+", " ", copy.astext()).strip()


def add_previews(app, pagename, templatename, context, doctree) -> None:
    if "body" in context:
        context["body"] = with_previews(context["body"], definitions(app))


def with_previews(body: str, terms: dict[str, str]) -> str:
    def of_term(match: re.Match) -> str:
        meaning = terms.get(match[1], "")
        return f'{match[0]} data-preview="{html.escape(meaning)}"' if meaning else match[0]

    return CITATION.sub(r'\1 data-preview="\2"', TERM.sub(of_term, body))


def setup(app) -> None:
    app.connect("html-page-context", add_previews, priority=895)
