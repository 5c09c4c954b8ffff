"""The book's Sphinx extension: pages that ask no other site for anything.

widgets.py   one classic script made from the widget modules of tinyattn.show
pages.py     alt texts, page descriptions, no script twice
records.py   what the longer checks found, from results/
weight.py    MathJax as local files, icons without their 1.5 MB script
"""

from tinybook import pages, records, weight, widgets


def setup(app):
    for part in (widgets, pages, records, weight):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
