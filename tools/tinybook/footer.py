"""The last lines of a chapter: how long it runs, on what, when it changed, what tests it."""

import html
import json
import subprocess
from functools import cache
from pathlib import Path

import notebooks
from tinyattn.show.coverage import ENTRIES


def footer(app, pagename: str) -> str:
    """HTML for one chapter; empty for a page that is no notebook."""
    root = Path(app.srcdir)
    notebook = root / f"{pagename}.ipynb"
    if not notebook.is_file():
        return ""
    repository = app.config.html_theme_options["repository_url"]
    source = f"{'../' * pagename.count('/')}_sources/{pagename}.ipynb"
    lines = [
        measured(root, notebook),
        changed(root, f"{pagename}.ipynb", repository),
        tested(pagename.removeprefix("book/"), repository),
        f'<a href="{source}" download>Download this chapter</a> as a notebook (.ipynb)',
    ]
    items = "".join(f"<li>{line}</li>" for line in lines if line)
    return (
        f'<aside class="chapter-facts" aria-label="About this chapter"><ul>{items}</ul></aside>\n'
    )


def measured(root: Path, notebook: Path) -> str:
    """Seconds and memory, if they were measured since the code last changed."""
    file = root / "results" / "chapters.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    found = known.get(notebook.relative_to(root).as_posix())
    if not found or found["code"] != notebooks.code_digest(notebooks.read(notebook)):
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"Runs in {found['seconds']:.0f} seconds with {found['mebibytes']} MiB at most, on one "
        f"thread of a processor without graphics card ({versions}; {found['date']})"
    )


def changed(root: Path, file: str, repository: str) -> str:
    """Date and commit of the last change, where git knows them."""
    known = last_change(root, file)
    if not known:
        return ""
    commit, date = known
    link = f'<a href="{repository}/commit/{commit}"><code>{commit[:7]}</code></a>'
    return f"Last changed on {date} in {link}"


@cache
def last_change(root: Path, file: str) -> tuple[str, str] | None:
    if git(root, "rev-parse", "--is-shallow-repository") != "false":
        return None  # no repository, or one in which all files seem to have changed at once
    words = git(root, "log", "-1", "--no-merges", "--format=%H %cs", "--", file).split()
    return (words[0], words[1]) if words else None


def git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def tested(chapter: str, repository: str) -> str:
    """Links to the tests of what the chapter treats."""
    files = dict.fromkeys(
        file for entry in ENTRIES if entry.chapter == chapter for file in entry.tests
    )
    links = [
        f'<a href="{repository}/blob/main/tests/{html.escape(file)}"><code>{html.escape(file)}</code></a>'
        for file in files
    ]
    return f"Its code is tested in {', '.join(links)}" if links else ""


def add_footer(app, pagename, templatename, context, doctree) -> None:
    if "body" in context:
        context["body"] += footer(app, pagename)


def setup(app) -> None:
    app.connect("html-page-context", add_footer, priority=890)
