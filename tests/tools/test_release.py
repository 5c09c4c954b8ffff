"""tools/release.py: what is in a release, and which tags are refused."""

import hashlib
import os
import subprocess
import sys
from zipfile import ZipFile

import pytest
import yaml

import release
import tinyattn


def test_the_version_is_that_of_the_package():
    assert release.version() == tinyattn.__version__


def test_a_tag_of_another_version_is_refused():
    assert release.problem_with("v9.9") == (
        f"the tag is v9.9, and the version {tinyattn.__version__}: they must agree"
    )


@pytest.mark.parametrize(
    ("heading", "refused"),
    [("0.1.0, 2030-01-31", False), ("0.1.0, not yet released", True), ("0.2.0, 2030-01-31", True)],
)
def test_a_version_needs_its_date_in_the_changelog(monkeypatch, tmp_path, heading, refused):
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n")
    monkeypatch.setattr(release, "version", lambda: "0.1.0")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert (release.problem_with("v0.1.0") is not None) is refused


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    return release.pack_notebooks(tmp_path_factory.mktemp("dist"))


def test_the_notebooks_are_all_there_with_what_they_load(notebooks):
    toc = yaml.safe_load((release.ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [toc["root"], *(one["file"] for part in toc["parts"] for one in part["chapters"])]
    wanted = {f"{name}.ipynb" for name in chapters if (release.ROOT / f"{name}.ipynb").is_file()}
    with ZipFile(notebooks) as packed:
        names = {name.split("/", 1)[1] for name in packed.namelist()}
    assert wanted <= names
    assert {"results/digits.json", "requirements.txt", "README.txt", "LICENSE-text"} <= names


def test_the_wheel_is_named_where_it_lies_beside_the_unpacked_folder(notebooks):
    with ZipFile(notebooks) as packed:
        [name] = [name for name in packed.namelist() if name.endswith("/README.txt")]
        text = packed.read(name).decode()
    assert f" ../tinyattn-{release.version()}-py3-none-any.whl " in text


def test_without_a_browser_a_release_stops_before_anything_is_built(monkeypatch, tmp_path):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr("pdf.problem", lambda: "no browser")
    monkeypatch.setattr(sys, "argv", ["release.py"])
    with pytest.raises(SystemExit, match="no browser"):
        release.main()
    assert list(tmp_path.iterdir()) == []


def test_unpacked_notebooks_find_their_results_beside_an_installed_package(notebooks, tmp_path):
    with ZipFile(notebooks) as packed:
        packed.extractall(tmp_path)
    [home] = tmp_path.iterdir()
    installed = tmp_path / "site"
    installed.mkdir()
    (installed / "records.py").write_bytes(
        (release.ROOT / "src/tinyattn/experiments/records.py").read_bytes()
    )
    code = "import records; print(records.load('digits')['name'])"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=home / "book",
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "digits"


def test_packing_twice_gives_the_same_bytes(notebooks, tmp_path):
    assert release.pack_notebooks(tmp_path).read_bytes() == notebooks.read_bytes()


def test_checksums_are_those_of_the_files(tmp_path):
    (tmp_path / "b.whl").write_bytes(b"two")
    (tmp_path / "a.zip").write_bytes(b"one")
    for _ in range(2):  # its own checksum is not among them
        release.write_checksums(tmp_path)
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    one, two = (hashlib.sha256(data).hexdigest() for data in (b"one", b"two"))
    assert lines == [f"{one}  a.zip", f"{two}  b.whl"]


def test_a_release_holds_all_that_the_changelog_names(monkeypatch, tmp_path):
    def build(command, check):
        for name in ("tinyattn-0.1.0-py3-none-any.whl", "tinyattn-0.1.0.tar.gz"):
            (folder(command) / name).write_bytes(b"built")

    def folder(command):
        path = command[command.index("--outdir") + 1]
        path.mkdir(parents=True, exist_ok=True)
        return path

    def writes(name):
        return lambda site, folder: (folder / name).write_bytes(site.name.encode())

    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "version", lambda: "0.1.0")
    monkeypatch.setattr(release.subprocess, "run", build)
    monkeypatch.setattr("offline.pack", writes("tinyattn-book-0.1.0.zip"))
    monkeypatch.setattr("pdf.problem", lambda: None)
    monkeypatch.setattr("pdf.make", writes("tinyattn-book-0.1.0.pdf"))
    monkeypatch.setattr(sys, "argv", ["release.py"])
    release.main()
    sums = (tmp_path / "dist" / "SHA256SUMS").read_text()
    assert [line.split()[1] for line in sums.splitlines()] == [
        "tinyattn-0.1.0-py3-none-any.whl",
        "tinyattn-0.1.0.tar.gz",
        "tinyattn-book-0.1.0.pdf",
        "tinyattn-book-0.1.0.zip",
        "tinyattn-notebooks-0.1.0.zip",
    ]
