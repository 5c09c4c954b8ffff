"""tools/tinybook: docstrings and signatures as parts of a page."""

import importlib
import inspect

import pytest
from docutils import nodes

import tinyattn
from tinyattn.patterns import Window
from tinyattn.show import Outline, draw_mask
from tinybook import api, docstrings

DOCSTRING = """What it is, with `code` in it.

Two lines of
one paragraph (arXiv:2004.05150).

    a formula | as it is *

- first, over
  two lines
- second

Args:
    w: keys on each side,
        and more words.
    n: tokens.

Source:
    Somebody, section 3.

Example:
    >>> 1 + 1
    2
"""


def test_a_docstring_falls_into_its_sections():
    found = docstrings.sections(DOCSTRING)
    assert [name for name, _ in found] == ["", "Args", "Source", "Example"]
    assert found[-1][1] == ">>> 1 + 1\n2"


def test_its_parts_become_what_they_look_like():
    found = docstrings.parsed(DOCSTRING)
    kinds = [type(node).__name__ for node in found]
    words = ["paragraph", "paragraph", "literal_block", "bullet_list", "rubric", "definition_list"]
    assert kinds == [*words, "rubric", "paragraph", "rubric", "literal_block"]
    assert found[0].astext() == "What it is, with code in it."
    assert found[0].next_node(nodes.literal).astext() == "code"
    assert found[1].next_node(nodes.reference)["refuri"] == "https://arxiv.org/abs/2004.05150"
    assert found[2].astext() == "a formula | as it is *"
    assert [item.astext() for item in found[3]] == ["first, over two lines", "second"]
    assert [item[0].astext() for item in found[5]] == ["w", "n"]
    assert found[5][0][1].astext() == "keys on each side, and more words."


def test_a_signature_shows_shapes_defaults_and_what_must_be_named():
    shown = api.signature("attention", tinyattn.attention)
    assert 'q: Float[Tensor, "... n_q d_head"]' in shown
    assert "\n    *,\n    scale: float | None = None,\n" in shown
    assert shown.endswith(') -> Float[Tensor, "... n_q d_v"]')
    assert api.signature("Window", Window) == "Window(w: int)"


def test_long_signatures_have_a_line_for_each_argument():
    def short(a: int, *rest: str, b=2, **more):
        """Nothing."""

    assert api.signature("short", short) == "short(a: int, *rest: str, b=2, **more)"
    assert len(api.signature("attention", tinyattn.attention).splitlines()) > 5


def test_a_long_default_is_called_by_its_name():
    assert "tree: Node = TREE" in api.signature("Outline", Outline)

    def anywhere(it=tuple(range(100))):
        pass

    assert api.signature("anywhere", anywhere) == "anywhere(it=...)"


def test_types_are_called_what_their_users_call_them():
    assert "ax: matplotlib.axes.Axes | None" in api.signature("draw_mask", draw_mask)


def test_only_what_a_class_itself_says_is_shown_of_it():
    names = [name for name, _ in api.methods(Window)]
    assert "allowed" in names or "reach" in names
    assert not any(name.startswith("_") for name in names)
    assert "mask" not in names  # of every pattern: shown once, with Pattern


@pytest.mark.parametrize("name", ["groups", "data", "training", "ngram"])
def test_a_module_without_a_list_shows_what_it_defines(name):
    module = importlib.import_module(f"tinyattn.{name}")
    for public in api.public(module):
        assert getattr(module, public).__module__ == module.__name__
        assert inspect.getdoc(getattr(module, public)), public
