"""tools/stamps.py: what makes a record old, and what does not."""

import json

import pytest

import stamps

CODE = '''"""A module."""


def double(x):
    """Twice x."""
    return 2 * x  # a comment
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file of the package that the record in results/mutants.json speaks of."""
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    path = tmp_path / "src" / "module.py"
    path.parent.mkdir()
    path.write_text(CODE)
    (tmp_path / "results").mkdir()
    record = {"modules": {"module.py": {"stamp": stamps.stamp([path])}}}
    (tmp_path / "results" / "mutants.json").write_text(json.dumps(record))
    return path


def stale():
    return stamps.stale("mutants", stamps.ROOT / "results")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module", "The module"),
        ("Twice x", "Two times x"),
        ("a comment", "another"),
        ("2 * x", "(2 * x)"),
        ("\n\n\n", "\n\n"),
        ("\n", "\r\n"),
    ],
)
def test_words_and_layout_make_nothing_old(file, old, new):
    file.write_bytes(CODE.replace(old, new).encode())
    assert stale() == []


@pytest.mark.parametrize(("old", "new"), [("2 * x", "3 * x"), ("double", "twice"), ("*", "+")])
def test_a_change_of_the_code_makes_its_record_old(file, old, new):
    file.write_text(CODE.replace(old, new))
    [sentence] = stale()
    assert sentence.startswith("mutants of module.py: the record (of ")
    assert sentence.endswith("is older than src/module.py")


def test_of_a_notebook_only_the_code_counts(tmp_path):
    def digest(text, code, output):
        cells = [
            {"cell_type": "markdown", "source": [text]},
            {"cell_type": "code", "source": [code], "outputs": [output]},
        ]
        path = tmp_path / "chapter.ipynb"
        path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
        return stamps.digest(path)

    assert digest("words", "x = 1", "1") == digest("other words", "x = 1", "2")
    assert digest("words", "x = 1", "1") != digest("words", "x = 2", "1")


def test_a_file_that_is_gone_makes_its_record_old(file):
    file.unlink()
    assert len(stale()) == 1


def test_a_record_that_is_missing_is_said_to_be(file):
    (stamps.ROOT / "results" / "mutants.json").unlink()
    assert stale() == ["results/mutants.json is missing: make mutants writes it"]


def test_what_pages_are_made_with_holds_styles_scripts_figures_and_settings():
    names = {path.relative_to(stamps.ROOT).as_posix() for path in stamps.of_pages()}
    assert {
        "src/tinyattn/show/static/frames.js",
        "src/tinyattn/show/figures.py",
        "tools/tinybook/host.js",
        "book/_static/book.css",
        "book/_templates/book-logo.html",
        "_config.yml",
    } <= names
    assert not any(name.endswith((".pyc", ".ipynb")) for name in names)


def test_other_files_are_compared_byte_by_byte(tmp_path):
    (tmp_path / "a.js").write_text("1 + 1")
    (tmp_path / "b.js").write_text("1 +  1")
    assert stamps.digest(tmp_path / "a.js") != stamps.digest(tmp_path / "b.js")


def test_a_digest_is_the_same_on_every_version_of_python(tmp_path):
    (tmp_path / "a.py").write_text(CODE)
    assert stamps.digest(tmp_path / "a.py") == "35d7f0ad78734366"


def test_a_function_of_a_docstring_alone_has_a_digest_too(tmp_path):
    (tmp_path / "a.py").write_text('def nothing():\n    """It does."""\n')
    assert len(stamps.digest(tmp_path / "a.py")) == 16
