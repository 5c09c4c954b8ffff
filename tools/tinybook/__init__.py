"""The book's Sphinx extension: pages that ask no other site for anything.

widgets.py   one classic script made from the widget modules of tinyattn.show
pages.py     alt texts, page descriptions, no script twice
api.py       the pages about the package, from its docstrings (docstrings.py)
figures.py   captions that make numbered figures
exercises.py names for exercises, so that chapters lead to them
checks.py    the tables of the tests, counted in their sources
footer.py    a chapter's last lines: seconds, memory, commit, tests, download
records.py   what the longer checks found, from results/
terms.py     words of the glossary that no chapter leads to
previews.py  what a term or a citation means, in the link that leads there
social.py    the picture and the words for links from other sites
weight.py    MathJax as local files, icons without their 1.5 MB script
styles.py    the theme's style sheets without rules for what no page has
finish.py    Chinese words marked as such, & escaped: in the files that were written
"""

from tinybook import (
    api,
    checks,
    exercises,
    figures,
    finish,
    footer,
    pages,
    previews,
    records,
    social,
    styles,
    terms,
    weight,
    widgets,
)

PARTS = (
    widgets,
    pages,
    figures,
    exercises,
    api,
    checks,
    records,
    footer,
    terms,
    previews,
    social,
    styles,
    weight,
    finish,
)


def setup(app):
    for part in PARTS:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
