"""A word of the glossary that no chapter leads to: the build says so, and with -W fails."""

import re
from collections.abc import Iterable

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

GLOSSARY = "book/appendices/glossary"
CHAPTER = re.compile(r"book/\d\d_")
LOG = logging.getLogger(__name__)


def not_led_to(glossary: nodes.document, chapters: Iterable[nodes.document]) -> list[str]:
    """The first names of entries none of whose names a chapter links."""
    linked = {
        link["reftarget"].lower()
        for chapter in chapters
        for link in chapter.findall(addnodes.pending_xref)
        if link["reftype"] == "term"
    }
    entries = [
        [term.astext() for term in entry.findall(nodes.term)]
        for entry in glossary.findall(nodes.definition_list_item)
    ]
    return [names[0] for names in entries if linked.isdisjoint(map(str.lower, names))]


def warn(app, env) -> None:
    if GLOSSARY not in env.found_docs:
        return
    chapters = (env.get_doctree(name) for name in env.found_docs if CHAPTER.match(name))
    for word in not_led_to(env.get_doctree(GLOSSARY), chapters):
        LOG.warning("no chapter leads to %r of the glossary", word, location=GLOSSARY)


def setup(app) -> None:
    app.connect("env-check-consistency", warn)
