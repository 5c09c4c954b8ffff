"""tools/tinybook: the parts of the Sphinx extension that need no browser."""

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from tinybook import pages, weight, widgets

# ------------------------------------------------------------------------- the widgets' script


def module(tmp_path, code):
    path = tmp_path / "one.js"
    path.write_text(code, encoding="utf-8")
    return path


def test_a_module_becomes_a_function_that_returns_its_widget(tmp_path):
    path = module(tmp_path, "export function f() {}\nexport default { render: f };\n")
    assert widgets.as_function_body(path) == "function f() {}\nreturn { render: f };\n"
    assert 'widgets["one"] = () => {\nfunction f() {}' in widgets.bundle([path])


@pytest.mark.parametrize(
    "code",
    [
        "function render() {}",
        "import x from './x.js';\nexport default {};",
        "const render = 1;\nexport { render };\nexport default {};",
        "export default {};\nexport default {};",
    ],
)
def test_a_module_that_cannot_be_bundled_is_refused(tmp_path, code):
    with pytest.raises(ValueError, match=r"one\.js must hold one `export default"):
        widgets.as_function_body(module(tmp_path, code))


# ----------------------------------------------------------------------------------- a page


def script(filename="", body=""):
    class Script(SimpleNamespace):
        def __str__(self):
            return filename

    return Script(attributes={"body": body} if body else {})


def test_a_script_runs_once_and_thebe_never():
    scripts = [
        script("a.js"),
        script("_static/sphinx-thebe.js"),
        script(body="var THEBE_JS_URL = 1"),
        script("a.js"),
        script(body="let b"),
    ]
    context = {"script_files": scripts, "metatags": ""}
    pages.fix_page(None, "book/intro", "page.html", context, None)
    assert context["script_files"] == [scripts[0], scripts[4]]


def test_a_page_is_described_by_its_first_sentence():
    document = new_document("page")
    document += nodes.paragraph("", "Short.")
    document += nodes.paragraph(
        "", "This says\nwhat the page's “x < y” is about. " + "And on. " * 40
    )
    context = {"metatags": ""}
    pages.fix_page(None, "book/intro", "page.html", context, document)
    start = '<meta name="description" content="This says what the page&#x27;s “x &lt; y” is'
    assert context["metatags"].startswith(start)
    assert len(context["metatags"]) < 250


# --------------------------------------------------------------------------- the icon fonts

STYLES = """
.fa-used:before{content:"\\f001"} .fa-unused:before{content:"\\f002"}
.admonition-title:after{content:"\\f003"} .fa-new{--fa:"\\f004"}
"""


def test_only_icons_that_pages_or_the_theme_use_are_kept(tmp_path):
    (tmp_path / "_static" / "scripts").mkdir(parents=True)
    (tmp_path / "_static" / "theme.css").write_text(STYLES, encoding="utf-8")
    (tmp_path / "_static" / "scripts" / "a.js").write_text('"fa-new"', encoding="utf-8")
    (tmp_path / "page.html").write_text('<i class="fa-used">\uf009</i>', encoding="utf-8")
    assert weight.used_icons(tmp_path) == {0xF001, 0xF003, 0xF004, 0xF009}
