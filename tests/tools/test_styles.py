"""tools/tinybook/styles.py: which rules of a style sheet are kept."""

import pytest

from tinybook import styles

NAMES = {"btn", "card-body", "html"}


def kept(sheet):
    return styles.cut(sheet, NAMES)


@pytest.mark.parametrize(
    "sheet",
    [
        "a{b:c}",
        ".btn{b:c}",
        ".btn.card-body>a::before{content:'}'}",
        '.btn{content:";{"}',
        ":root{--x:1}",
        ".btn:not(.gone){b:c}",
        ":is(.gone,.btn){b:c}",
        '[class*=".gone"]{b:c}',
        ".bs-tooltip-top{b:c}",
        '@charset "a";a{b:c}',
        "@font-face{src:url(a.woff2)}",
        "@keyframes turn{0%{b:c}to{b:d}}",
        "@media (min-width:1.5em){.btn{b:c}a{b:d}}",
        "@media screen{@supports (b:c){.btn{b:c}}}",
    ],
)
def test_what_a_page_may_need_stays_as_it_was(sheet):
    assert kept(sheet) == sheet


@pytest.mark.parametrize(
    ("sheet", "rest"),
    [
        (".gone{b:c}", ""),
        (".btn .gone{b:c}a{b:d}", "a{b:d}"),
        (".gone,.btn:is(a,b),.gone a{b:c}", ".btn:is(a,b){b:c}"),
        ("@media screen{.gone{b:c}}", ""),
        ("@media screen{.gone{b:c}.btn{b:c}}", "@media screen{.btn{b:c}}"),
        (".btn-gone{b:c}", ""),
        ("/* words */a{b:c}", "a{b:c}"),
        ("/*! a licence */.gone{b:c}", "/*! a licence */\n"),
    ],
)
def test_what_none_can_need_goes(sheet, rest):
    assert kept(sheet) == rest


def test_names_come_from_pages_and_from_scripts(tmp_path):
    (tmp_path / "a.html").write_text('<p class="one two-three">')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.js").write_text('add("four")')
    (tmp_path / "d.css").write_text(".five{}")
    assert {"one", "two-three", "four"} <= styles.words(tmp_path)
    assert "five" not in styles.words(tmp_path)
