"""tools/tinybook: a chapter's last lines, previews of links, words for other sites, last corrections."""

import itertools
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from docutils import nodes
from docutils.utils import new_document
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image
from sphinx.builders.html._assets import _JavaScript

import notebooks
from tinybook import exercises, finish, footer, pages, previews, social

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------ a chapter's last lines


@pytest.fixture
def chapter(tmp_path):
    """A chapter in a folder of its own, with a record of a run."""
    notebook = new_notebook(cells=[new_code_cell("1 + 1", id="a")])
    file = tmp_path / "book" / "01_attention.ipynb"
    for folder in (file.parent, tmp_path / "results"):
        folder.mkdir()
    file.write_text(notebooks.normalise(notebook, "a"))
    found = {
        "seconds": 12.3, "mebibytes": 410, "date": "2026-01-02", "versions": {"Python": "3.11.7"},
        "code": notebooks.code_digest(notebook),
    }  # fmt: skip
    (tmp_path / "results" / "chapters.json").write_text(
        json.dumps({"book/01_attention.ipynb": found})
    )
    return file


def app(root):
    address = {"repository_url": "https://github.com/a/b"}
    return SimpleNamespace(srcdir=root, config=SimpleNamespace(html_theme_options=address))


def test_a_chapter_says_what_it_takes_and_where_its_tests_are(chapter):
    text = footer.footer(app(chapter.parents[1]), "book/01_attention")
    assert "Runs in 12 seconds with 410 MiB at most" in text
    assert "https://github.com/a/b/blob/main/tests/test_dense.py" in text
    assert 'href="../_sources/book/01_attention.ipynb" download' in text
    assert "Last changed" not in text  # the folder is no repository


def test_a_measurement_of_other_code_is_not_shown(chapter):
    notebook = new_notebook(cells=[new_code_cell("1 + 2", id="a")])
    chapter.write_text(notebooks.normalise(notebook, "a"))
    assert footer.measured(chapter.parents[1], chapter) == ""


def test_a_page_without_code_has_no_such_lines(chapter):
    assert footer.footer(app(chapter.parents[1]), "book/glossary") == ""


def test_the_last_commit_of_a_chapter_is_named(chapter):
    root = chapter.parents[1]
    as_somebody = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], [*as_somebody, "commit", "-qm", "one"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    commit, date = footer.last_change(root, "book/01_attention.ipynb")
    assert len(commit) == 40
    assert footer.changed(root, "book/01_attention.ipynb", "https://github.com/a/b") == (
        f'Last changed on {date} in <a href="https://github.com/a/b/commit/{commit}">'
        f"<code>{commit[:7]}</code></a>"
    )


# ----------------------------------------------------------------------------------- previews


def test_links_to_terms_and_references_carry_what_they_mean():
    body = (
        '<a class="reference internal" href="glossary.html#term-head"><span>head</span></a>'
        '<a class="reference internal" href="#id3" title="A. Author. A &amp; B.">2020</a>'
        '<a class="reference internal" href="other.html#section">other</a>'
    )
    found = previews.with_previews(body, {"term-head": "One of <several>."})
    assert 'href="glossary.html#term-head" data-preview="One of &lt;several&gt;."' in found
    assert 'href="#id3" data-preview="A. Author. A &amp; B."' in found
    assert "title=" not in found
    assert found.count("data-preview") == 2


def test_formulas_in_a_preview_are_plain_text():
    words = nodes.paragraph("", "", nodes.math("", r"q k^\top / \sqrt{d_{head}}"))
    assert previews.in_plain_words(words) == "q kᵀ / √d_head"


# ------------------------------------------------------------------------- words for other sites


def test_the_pages_stand_where_github_publishes_them():
    assert social.address("https://github.com/Someone/book") == "https://someone.github.io/book/"


def test_the_picture_has_the_size_that_other_sites_expect(tmp_path):
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    figure = social.draw(config["title"], "Below.")
    figure.savefig(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (1200, 630)
    for text in figure.texts:
        assert text.get_window_extent().x1 < 1170, text.get_text()


def test_the_cover_is_an_upright_page_on_which_nothing_lies_on_anything_else(tmp_path):
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    figure = social.draw_cover(config["title"], social.BELOW, config["author"])
    figure.savefig(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (827, 1169)
    boxes = [one.get_window_extent() for one in (*figure.axes, *figure.texts)]
    assert all(a.x1 < 790 for a in boxes)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


# ------------------------------------------------------------------------------- corrections


def test_chinese_is_marked_in_texts_and_nowhere_else():
    page = '<title>中文</title><p title="中文">see 注意力, or 桶（哈希）</p><script>"中文"</script>'
    assert finish.corrected(page) == (
        '<title>中文</title><p title="中文">see <span lang="zh-Hans">注意力</span>, or '
        '<span lang="zh-Hans">桶（哈希）</span></p><script>"中文"</script>'
    )


@pytest.mark.parametrize("current", ["", "current "])
def test_what_unfolds_a_part_of_the_menu_has_its_name(current):
    link = f'<a class="{current}reference internal" href="a.html">Parts</a>'
    page = f'{link}<details open="open"><summary>'
    assert finish.corrected(page) == page[:-1] + ' aria-label="Pages of: Parts">'


def test_names_in_tables_may_break_where_they_are_made_of_parts():
    code = '<code><span class="pre">long_names/test.py</span></code>'
    broken = code.replace("long_names/test.py", "long_<wbr>names/<wbr>test.<wbr>py")
    assert finish.corrected(f"<td><p>{code}</p></td>{code}") == f"<td><p>{broken}</p></td>{code}"


def test_a_name_in_a_table_that_fits_a_line_stays_whole():
    cell = '<td><p><code><span class="pre">d_model</span></code></p></td>'
    assert finish.corrected(cell) == cell


def test_a_folded_cell_is_called_what_is_written_on_it():
    page = '<summary aria-label="Toggle hidden content">\n<p>Solution</p></summary>'
    assert finish.corrected(page) == page.replace(' aria-label="Toggle hidden content"', "")


def test_ampersands_of_addresses_are_escaped_once():
    page = '<a href="x?a=1&b=2&amp;c=3&#x27;">a & b</a>'
    assert finish.corrected(page) == '<a href="x?a=1&amp;b=2&amp;c=3&#x27;">a & b</a>'


def test_the_address_of_the_book_leads_to_its_first_page_and_has_its_picture():
    page = (
        '<title>The book</title><meta property="og:image" content="a.png" />'
        '<meta name="description" content="b" /><meta name="viewport" content="c" />'
    )
    found = finish.front("book/intro.html", page)
    assert '<meta http-equiv="refresh" content="0; url=book/intro.html">' in found
    assert "<title>The book</title>" in found
    assert 'property="og:image"' in found
    assert 'name="description"' in found
    assert "viewport" not in found


# ------------------------------------------------------------------------- scripts of a page


def scripts_of(template):
    scripts = [
        _JavaScript("_static/documentation_options.js"),
        _JavaScript("_static/book.js", priority=900),
        _JavaScript("_static/book.js", priority=900),
        _JavaScript(None, body="a = 1"),
        _JavaScript("_static/sphinx-thebe.js"),
    ]
    context = {"script_files": scripts}
    pages.fix_page(None, "page", template, context, None)
    return context["script_files"]


def test_scripts_wait_until_the_page_is_read_and_run_once():
    options, book, line = scripts_of("page.html")
    assert (options.attributes, line.attributes) == ({}, {"body": "a = 1"})
    assert (book.filename, book.priority, book.attributes) == (
        "_static/book.js", 900, {"defer": "defer"},
    )  # fmt: skip


def test_where_one_searches_no_script_waits():
    assert all("defer" not in script.attributes for script in scripts_of("search.html"))


def test_a_script_that_is_empty_is_not_asked_for():
    page = '<head><script src="a/fontawesome.js?digest=1"></script><script src="b.js"></script>'
    assert finish.corrected(page) == '<head><script src="b.js"></script>'


# ------------------------------------------------------------------------- names for exercises


def test_an_exercise_can_be_referred_to_by_its_number():
    titles = ("Exercise 7.12. A window", "Exercise of patience", "7.3. A window")
    page = new_document("page")
    page += [nodes.section("", nodes.title("", title)) for title in titles]
    exercises.Exercises(page).apply()
    assert [section["names"] for section in page] == [["exercise-7-12"], [], []]
    assert page.nameids == {"exercise-7-12": "exercise-7-12"}
