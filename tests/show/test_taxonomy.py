"""The survey's tree: what it links exists, what it leaves out is said, and its html is sound."""

import json
import re
from dataclasses import FrozenInstanceError
from html import escape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from tinyattn.show.taxonomy import ATTENTION, HERE, TITLES, TREE, Node, Outline

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = {entry["file"] for part in TOC["parts"] for entry in part["chapters"]}
VOID = {"br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Elements in order, with their text; refuses what is closed wrongly."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), self.open[-1] if self.open else None))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def html(*args, **kwargs) -> str:
    return Outline(*args, **kwargs)._repr_html_()


def test_every_link_leads_to_a_chapter_of_the_table_of_contents():
    links = [a["href"] for tag, a, _ in Reader(html()).elements if tag == "a"]
    assert len(links) > 10
    for link in links:
        assert "book/" + link.removesuffix(".html") in CHAPTERS, link


def test_a_link_is_called_what_the_chapter_is_called():
    for chapter, title in TITLES.items():
        cells = json.loads((ROOT / f"book/{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
        first = next("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        assert re.match(r"# (.*)", first)[1] == title


def test_a_family_leads_to_the_chapter_that_it_is_read_in_except_on_its_own_page():
    page = html()
    families = [node for node in TREE.walk() if node.parts and node.chapter]
    assert {node.chapter for node in families} >= {"02_transformer", HERE, "07_atomic"}
    for node in families:
        link = f'<p>Read: <a href="{node.chapter}.html">'
        after = page.split(f"<strong>{escape(node.name)}</strong>")[1].split("<strong>")[0]
        assert (link in after) == (node.chapter != HERE), node.name


def test_code_that_the_tree_names_can_be_imported():
    named = [node.code for node in TREE.walk() if node.code]
    assert len(named) > 15
    for code in named:
        package, name = code.rsplit(".", 1)
        assert hasattr(import_module(f"tinyattn.{package}"), name), code


def test_a_model_without_a_chapter_says_so():
    text = Reader(html()).text
    for family in TREE.walk():
        if any(node.chapter or node.code for node in family.walk()):  # or the family says it
            for node in family.parts:
                if not node.parts and node.chapter is None and node.code is None:
                    assert f"{node.name} (outside this book)" in text, node.name
    tree = Node("all", "", parts=(Node("SAC", "edges", code="content.SACRouter"),))
    assert "SAC, edges (no chapter; in the package as content.SACRouter)" in Reader(html(tree)).text
    assert "SAC, edges that are predicted" in text


def test_the_six_families_are_in_the_tree_with_code_on_this_page_or_a_chapter():
    families = {part.name: part for part in ATTENTION.parts}
    assert len(families) == 7  # prototypes and memory compression are one section of the text
    for name, family in families.items():
        treated = any(node.chapter for node in family.walk())
        assert treated == (name != "Prototype"), name


def test_names_are_escaped():
    tree = Node("<a>", '"b" & c', parts=(Node("<i>x"), Node("A & B", "<hr>", parts=(Node("y"),))))
    page = Reader(html(tree))
    assert {tag for tag, _, _ in page.elements} == {
        "nav",
        "ul",
        "li",
        "details",
        "summary",
        "strong",
    }
    assert page.elements[0][1]["aria-label"] == '<a>: "b" & c'
    assert "<i>x (outside this book)" in page.text
    assert "A & B, <hr>" in page.text


def test_html_is_lists_in_details_without_ids_and_without_a_link_in_a_summary():
    page = Reader(html())  # checks the nesting
    for tag, attributes, parent in page.elements:
        assert "id" not in attributes
        if tag == "li":
            assert parent == "ul"
        if tag == "ul":
            assert parent in ("nav", "details")
        if tag == "a":
            assert parent in ("li", "p")


@pytest.mark.parametrize("levels", [0, 1, 9])
def test_as_many_levels_stand_open_as_are_asked_for(levels):
    tree = Node("a", parts=(Node("b", parts=(Node("c", parts=(Node("d"),)),)),))
    opened = [
        ("open" in a)
        for tag, a, _ in Reader(html(tree, open_levels=levels)).elements
        if tag == "details"
    ]
    assert opened == [levels > 0, levels > 1]


def test_the_text_holds_every_node_once_a_line():
    assert [line.split(":")[0].strip() for line in repr(Outline()).splitlines()] == [
        node.name.split(":")[0] for node in TREE.walk()
    ]


def test_nodes_without_a_name_or_with_an_unknown_chapter_are_refused():
    with pytest.raises(ValueError, match="a node needs a name"):
        Node("")
    with pytest.raises(ValueError, match="got '99_none'"):
        Node("x", chapter="99_none")
    with pytest.raises(ValueError, match="open_levels must be 0 or more, got -1"):
        Outline(open_levels=-1)
    assert Node("x", chapter=HERE).where == "on this page"


def test_a_node_does_not_change_and_compares_by_value():
    assert hash(Node("Performer")) == hash(Node("Performer"))
    with pytest.raises(FrozenInstanceError):
        TREE.name = "Another"


def test_a_family_is_outside_the_book_if_all_of_it_is_and_only_then():
    tree = Node(
        "all",
        parts=(
            Node("apart", parts=(Node("a", parts=(Node("b"),)),)),
            Node("coded", parts=(Node("c", parts=(Node("d", code="content.SACRouter"),)),)),
            Node("read", parts=(Node("e", chapter="10_lsh"),)),
        ),
    )
    text = Reader(html(tree)).text
    said = {name for name in ("apart", "a", "coded", "c", "read") if f"{name} (outside" in text}
    assert said == {"apart"}  # and what is below it need not
    assert text.count("(outside this book)") == 1


def test_the_text_says_where_models_are_and_leaves_families_without_a_chapter_silent():
    tree = Node(
        "all", parts=(Node("f", parts=(Node("m"),)), Node("g", "", "10_lsh", parts=(Node("h"),)))
    )
    assert repr(Outline(tree)).splitlines() == [
        "all",
        "  f",
        "    m: outside this book",
        "  g: Attention by hashing",
        "    h: outside this book",
    ]
