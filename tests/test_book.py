"""The repository as a whole: what must agree between files, and what must not be in any."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import notebooks
import tinyattn

ROOT = Path(__file__).parents[1]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
ENTRIES = [entry for part in TOC["parts"] for entry in part["chapters"]]
SECTIONS = [section for entry in ENTRIES for section in entry.get("sections", [])]
PAGES = [TOC["root"], *(entry["file"] for entry in [*ENTRIES, *SECTIONS])]
CHAPTERS = [page for page in PAGES if (ROOT / f"{page}.ipynb").is_file()]
LESSONS = [
    TOC["root"],
    *(entry["file"] for part in TOC["parts"] if part.get("numbered") for entry in part["chapters"]),
]
INDEX = re.compile(r"download[.]pytorch[.]org")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tracked_texts() -> dict[str, str]:
    """Every text file under version control, but for this one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]
    names = [name for name in names if not name.endswith((".npz", ".png", "tests/test_book.py"))]
    return {name: read(name) for name in names}


def cells(chapter: str) -> list[dict]:
    return json.loads(read(f"{chapter}.ipynb"))["cells"]


# -------------------------------------------------------------------------------- chapters


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_stored_executed_and_in_normal_form(chapter):
    assert notebooks.problems(ROOT / f"{chapter}.ipynb") == []


@pytest.mark.parametrize("chapter", [*LESSONS[1:], "book/appendices/errata"])
def test_a_title_says_how_long_reading_takes_and_leaves_running_to_what_was_measured(chapter):
    """The page's last lines give the seconds of a run that was recorded: one number, never two."""
    title = "".join(cells(chapter)[0]["source"])
    assert re.search(r"\*\*Reading\*\* takes about \d+ minutes", title)
    assert re.search(r"\*\*running\*\* takes\s+stands in the page's last lines", title)
    assert not re.search(r"\b(\d+|half|a) (seconds?|minute)\b", title)
    recorded = json.loads(read("results/chapters.json"))
    assert recorded[f"{chapter}.ipynb"]["seconds"] > 0


def test_every_page_of_the_book_is_in_its_table_of_contents():
    found = [path for kind in ("ipynb", "md") for path in ROOT.glob(f"book/**/*.{kind}")]
    assert sorted(str(path.relative_to(ROOT).with_suffix("")) for path in found) == sorted(PAGES)


@pytest.mark.parametrize("chapter", LESSONS)
def test_a_chapter_has_something_to_manipulate_without_a_kernel(chapter):
    assert "data-tinyattn-widget=" in read(f"{chapter}.ipynb")


def figures(chapter: str) -> dict[int, dict]:
    """What the metadata of each cell that draws a picture say of its figure, by place."""
    return {
        place: cell["metadata"].get("mystnb", {}).get("figure", {})
        for place, cell in enumerate(cells(chapter))
        for output in cell.get("outputs", [])
        if any(kind.startswith("image/") for kind in output.get("data", {}))
    }


@pytest.mark.parametrize("chapter", LESSONS[1:])
def test_a_picture_has_a_name_and_a_caption_and_the_text_speaks_of_it(chapter):
    found = ["".join(cell["source"]) for cell in cells(chapter)]
    for place, figure in figures(chapter).items():
        assert figure.get("caption") or re.match(r"\*[^*]", found[place + 1]), found[place]
        assert any(f"{{numref}}`{figure['name']}`" in text for text in found), figure["name"]


def test_no_two_figures_have_one_name():
    names = [figure["name"] for chapter in LESSONS[1:] for figure in figures(chapter).values()]
    assert len(names) == len(set(names)) > 50


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_imports_only_what_is_installed_for_readers(chapter):
    code = "\n".join(
        "".join(cell["source"]) for cell in cells(chapter) if cell["cell_type"] == "code"
    )
    for tool in ("pytest", "transformers", "nltk", "hypothesis", "beartype"):
        assert not re.search(rf"^\s*(import|from) {tool}\b", code, re.MULTILINE)


# ------------------------------------------------------------------------------ one version


def test_the_version_is_the_same_everywhere():
    version = tinyattn.__version__  # tests/test_package.py compares what is built
    assert yaml.safe_load(read("CITATION.cff"))["version"] == version
    assert re.search(r"^## (\S+?),? ", read("CHANGELOG.md"), re.MULTILINE)[1] == version
    assert re.search(r"version = \{(.+)\}", read("README.md"))[1] == version


def test_the_readme_is_cited_as_the_citation_file_says():
    citation = yaml.safe_load(read("CITATION.cff"))
    stated = dict(re.findall(r"^ {6}(\w+) += \{+(.+?)\}+,?$", read("README.md"), re.MULTILINE))
    assert stated["title"] == citation["title"]
    assert stated["author"] == citation["authors"][0]["name"]
    assert stated["url"] == citation["repository-code"]


def test_the_repository_has_one_address():
    address = yaml.safe_load(read("_config.yml"))["repository"]["url"]
    name = address.rsplit("/", 1)[1]
    for file, text in tracked_texts().items():
        for found in re.findall(rf"https://github\.com/[\w.-]+/{name}\b", text):
            assert found == address, file


def test_workflows_test_the_pinned_and_the_oldest_torch():
    pin = re.search(r"^torch==(\S+)", read("requirements.txt"), re.MULTILINE)[1]
    oldest = re.search(r'"torch>=([\d.]+)"', read("pyproject.toml"))[1]
    tested = re.findall(r'torch: "([\d.]+)"', read(".github/workflows/test.yml"))
    assert pin in tested
    assert any(version.startswith(oldest) for version in tested)
    assert set(tested) <= {pin} | {version for version in tested if version.startswith(oldest)}


# ------------------------------------------------------------------------------- README


def test_commands_that_the_texts_name_exist():
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    for file in ("README.md", "CONTRIBUTING.md", "Makefile"):
        named = set(re.findall(r"(?:`|^ +|\")make ([a-z]+)", read(file), re.MULTILINE))
        assert named, file
        assert named <= targets, file


def test_files_that_the_readme_links_exist():
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", read("README.md")):
        assert (ROOT / target).exists(), target


def test_the_code_in_the_readme_runs():
    block = re.search(r"\n\n((?:    .*\n|\n)*    out = .*\n)", read("README.md"))[1]
    names: dict = {}
    exec(re.sub(r"^    ", "", block, flags=re.MULTILINE), names)  # noqa: S102
    assert names["out"].shape == (1, 8, 16, 64)


# --------------------------------------------------------------------------- what must not be


def test_one_other_host_is_named_only_where_it_is_used_for_installing():
    named = {file for file, text in tracked_texts().items() if INDEX.search(text)}
    assert named <= {"Makefile", "binder/requirements.txt"}


def test_nothing_is_left_to_do_in_the_sources():
    for file, text in tracked_texts().items():
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", text), file
