"""tools/offline.py: the book as one file."""

from zipfile import ZipFile

import pytest

import offline


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "html"
    (folder / "book").mkdir(parents=True)
    for name in ("index.html", "book/intro.html", ".buildinfo", "webpack-macros.html"):
        (folder / name).write_text(name, encoding="utf-8")
    return folder


def test_everything_lies_in_one_folder_named_after_the_version(site, tmp_path):
    archive = offline.pack(site, tmp_path)
    name = f"tinyattn-book-{offline.version()}"
    assert archive.name == f"{name}.zip"
    with ZipFile(archive) as packed:
        files = ["LICENSE", "LICENSE-text", "book/intro.html", "index.html"]
        assert packed.namelist() == [f"{name}/{file}" for file in files]
        assert packed.read(f"{name}/index.html") == b"index.html"


def test_the_same_pages_give_the_same_bytes(site, tmp_path):
    first = offline.pack(site, tmp_path).read_bytes()
    (site / "index.html").touch()
    assert offline.pack(site, tmp_path).read_bytes() == first


def test_without_a_book_it_says_how_to_build_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="run `make book` first"):
        offline.pack(tmp_path, tmp_path)
